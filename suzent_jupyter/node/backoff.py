"""How long to wait before connecting again: exponential backoff with full jitter.

Full jitter (a uniform draw from 0 to the current bound) keeps a thousand devices from returning in step after their
gateway restarts.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Delays between attempts.

    Parameters
    ----------
    first, longest : float
        Seconds: the bound of the first delay, doubled at each attempt, and the bound of all.
    floor : float
        Seconds: no delay is shorter, so that a gateway which accepts and drops at once is not stormed.
    settled : float
        Seconds a connection must live to count as good, after which the bound starts from ``first`` again.
    uniform : callable
        Draws the delay; replaced in tests.
    """

    def __init__(
        self,
        first: float = 1.0,
        longest: float = 30.0,
        *,
        floor: float = 0.1,
        settled: float = 10.0,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.first = first
        self.longest = longest
        self.floor = floor
        self.settled = settled
        self._uniform = uniform
        self._attempt = 0

    def next(self, lived: float) -> float:
        """Return the seconds to wait, given how many the last connection ``lived`` (0 if it never opened)."""
        if lived >= self.settled:
            self._attempt = 0
        bound = min(self.longest, self.first * 2.0 ** min(self._attempt, 32))
        self._attempt += 1
        return max(self.floor, self._uniform(0.0, bound))
