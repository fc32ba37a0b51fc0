"""What a device must sign to prove that it holds its key now, on this socket, for this gateway."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass

_NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Challenge:
    """One, good for a single proof.

    Attributes
    ----------
    nonce : str
        32 random bytes, urlsafe.
    ts : int
        The gateway's clock, in milliseconds since 1970.
    given_at : float
        The same moment as loop time: a wall clock that is set meanwhile changes nothing.
    """

    nonce: str
    ts: int
    given_at: float

    @property
    def age(self) -> float:
        """Seconds since it was given."""
        return asyncio.get_running_loop().time() - self.given_at


def new_challenge() -> Challenge:
    """Return a challenge nobody has seen."""
    now = asyncio.get_running_loop().time()
    return Challenge(secrets.token_urlsafe(_NONCE_BYTES), int(time.time() * 1000), now)
