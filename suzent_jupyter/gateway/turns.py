"""Spreads work over the turns of the event loop, so that neither a burst of calls nor megabytes hold up all else.

A loop runs whatever is ready before it looks at its timers and sockets again. 64 calls that arrive together would be
one turn of many milliseconds; here they take several short ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: From this many bytes on a piece of work counts as large.
LARGE_BYTES = 64 * 1024
_SMALL_EACH_TURN = 4
_PART_EACH_TURN = 16  # of what waits, where that is more: a flood must not pile up


class Turns:
    """Runs a few small jobs and one large one in each turn of the loop: the first at once, the rest as turns come.

    Small jobs keep their order, and so do large ones. A job must not raise.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._small: deque[Callable[[], None]] = deque()
        self._large: deque[Callable[[], None]] = deque()
        self._small_left = _SMALL_EACH_TURN
        self._large_free = True
        self._counting = False

    def small(self, job: Callable[[], None]) -> None:
        """Run a small job now, or in one of the next turns."""
        self._count()
        if self._small_left and not self._small:
            self._small_left -= 1
            job()
        else:
            self._small.append(job)

    def large(self, job: Callable[[], None]) -> None:
        """Run a large job now, or in one of the next turns."""
        if self._takes_large():
            job()
        else:
            self._large.append(job)

    def large_turn(self) -> asyncio.Future[None] | None:
        """Return a future for when the next large job may run; None for now."""
        if self._takes_large():
            return None
        granted = self._loop.create_future()
        self._large.append(lambda: None if granted.done() else granted.set_result(None))
        return granted

    def _takes_large(self) -> bool:
        """Take this turn for a large job, if nobody has or waits for one."""
        self._count()
        free = self._large_free and not self._large
        if free:
            self._large_free = False
        return free

    def _count(self) -> None:
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        run = min(len(self._small), max(_SMALL_EACH_TURN, len(self._small) // _PART_EACH_TURN))
        for _ in range(run):
            self._small.popleft()()
        self._small_left = max(0, _SMALL_EACH_TURN - run)
        self._large_free = not self._large
        if self._large:
            self._large.popleft()()
        self._counting = self._small_left < _SMALL_EACH_TURN or not self._large_free
        if self._counting:
            self._loop.call_soon(self._next)
