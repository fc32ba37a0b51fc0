"""Addresses that lead nowhere, to something else, or back to oneself: told at once, and nothing is kept."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.gateways import ThreadedGateway
from support.joiner import Joiner
from support.running import sync
from websockets.asyncio.server import serve

from suzent_jupyter.server.own_address import OwnAddress


@asynccontextmanager
async def answering(data: bytes | None) -> AsyncIterator[str]:
    """Listen on a port and answer whatever comes with these bytes; None: say nothing."""

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if data is not None:
            writer.write(data)
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def nothing_is_kept(ours: Joiner) -> bool:
    return await ours.connections() == [] and not ours.gateway.run(ours.gateway.service.joining._kept.load())


@sync
async def test_nobody_there(ours: Joiner) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    for address in (f"127.0.0.1:{port}", f"wss://127.0.0.1:{port}", "ws://nowhere.invalid:25314"):
        answer = await ours.connect(address)
        assert (answer["http"], answer["code"], answer["retryable"]) == (502, "gateway_unreachable", True), answer
        assert answer["hint"] and "not found" not in answer["error"].casefold()
    async with answering(None) as address:
        answer = await ours.connect(address)
        assert (answer["code"], "within 3 s" in answer["error"]) == ("gateway_unreachable", True)
    async with answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") as address:
        assert (await ours.connect(address))["code"] == "gateway_unreachable"
    assert time.monotonic() - started < 15
    assert await nothing_is_kept(ours)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/ws/node\r\nContent-Length: 0\r\n\r\n",
    ],
)
@sync
async def test_something_else_there(ours: Joiner, said: bytes) -> None:
    async with answering(said) as address:
        answer = await ours.connect(address)
        assert (answer["http"], answer["code"]) == (502, "not_a_gateway"), answer
        assert "not found" not in answer["error"].casefold()
        secure = await ours.connect(f"wss://{address}")
        assert secure["code"] in ("not_a_gateway", "gateway_unreachable")
    assert await nothing_is_kept(ours)


@sync
async def test_a_gateway_that_refuses_at_once(ours: Joiner) -> None:
    async with serve(lambda ws: _refuse(ws), "127.0.0.1", 0) as server:
        answer = await ours.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert (answer["http"], answer["code"]) == (502, "gateway_refused") and "no devices" in answer["error"]
    assert await nothing_is_kept(ours)


async def _refuse(ws: object) -> None:
    await ws.recv()  # type: ignore[attr-defined]
    await ws.close(1008, "no devices here")  # type: ignore[attr-defined]


@sync
async def test_no_address(ours: Joiner) -> None:
    for address in ("", "ftp://10.0.0.5", "file:///etc/passwd", "ws://", "ws://a b", "http://x:99999", "x" * 3000):
        answer = await ours.connect(address)
        assert (answer["http"], answer["code"]) == (422, "invalid_request"), address
    assert await nothing_is_kept(ours)


@sync
async def test_oneself_by_address(ours: Joiner) -> None:
    port = ours.gateway.service.port
    for host in ("127.0.0.1", "localhost", "127.9.8.7", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"):
        answer = await ours.connect(f"ws://{host}:{port}")
        assert (answer["http"], answer["code"]) == (409, "own_gateway"), host
    assert await nothing_is_kept(ours)


@sync
async def test_oneself_behind_a_tunnel(ours: Joiner) -> None:
    """Another port that leads back here is known by what the handshake says."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", ours.gateway.service.port)
        await asyncio.gather(pipe(reader, forth), pipe(back, writer), return_exceptions=True)

    tunnel = await asyncio.start_server(visit, "127.0.0.1", 0)
    answer = await ours.connect(f"ws://127.0.0.1:{tunnel.sockets[0].getsockname()[1]}")
    assert (answer["http"], answer["code"]) == (409, "own_gateway"), answer
    assert await nothing_is_kept(ours)
    async with ours.gateway.http() as http:
        assert (await http.get("/nodes/pending")).json()["count"] == 0
    tunnel.close()


@sync
async def test_oneself_by_the_jupyter_mount() -> None:
    own = OwnAddress(lambda: {25314}, "http://127.0.0.1:8888/user/ada/suzent")
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert await own.is_meant(f"ws://{host}:8888/user/ada/suzent/ws/node"), host
    assert not await own.is_meant("ws://127.0.0.1:8888/user/eve/suzent/ws/node")
    assert not await own.is_meant("ws://127.0.0.1:8889/user/ada/suzent/ws/node")
    assert not await own.is_meant("ws://192.0.2.1:25314/ws/node")
    assert not await own.is_meant("ws://nowhere.invalid:25314/ws/node")


@sync
async def test_the_same_address_twice_at_once(ours: Joiner, theirs: ThreadedGateway) -> None:
    answers = await asyncio.gather(*(ours.connect(theirs.node_url) for _ in range(4)))
    assert {answer["pairing_code"] for answer in answers} == {answers[0]["pairing_code"]}
    async with theirs.http() as http:
        assert (await http.get("/nodes/pending")).json()["count"] == 1
