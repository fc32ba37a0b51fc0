"""Is the device still there? RFC 6455 ping and pong decide; the protocol's own JSON ping only informs.

A device is dead after a full ``ping_timeout`` without a single received byte since a ping that was really written, or,
when not even a ping can be written, after twice that without a byte moving in either direction.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from ..protocol.limits import Limits
from .transport import Transport

#: A timer that fires this much late says that the loop stood still, not that the other side did.
LATE_LOOP_SECONDS = 1.0
_FIRST_PING_SECONDS = 5.0


class Liveness:
    """Pings one socket and calls ``dead`` once when it is gone.

    Parameters
    ----------
    transport : Transport
        The socket.
    limits : Limits
        ``ping_interval`` and ``ping_timeout``.
    dead : callable
        Called without arguments.
    beat : callable, optional
        Called at every ping, to send the protocol's own.
    """

    def __init__(
        self,
        transport: Transport,
        limits: Limits,
        dead: Callable[[], None],
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._dead = dead
        self._beat = beat
        self._loop = asyncio.get_running_loop()
        self._written_at: float | None = None
        # The first ping comes early, to know the latency, and not at once, since devices often come all together.
        first = random.uniform(0.5, 1) * min(_FIRST_PING_SECONDS, limits.ping_interval)  # noqa: S311
        self._timer = self._loop.call_later(first, self._ping)

    def stop(self) -> None:
        """Stop pinging."""
        self._timer.cancel()

    def _ping(self) -> None:
        self._written_at = None
        if self._beat is not None:
            self._beat()
        pending = self._transport.ping(b"%.6f" % self._loop.time())
        if pending is None:
            self._written()
        else:
            pending.add_done_callback(self._written)
        self._schedule(self._limits.ping_timeout, self._check)

    def _written(self, done: asyncio.Future[None] | None = None) -> None:
        if done is None or (not done.cancelled() and done.exception() is None):
            self._written_at = self._loop.time()

    def _schedule(self, delay: float, callback: Callable[[float], None]) -> None:
        due = self._loop.time() + delay
        self._timer = self._loop.call_at(due, callback, due)

    def _check(self, due: float) -> None:
        now = self._loop.time()
        if now - due > LATE_LOOP_SECONDS:
            # The loop itself stood still: what the device sent meanwhile has not been read yet.
            self._schedule(min(LATE_LOOP_SECONDS, self._limits.ping_timeout), self._check)
            return
        if self._written_at is not None:
            if self._transport.received_at >= self._written_at:
                rest = max(0.0, self._limits.ping_interval - self._limits.ping_timeout)
                self._timer = self._loop.call_later(rest, self._ping)
                return
            silent_since, patience = self._written_at, self._limits.ping_timeout
        else:
            silent_since, patience = self._transport.moved_at, 2 * self._limits.ping_timeout
        if now - silent_since >= patience:
            self._dead()
        else:
            self._schedule(silent_since + patience - now, self._check)
