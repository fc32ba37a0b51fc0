"""Refused attempts to drive the agent: who tried, as far as that is known. The newest are remembered, in memory."""

from __future__ import annotations

from collections import deque

from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ...protocol.peers import UnauthorizedAttempt
from ...protocol.text import clean_text
from ...protocol.wire import decode
from ..clock import now_text

#: The routes on which a refusal is remembered. `whoami` is none: peers ask there whether a token is still good.
WATCHED = frozenset(
    [
        "/chat",
        "/chat/stop",
        "/channels/suzent/inbound",
        "/channels/suzent/inbox",
        "/channels/suzent/session",
        "/channels/suzent/stop",
        "/nodes/peer-invoke",
        "/nodes/peer-offer",
    ]
)
_SMALL = 32 * 1024  # of a body, what is read for the sake of a name
_CHARS = 128


class Unauthorized:
    """The last attempts.

    Parameters
    ----------
    limits : Limits
        ``unauthorized_rows``: how many.
    """

    def __init__(self, limits: Limits) -> None:
        self._attempts: deque[UnauthorizedAttempt] = deque(maxlen=int(limits.unauthorized_rows))

    def record(self, host: str, path: str, body: bytes = b"") -> None:
        """Remember one. ``body`` is what came along, by which the caller may have said who it claims to be."""
        attempt = UnauthorizedAttempt(
            at=now_text(), host=clean_text(host, _CHARS), claimed_id=_claimed(body), path=path
        )
        self._attempts.append(attempt)

    def newest_first(self) -> list[UnauthorizedAttempt]:
        """Return them."""
        return list(reversed(self._attempts))


def _claimed(body: bytes) -> str:
    if not 0 < len(body) <= _SMALL:
        return ""
    try:
        value = decode(body)
    except SuzentError:
        return ""
    return clean_text(value.get("from_id"), _CHARS) if isinstance(value, dict) else ""
