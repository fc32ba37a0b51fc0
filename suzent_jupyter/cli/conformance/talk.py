"""A WebSocket that remembers: every frame that came, when it came, and how it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from ...protocol.errors import SuzentError
from ...protocol.wire import decode, encode

Frame: TypeAlias = dict[str, Any]


class Talk:
    """One side of a conversation, read in the background.

    Attributes
    ----------
    frames : list of dict
        Every JSON object that arrived, with its arrival (monotonic seconds) under the same index of ``times`` and its
        length in bytes in ``sizes``.
    close_code : int, optional
        How the other side ended it; None while it is open.
    """

    def __init__(self, socket: Connection) -> None:
        self.socket = socket
        self.frames: list[Frame] = []
        self.times: list[float] = []
        self.sizes: list[int] = []
        self.close_code: int | None = None
        self.close_reason = ""
        self.closed_at = 0.0
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    def heard(self, frame: Frame) -> None:
        """Do something at once about a frame; for subclasses."""

    async def send(self, frame: Frame | str | bytes) -> None:
        """Send a frame: an object as JSON, text and bytes as they are."""
        if isinstance(frame, dict):
            await self.socket.send(encode(frame), text=True)
        else:
            await self.socket.send(frame)

    async def wait_for(self, matches: Callable[[Frame], Any], *, seconds: float = 5.0, after: int = 0) -> Frame:
        """Return the first frame, counted from ``after``, that matches.

        Raises
        ------
        TimeoutError
            When none came in time.
        ConnectionError
            When the connection ended before.
        """
        async with asyncio.timeout(seconds), self._news:
            while True:
                for frame in self.frames[after:]:
                    if matches(frame):
                        return frame
                if self.close_code is not None:
                    raise ConnectionError(f"closed with {self.close_code} {self.close_reason}".rstrip())
                await self._news.wait()

    async def next(self, kind: str, *, seconds: float = 5.0, after: int = 0) -> Frame:
        """Return the first frame of this type, counted from ``after``."""
        return await self.wait_for(lambda frame: frame.get("type") == kind, seconds=seconds, after=after)

    async def ended(self, seconds: float = 5.0) -> int:
        """Return the close code, once the other side has closed (1006: without a close frame)."""
        async with asyncio.timeout(seconds):
            await asyncio.shield(self._reader)
        return self.close_code or 1006

    async def alive(self, seconds: float = 5.0) -> bool:
        """Tell whether the other side answers a ping (RFC 6455 section 5.5.2)."""
        try:
            async with asyncio.timeout(seconds):
                await (await self.socket.ping())
        except (TimeoutError, ConnectionClosed):
            return False
        return True

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close with a close frame."""
        await self.socket.close(code, reason)
        await asyncio.shield(self._reader)

    def abort(self) -> None:
        """Drop the connection without a word."""
        self.socket.transport.abort()

    async def _read(self) -> None:
        try:
            while True:
                data = await self.socket.recv(decode=False)
                try:
                    frame = decode(data)
                except SuzentError:
                    continue
                if isinstance(frame, dict):
                    self.times.append(time.monotonic())
                    self.sizes.append(len(data))
                    self.frames.append(frame)
                    self.heard(frame)
                    await self._tell()
        except ConnectionClosed as closed:
            self.close_code = closed.rcvd.code if closed.rcvd else 1006
            self.close_reason = closed.rcvd.reason if closed.rcvd else ""
        self.closed_at = time.monotonic()
        await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()
