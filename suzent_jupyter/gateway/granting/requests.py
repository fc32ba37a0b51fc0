"""Control requests of other gateways that wait for the operator; kept in memory alone, tokens not yet fetched too.

A request stands for exactly what was shown with it. How it ended is remembered, so that a late answer says why.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ..changes import Changes
from ..clock import now_text
from ..households import counted_as
from ..pairing import new_code
from ..principals import Principal

_ID_BYTES = 24
_LONGEST_RETRY = 60.0  # the operator may answer long before a request's time is over

_ENDED = {
    "expired": ("request_expired", "This control request has expired."),
    "replaced": ("request_expired", "This control request was replaced: the other side has asked again since."),
    "denied": ("request_decided", "This control request was denied."),
    "approved": ("request_decided", "This control request was approved already."),
    "deciding": ("request_decided", "This control request is being answered already."),
}


@dataclass(slots=True, eq=False)
class GrantEntry:
    """One control request.

    Attributes
    ----------
    name, addr, identity : str
        What the one who asks says of itself, cleaned. It proves nothing.
    host : str
        Where the request came from; that much is known.
    limited : bool
        Whether its address counts: not where many share one.
    account : str or None
        Whose it is; None while it belongs to nobody yet.
    status : str
        ``pending``, ``approved`` or ``denied``.
    token : str or None
        Of an approved one, until it is fetched.
    device_id : str
        Of an approved one, the grant.
    """

    name: str
    host: str
    limited: bool
    account: str | None
    addr: str = ""
    identity: str = ""
    request_id: str = field(default="", repr=False)  # the token is fetched with it
    code: str = ""
    requested_at: str = ""
    expires_at: str = ""
    status: Literal["pending", "approved", "denied"] = "pending"
    deciding: bool = False
    token: str | None = field(default=None, repr=False)
    device_id: str = ""
    timer: asyncio.TimerHandle | None = None

    def asks_again(self, other: GrantEntry) -> bool:
        """Tell whether this is another request of the same gateway from the same place."""
        return (
            bool(self.identity or self.addr)
            and (self.identity, self.addr, self.host) == (other.identity, other.addr, other.host)
            and not other.deciding
        )


class GrantRequests:
    """The waiting room of those who ask for control.

    Parameters
    ----------
    limits : Limits
        ``grant_requests``, ``grant_requests_per_address``, ``grant_request_ttl``.
    changes : Changes
        Told of what comes and goes, topic ``grants``.
    shown : callable
        Makes the item of a change.
    taken : callable
        Tells whether a code is in use for something else.
    """

    def __init__(
        self,
        limits: Limits,
        changes: Changes,
        shown: Callable[[GrantEntry], dict[str, Any]],
        taken: Callable[[str], bool],
    ) -> None:
        self._limits = limits
        self._changes = changes
        self._shown = shown
        self._taken = taken
        self._by_id: dict[str, GrantEntry] = {}
        self._by_code: dict[str, GrantEntry] = {}
        #: By id and by code: how it ended, and whose it was.
        self._ended: OrderedDict[str, tuple[str, str | None]] = OrderedDict()

    def add(self, entry: GrantEntry) -> bool:
        """Let a request wait; False if it takes the place of an earlier one of the same gateway.

        Raises
        ------
        SuzentError
            ``too_many_requests``, with ``retry_after`` in seconds.
        """
        waiting = list(self._waiting())
        former = [other for other in waiting if entry.asks_again(other)]
        others = [other for other in waiting if other not in former]
        if len(others) >= self._limits.grant_requests:
            raise self._full(others, f"{len(others)} control requests wait already.")
        if entry.limited:
            home = counted_as(entry.host)
            same = [other for other in others if counted_as(other.host) == home]
            if len(same) >= self._limits.grant_requests_per_address:
                raise self._full(same, f"{len(same)} control requests of this address wait already.")
        for other in former:
            self._forget(other, "replaced")
        entry.request_id = secrets.token_urlsafe(_ID_BYTES)
        entry.code = new_code(self._limits, lambda code: self.knows(code) or self._taken(code))
        entry.requested_at = now_text()
        entry.expires_at = now_text(self._limits.grant_request_ttl)
        entry.timer = asyncio.get_running_loop().call_later(self._limits.grant_request_ttl, self._expire, entry)
        self._by_id[entry.request_id] = self._by_code[entry.code] = entry
        self._tell("added", entry)
        return not former

    def visible(self, principal: Principal) -> list[GrantEntry]:
        """Return what waits and may be shown to a caller, oldest first."""
        return [entry for entry in self._waiting() if _may_see(principal, entry)]

    def knows(self, code: str) -> bool:
        """Tell whether a code is, or was until lately, one of these."""
        return code in self._by_code or code in self._ended

    def find(self, principal: Principal, reference: str) -> GrantEntry:
        """Return the waiting request of an id or code.

        Raises
        ------
        SuzentError
            ``request_expired``, ``request_decided`` or ``request_unknown``.
        """
        wanted = reference.strip()
        code = wanted.upper()
        entry = self._by_id.get(wanted) or self._by_code.get(code)
        how, account = "", None
        if entry is not None:
            account = entry.account
            how = "deciding" if entry.deciding else entry.status
        else:
            how, account = self._ended.get(wanted) or self._ended.get(code) or ("", None)
        # Whoever enters the exact code of a request that belongs to nobody yet was told it.
        if not how or account not in (None, principal.account):
            raise SuzentError("request_unknown", f"No control request waits with the id or code '{wanted[:64]}'.")
        if entry is not None and how == "pending":
            return entry
        error_code, message = _ENDED[how]
        raise SuzentError(error_code, message)

    def take(self, request_id: str) -> tuple[Literal["pending", "approved", "denied"], str | None]:
        """Return how a request stands, for the one who asked, and its token, which is given out once.

        Raises
        ------
        SuzentError
            ``request_unknown``, also where its time is over.
        """
        entry = self._by_id.get(request_id)
        if entry is None:
            raise SuzentError("request_unknown", "This control request is unknown or has expired.")
        token, entry.token = entry.token, None
        return entry.status, token

    @contextmanager
    def deciding(self, entry: GrantEntry) -> Iterator[None]:
        """Keep a request from a second answer, and from expiring, while the first one is written."""
        entry.deciding = True
        try:
            yield
        finally:
            entry.deciding = False
            if entry.timer is not None and entry.timer.when() <= asyncio.get_running_loop().time():
                self._expire(entry)

    def approve(self, entry: GrantEntry, device_id: str, token: str, account: str) -> None:
        """Take note that a request was approved: its token waits to be fetched."""
        entry.status, entry.device_id, entry.token, entry.account = "approved", device_id, token, account
        self._tell("removed", entry)

    def deny(self, entry: GrantEntry, account: str) -> None:
        """Take note that a request was denied."""
        entry.status, entry.account = "denied", account
        self._tell("removed", entry)

    def revoked(self, device_id: str) -> None:
        """Give no token out whose grant has ended since."""
        for entry in self._by_id.values():
            if entry.device_id == device_id:
                entry.status, entry.token = "denied", None

    def close(self) -> None:
        """Forget all of them."""
        for entry in self._by_id.values():
            if entry.timer is not None:
                entry.timer.cancel()
        self._by_id.clear()
        self._by_code.clear()

    def _waiting(self) -> Iterator[GrantEntry]:
        return (entry for entry in self._by_id.values() if entry.status == "pending")

    def _full(self, waiting: list[GrantEntry], message: str) -> SuzentError:
        now = asyncio.get_running_loop().time()
        first = min((entry.timer.when() for entry in waiting if entry.timer is not None), default=now)
        after = math.ceil(min(max(first - now, 1.0), _LONGEST_RETRY))
        return SuzentError("too_many_requests", message, details={"retry_after": after})

    def _expire(self, entry: GrantEntry) -> None:
        if not entry.deciding:
            self._forget(entry, "expired" if entry.status == "pending" else entry.status)

    def _forget(self, entry: GrantEntry, how: str) -> None:
        if self._by_id.pop(entry.request_id, None) is None:
            return
        del self._by_code[entry.code]
        entry.token = None
        if entry.timer is not None:
            entry.timer.cancel()
        for key in (entry.request_id, entry.code):
            self._ended[key] = how, entry.account
        while len(self._ended) > 2 * self._limits.codes_remembered:
            self._ended.popitem(last=False)
        if entry.status == "pending":
            self._tell("removed", entry)

    def _tell(self, kind: str, entry: GrantEntry) -> None:
        self._changes.publish("grants", kind, lambda: self._shown(entry), lambda principal: _may_see(principal, entry))


def _may_see(principal: Principal, entry: GrantEntry) -> bool:
    return entry.account is not None and entry.account == principal.account
