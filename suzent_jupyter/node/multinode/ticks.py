"""Signs of life: this side says ``tick`` as often as the gateway's policy asks, and listens for its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from websockets.exceptions import ConnectionClosed

from ...protocol.limits import Limits
from ...protocol.wire import encode
from ..verdicts import Lost

_LIMITS = Limits()
_SLACK = 0.5  # of an interval: a tick may be on its way


class Ticks:
    """Those of one connection.

    Parameters
    ----------
    send : callable
        Sends one frame.
    interval : float
        Seconds between two ticks.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], interval: float) -> None:
        self._send = send
        self._interval = interval
        self._patience = interval * (_LIMITS.ticks_missed + _SLACK)
        self._heard = time.monotonic()

    def heard(self) -> None:
        """Take note of any frame: it shows as much as a tick."""
        self._heard = time.monotonic()

    async def send(self) -> None:
        """Send ticks until the connection is gone."""
        try:
            while True:
                await asyncio.sleep(self._interval)
                await self._send(encode({"type": "tick", "ts": int(time.time() * 1000)}))
        except ConnectionClosed:
            pass  # whoever reads finds out what that means

    async def watch(self) -> None:
        """Return never.

        Raises
        ------
        Lost
            When so many ticks in a row are missing that the gateway must be gone.
        """
        while True:
            left = self._heard + self._patience - time.monotonic()
            if left <= 0:
                raise Lost(f"nothing was heard of the gateway for {self._patience:.3g} s")
            await asyncio.sleep(left)
