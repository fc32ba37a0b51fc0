"""Is the other end of a ``/ws/gateway`` socket still there? Its program must say so itself.

An RFC 6455 pong is sent by a library even where the program behind it hangs, so it does not count. A frame that is
under way does: its bytes move, although it may take minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...protocol.limits import Limits
from ..liveness import LATE_LOOP_SECONDS
from ..transport import Transport


class Ticks:
    """Sends ticks, and calls ``dead`` once when ``ticks_missed`` intervals in a row have passed in silence.

    Parameters
    ----------
    transport : Transport
        The socket.
    limits : Limits
        ``tick_interval`` and ``ticks_missed``.
    beat : callable
        Called at every interval, to send the gateway's own.
    dead : callable
        Called without arguments.
    """

    def __init__(
        self, transport: Transport, limits: Limits, beat: Callable[[], None], dead: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._beat = beat
        self._dead = dead
        self._loop = asyncio.get_running_loop()
        self._missed = 0
        self._seen = transport.content_bytes
        self._schedule(limits.tick_interval)

    def stop(self) -> None:
        """Stop ticking."""
        self._timer.cancel()

    def _schedule(self, delay: float) -> None:
        due = self._loop.time() + delay
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        if self._loop.time() - due > LATE_LOOP_SECONDS:
            # The loop itself stood still: what came meanwhile has not been read yet.
            self._schedule(min(LATE_LOOP_SECONDS, self._limits.tick_interval))
            return
        moved = self._transport.content_bytes
        self._missed = 0 if moved > self._seen else self._missed + 1
        self._seen = max(self._seen, moved)
        if self._missed >= self._limits.ticks_missed:
            self._dead()
            return
        self._schedule(self._limits.tick_interval)
        self._beat()
