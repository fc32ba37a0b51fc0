"""Single-use tickets: what a pairing link carries to say that the operator invited the device.

A ticket never approves. It marks a waiting device as invited, names the account that invited it, and lets it wait
where strangers may not. Tickets live in memory: a restart ends them all, and no file can give one away.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from ..protocol.limits import Limits
from .clock import now_text
from .tokens import token_digest

_BYTES = 32
_CHARS = 128  # of what a device sends; ours take 43
_ENDED = 256  # digests remembered, to say how a ticket ended

_WHY = {
    "used": "The pairing link was used already; ask for a new one.",
    "expired": "The pairing link has expired; ask for a new one.",
    "unknown": "The ticket of the pairing link is unknown here; ask for a new link.",
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """A valid ticket as the gateway keeps it; its text is known to whoever was given it.

    Attributes
    ----------
    account : str
        Who invites.
    name : str
        Whom or what the invitation is for, in the operator's words; ``""`` for none.
    expires_at : str
        UTC, ISO 8601.
    due : float
        The same on the monotonic clock.
    """

    digest: bytes
    account: str
    name: str
    expires_at: str
    due: float


@dataclass(frozen=True, slots=True)
class Invitation:
    """A ticket with its text, for a pairing link."""

    ticket: Ticket
    text: str = field(repr=False)


class Tickets:
    """The tickets of one gateway. Only digests are kept, but for the one invitation of each account that is on show."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._valid: dict[str, OrderedDict[bytes, Ticket]] = {}
        self._ended: OrderedDict[bytes, str] = OrderedDict()
        self._current: dict[str, Invitation] = {}

    def mint(self, account: str, name: str = "") -> Invitation:
        """Make a ticket; an account that has too many loses its oldest."""
        self._sweep()
        text = secrets.token_urlsafe(_BYTES)
        life = self._limits.ticket_ttl
        ticket = Ticket(token_digest(text), account, name, now_text(life), time.monotonic() + life)
        own = self._valid.setdefault(account, OrderedDict())
        own[ticket.digest] = ticket
        while len(own) > self._limits.tickets:
            self._end(next(iter(own.values())), "expired")
        return Invitation(ticket, text)

    def current(self, account: str) -> Invitation:
        """Return the invitation an account has on show: the same one until it is used or half its life is over."""
        shown = self._current.get(account)
        if (
            shown is None
            or self._find(shown.ticket.digest) is None
            or shown.ticket.due - time.monotonic() < self._limits.ticket_ttl / 2
        ):
            shown = self._current[account] = self.mint(account)
        return shown

    def read(self, text: object) -> tuple[Ticket | None, str]:
        """Return the valid ticket that ``text`` is, or None and a sentence that says why it is none."""
        if not isinstance(text, str) or not 0 < len(text) <= _CHARS:
            return None, _WHY["unknown"]
        self._sweep()
        digest = token_digest(text)
        ticket = self._find(digest)
        return (ticket, "") if ticket is not None else (None, _WHY[self._ended.get(digest, "unknown")])

    def use(self, ticket: Ticket) -> None:
        """End a ticket: it has brought in its device."""
        self._end(ticket, "used")

    def __len__(self) -> int:
        return sum(map(len, self._valid.values()))

    def _find(self, digest: bytes) -> Ticket | None:
        return next((own[digest] for own in self._valid.values() if digest in own), None)

    def _end(self, ticket: Ticket, how: str) -> None:
        own = self._valid.get(ticket.account)
        if own is None or own.pop(ticket.digest, None) is None:
            return
        if not own:
            del self._valid[ticket.account]
        shown = self._current.get(ticket.account)
        if shown is not None and shown.ticket is ticket:
            del self._current[ticket.account]
        self._ended[ticket.digest] = how
        while len(self._ended) > _ENDED:
            self._ended.popitem(last=False)

    def _sweep(self) -> None:
        now = time.monotonic()
        for ticket in [ticket for own in self._valid.values() for ticket in own.values() if ticket.due <= now]:
            self._end(ticket, "expired")
