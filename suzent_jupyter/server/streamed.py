"""Bodies that an endpoint takes as they come: their sender waits for whoever takes them, so memory stays flat."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.httputil import HTTPServerRequest

_MARK = "suzent_file"
_DROPPED = 256 * 1024 * 1024  # read and dropped beyond what is taken, so that whoever sends gets to read why


class BodyPieces:
    """A body's pieces, one at a time; an async iterator of them."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(1)

    def __aiter__(self) -> BodyPieces:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._waiting.get()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def put(self, piece: bytes, taking: asyncio.Future[None]) -> None:
        """Hand on a piece, ``b""`` for the end; dropped once whoever took them is done with it, or has refused."""
        if taking.done():
            return
        handing = asyncio.ensure_future(self._waiting.put(piece))
        await asyncio.wait([handing, taking], return_when=asyncio.FIRST_COMPLETED)
        handing.cancel()


def let_through(request: HTTPServerRequest, most: int) -> None:
    """Have a request's body be as large as ``most`` bytes, and take as long as it takes: its sender is known."""
    setattr(request, _MARK, True)
    connection: Any = request.connection
    connection.set_max_body_size(most + _DROPPED)


def is_file(request: HTTPServerRequest) -> bool:
    """Tell whether :meth:`let_through` was called for it."""
    return hasattr(request, _MARK)
