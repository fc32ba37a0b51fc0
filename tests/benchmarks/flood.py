"""Strangers that flood a gateway: without end. ``PORT half-open|tokens|silent``."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys

import websockets

from .lean import LeanClient

HALF_OPEN = 5000


async def half_open(port: int) -> None:
    """Keep 5,000 connections open that never finish their request; a closed one is replaced."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, HALF_OPEN + 1000)), hard))
    heads = (b"", b"GET /ws/node HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
    kept: list[asyncio.StreamWriter] = []
    number = 0
    while True:
        with contextlib.suppress(OSError):
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heads[number % 3])
            kept.append(writer)
        number += 1
        if number == 500:
            print("ready", flush=True)
        if len(kept) > HALF_OPEN:
            kept.pop(0).transport.abort()


async def tokens(port: int) -> None:
    """Ask with one bad token after the other, over four connections."""

    async def ask(start: int) -> None:
        for number in range(start, sys.maxsize, 4):
            client = await LeanClient(port, "/nodes/x/invoke", f"szt_{number:043d}").open()
            with contextlib.suppress(RuntimeError):  # the refusal
                await client.post(b"{}")
            client.close()

    print("ready", flush=True)
    await asyncio.gather(*(ask(start) for start in range(4)))


async def silent(port: int) -> None:
    """Open device sockets one after the other and say nothing."""
    kept: list[websockets.ClientConnection] = []
    print("ready", flush=True)
    while True:
        with contextlib.suppress(OSError, websockets.WebSocketException):
            kept.append(
                await websockets.connect(f"ws://127.0.0.1:{port}/ws/node", compression=None, ping_interval=None)
            )
        if len(kept) > 700:
            kept.pop(0).transport.abort()


if __name__ == "__main__":
    kinds = {"half-open": half_open, "tokens": tokens, "silent": silent}
    asyncio.run(kinds[sys.argv[2]](int(sys.argv[1])))
