"""A server on a free port that answers every request with whatever bytes a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, status: str = "200 OK", *headers: str) -> Reply:
    """Return a reply of ordinary HTTP."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode()

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)

    return reply


def raw(data: bytes) -> Reply:
    """Return a reply of bytes, after which it hangs up."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return reply


async def hang(writer: asyncio.StreamWriter) -> None:
    """Say nothing until the other side has gone."""
    await writer.wait_closed()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, so that no time between two of them ever gets long."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n{")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


def endless(size: int) -> Reply:
    """Return a reply of one line of ``size`` bytes that is announced by nothing."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"a": "')
        piece = b"x" * 65536
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()

    return reply


class HostilePeer:
    """Use as ``async with HostilePeer(reply) as peer``; :attr:`requests` holds what was asked, head and body."""

    def __init__(self, reply: Reply, **options: Any) -> None:
        self.reply = reply
        self.requests: list[bytes] = []
        self._options = options
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> HostilePeer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._options)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"http{'s' if self._options.get('ssl') else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(size))
                await self.reply(writer)
                await writer.drain()
        finally:
            self._tasks.discard(task)
            writer.close()
