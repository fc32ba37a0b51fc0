"""The socket as the gateway sees it. The server implements it; nothing here knows Tornado."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Transport(Protocol):
    """One WebSocket.

    Attributes
    ----------
    remote : str
        The peer's address, for people and for limits.
    local : bool
        Whether the peer is on this machine and speaks for itself: loopback, and no proxy between.
    limited : bool
        Whether limits per address apply; not for loopback and proxies, where many devices share one.
    received_at : float
        Loop time of the last byte that came in, of whatever frame.
    content_bytes : int
        Bytes that came in, without those of pings and pongs.
    moved_at : float
        Loop time of the last byte that moved in either direction.
    """

    remote: str
    local: bool
    limited: bool
    received_at: float
    content_bytes: int
    moved_at: float

    def send(self, *parts: bytes | memoryview) -> asyncio.Future[None] | None:
        """Send one text frame, given in parts so that nobody need copy megabytes to put them together.

        Returns None if the socket took all of it, else a future for when it has.
        """

    def ping(self, payload: bytes) -> asyncio.Future[None] | None:
        """Send an RFC 6455 ping; returns as :meth:`send`."""

    def close(self, code: int, reason: str = "") -> None:
        """Close with a code; never raises, also when closed already."""

    def allow_bytes(self, maximum: int) -> None:
        """Set the largest message the socket reads from now on."""
