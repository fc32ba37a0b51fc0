"""A server that says exactly what a test wants it to, byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNKED_HEAD = STREAM_HEAD.replace(b"Connection: close", b"Transfer-Encoding: chunked")


def chunk(data: bytes) -> bytes:
    """Return one chunk (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(status: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    """Return a whole answer."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body


def playing_suzent(rest: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]) -> Any:
    """Play a gateway that grants control to whoever asks, and does with everything else what ``rest`` does."""

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        answers: dict[bytes, dict[str, Any]] = {
            b"POST /nodes/grant-request ": {"request_id": "r", "status": "pending"},
            b"GET /nodes/grant-status/r ": {"status": "approved", "token": "szt_given", "node_identity": "them"},
            b"GET /channels/suzent/whoami ": {"ok": True, "peer_id": "us"},
        }
        for start, body in answers.items():
            if head.startswith(start):
                writer.write(whole("200 OK", json.dumps(body).encode()))
                return
        await rest(head, writer)

    return play


class RawServer:
    """Hands each request's head and body to a function that writes the answer; the connection closes after it.

    Use as ``async with RawServer(play) as server``; then :attr:`url`. What was asked is in :attr:`requests`.
    """

    def __init__(self, play: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]], **options: Any) -> None:
        self._play = play
        self._options = options
        self.requests: list[Any] = []
        self.hung_up = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._options)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._options.get('ssl') else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()

    def _heard(self, head: bytes, body: bytes) -> None:
        self.requests.append((head, body))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            self._heard(head, await reader.readexactly(length))
            await self._play(head, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.hung_up.set()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
