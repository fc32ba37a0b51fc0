"""Bytes between a client and the gateway: none lost, none hoarded, and both ends learn of the other's."""

from __future__ import annotations

import asyncio
import socket

import pytest
from support.running import sync, until
from tornado.iostream import IOStream

from suzent_jupyter.server.single.guest import splice


def ends() -> tuple[IOStream, socket.socket]:
    near, far = socket.socketpair()
    far.setblocking(False)
    return IOStream(near), far


@sync
async def test_who_reads_nothing_holds_up_who_sends_and_nothing_else() -> None:
    (client, client_far), (gateway, gateway_far) = ends(), ends()
    spliced = asyncio.create_task(splice(client, gateway))
    loop, block, taken = asyncio.get_running_loop(), b"x" * 2**16, 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            while taken < 64 * 2**20:
                await loop.sock_sendall(client_far, block)
                taken += len(block)
    assert taken < 8 * 2**20
    # The other way is free.
    await loop.sock_sendall(gateway_far, b"event")
    assert await loop.sock_recv(client_far, 100) == b"event"
    client_far.close()
    gateway_far.close()
    async with asyncio.timeout(5):
        await spliced


@sync
async def test_the_last_words_arrive_before_the_end() -> None:
    (client, client_far), (gateway, gateway_far) = ends(), ends()
    spliced = asyncio.create_task(splice(client, gateway))
    loop, words = asyncio.get_running_loop(), b"y" * 3 * 2**20

    async def read_all() -> bytes:
        parts = []
        while part := await loop.sock_recv(client_far, 2**16):
            parts.append(part)
        return b"".join(parts)

    reading = asyncio.create_task(read_all())
    await loop.sock_sendall(gateway_far, words)
    gateway_far.close()
    assert await asyncio.wait_for(reading, 10) == words
    await asyncio.wait_for(spliced, 5)
    assert gateway.closed()
    client_far.close()


@sync
async def test_who_hangs_up_is_hung_up_on() -> None:
    (client, client_far), (gateway, gateway_far) = ends(), ends()
    spliced = asyncio.create_task(splice(client, gateway))
    client_far.close()
    assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(gateway_far, 10), 5) == b""
    await asyncio.wait_for(spliced, 5)
    await until(client.closed)
    gateway_far.close()
