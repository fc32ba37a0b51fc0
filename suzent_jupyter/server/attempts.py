"""Bad tokens, counted by address: whoever sends too many is told to wait.

A token is looked up before it is counted, so a valid one works whatever others of the same address have tried.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from ..gateway.households import counted_as
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits

_WINDOW = 60.0
_ADDRESSES = 1024


class BadTokens:
    """Counts them over a minute at a time.

    Parameters
    ----------
    limits : Limits
        ``bad_tokens_per_address``, and ``bad_tokens_shared`` for addresses that many share.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, address: str, shared: bool) -> None:
        """Count one.

        Raises
        ------
        SuzentError
            ``too_many_attempts``, with ``retry_after`` in seconds.
        """
        now = time.monotonic()
        key = "" if shared else counted_as(address)
        began, count = self._counts.get(key, (now, 0))
        if now - began >= _WINDOW:
            began, count = now, 0
        self._counts[key] = began, count + 1
        self._counts.move_to_end(key)
        while len(self._counts) > _ADDRESSES:
            self._counts.popitem(last=False)
        if count >= (self._limits.bad_tokens_shared if shared else self._limits.bad_tokens_per_address):
            wait = math.ceil(began + _WINDOW - now)
            raise SuzentError(
                "too_many_attempts", "Too many bad tokens came from this address.", details={"retry_after": wait}
            )
