"""What was sent on a socket and is not written yet, in bytes: a peer that does not read must not fill our memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .transport import Transport


class Outbox:
    """Sends, and counts what the socket did not take at once.

    Parameters
    ----------
    transport : Transport
        The socket.
    on_written : callable, optional
        Called each time some of it has been written, or never will be.

    Attributes
    ----------
    unsent : int
        Bytes that wait.
    """

    def __init__(self, transport: Transport, on_written: Callable[[], None] | None = None) -> None:
        self._transport = transport
        self._on_written = on_written
        self.unsent = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def send(self, *parts: bytes | memoryview) -> None:
        """Send one text frame, given in parts; what breaks the socket is reported by its close."""
        pending = self._transport.send(*parts)
        if pending is None:
            return
        size = sum(map(len, parts))
        self.unsent += size

        def written(done: asyncio.Future[None]) -> None:
            self.unsent -= size
            if not done.cancelled():
                done.exception()
            if self._on_written is not None:
                self._on_written()
            waiting, self._waiting = self._waiting, set()
            for each in waiting:
                if not each.done():
                    each.set_result(None)

        pending.add_done_callback(written)

    async def room(self, most: int) -> None:
        """Wait until no more than ``most`` bytes wait."""
        while self.unsent > most:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)
