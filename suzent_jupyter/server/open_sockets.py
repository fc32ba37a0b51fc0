"""Every WebSocket that is open, so that a stopping server can see them all gone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sockets import SocketTransport

#: How long the other side has to answer our close frame before the connection is cut.
CLOSE_SECONDS = 1.0


class OpenSockets:
    """The transports that are open."""

    def __init__(self) -> None:
        self._open: set[SocketTransport] = set()
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transport: SocketTransport) -> None:
        """Take one that was opened."""
        self._open.add(transport)
        self._empty.clear()

    def discard(self, transport: SocketTransport | None) -> None:
        """Forget one that is closed."""
        if transport is not None:
            self._open.discard(transport)
        if not self._open:
            self._empty.set()

    async def close(self) -> None:
        """Wait until all are closed, which they were told to; cut off whoever takes longer than a second."""
        if not self._open:
            return
        try:
            await asyncio.wait_for(self._empty.wait(), CLOSE_SECONDS)
        except TimeoutError:
            for transport in list(self._open):
                transport.abort()
            # Tornado's reading loops notice in their next turns.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), CLOSE_SECONDS / 2)
