"""How often a peer may change its mind before that is no news any more."""

from __future__ import annotations

import time
from collections import deque

_FLIPS, _FLIPS_SECONDS = 8, 600.0


class Flips:
    """How often each peer may change its mind on our token for that to be written down."""

    def __init__(self) -> None:
        self._at: dict[str, deque[float]] = {}

    def allows(self, peer_id: str) -> bool:
        """Tell whether a further change is written; that counts as one."""
        times, now = self._at.setdefault(peer_id, deque(maxlen=_FLIPS)), time.monotonic()
        if len(times) == _FLIPS and now - times[0] < _FLIPS_SECONDS:
            return False
        times.append(now)
        return True

    def forget(self, peer_id: str) -> None:
        """Forget a peer that is gone."""
        self._at.pop(peer_id, None)
