"""A server on a free port that answers every request with whatever bytes a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from .raw_server import RawServer

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


class HostilePeer(RawServer):
    """Use as ``async with HostilePeer(reply) as peer``; ``requests`` holds what was asked, head and body in one."""

    def __init__(self, reply: Reply, **options: Any) -> None:
        super().__init__(lambda head, writer: self.reply(writer), **options)
        self.reply = reply

    def _heard(self, head: bytes, body: bytes) -> None:
        self.requests.append(head + body)
