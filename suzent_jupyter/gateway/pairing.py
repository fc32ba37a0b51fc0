"""Devices, and new commands of known devices, that wait for the operator; and the codes they wait under.

A code stands for exactly what was shown with it. How a code ended is remembered, so that a late answer says why.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..protocol.capabilities import CapabilitySchema
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.rest import PendingNodeInfo
from .changes import Changes
from .clock import now_text
from .households import counted_as
from .principals import Principal

if TYPE_CHECKING:
    from .node_link import NodeLink

# Without I, L, O, U, 0 and 1: nothing to confuse when read out loud or typed on a phone.
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"

_ENDED = {
    "expired": ("code_expired", "The code {code} has expired."),
    "denied": ("code_denied", "The code {code} was denied."),
    "used": ("code_used", "The code {code} was approved already."),
    "gone": ("code_gone", "The device that showed the code {code} has hung up."),
    "replaced": ("code_gone", "The code {code} was replaced: the device changed its commands again."),
}


@dataclass(slots=True, eq=False)
class Pending:
    """One entry of ``GET /nodes/pending``.

    Attributes
    ----------
    kind : str
        ``device``, or ``capabilities`` for new commands of a device that is connected.
    account : str or None
        Whose it is; None while it belongs to nobody yet.
    refuse : callable
        Brings a refusal to the socket: ``denied``, ``expired`` or ``stopping``.
    link : NodeLink
        The socket that waits; the entry lives as long as it does.
    frame : dict
        The connect frame.
    invited : bool
        Whether it came by a pairing link; ``invitation`` is the name of that.
    wanted_scope : str
        Who, as a node of ``/ws/gateway`` wishes, may see it.
    """

    display_name: str
    platform: str
    capabilities: list[CapabilitySchema]
    remote: str
    limited: bool
    account: str | None
    refuse: Callable[[str], None]
    link: NodeLink
    frame: dict[str, Any] = field(default_factory=dict)
    kind: str = "device"
    node_id: str | None = None
    node_identity: str = ""
    replaces: str | None = None
    description: str = ""
    tags: list[str] = field(default_factory=list)
    invited: bool = False
    invitation: str = ""
    wanted_scope: str = "account"
    code: str = ""
    requested_at: str = ""
    expires_at: str = ""
    deciding: bool = False
    timer: asyncio.TimerHandle | None = None

    def info(self) -> PendingNodeInfo:
        """Return it as ``GET /nodes/pending`` shows it."""
        return PendingNodeInfo.model_validate(
            {
                "pairing_code": self.code,
                "display_name": self.display_name,
                "platform": self.platform,
                "capabilities": self.capabilities,
                "requested_at": self.requested_at,
                "expires_at": self.expires_at,
                "remote": self.remote,
                "kind": self.kind,
                "node_id": self.node_id,
                "replaces": self.replaces,
                "description": self.description,
                "tags": self.tags,
                "invited": self.invited,
                "invitation": self.invitation,
                "wanted_scope": self.wanted_scope,
            }
        )


class Pairing:
    """The waiting room."""

    def __init__(self, limits: Limits, changes: Changes) -> None:
        self._limits = limits
        self._changes = changes
        #: Whether a code is in use for something else.
        self.taken: Callable[[str], bool] = lambda code: False
        self._waiting: dict[str, Pending] = {}
        self._ended: OrderedDict[str, tuple[str, str | None]] = OrderedDict()

    def add(self, entry: Pending) -> None:
        """Let an entry wait: gives it its code and starts its time.

        Raises
        ------
        SuzentError
            ``too_many_pending``. New commands of a connected device always find room; a device has one such entry.
            Invited devices are counted apart, and not by address: strangers can't take their places.
        """
        if entry.kind == "device":
            devices = [
                other for other in self._waiting.values() if other.kind == "device" and other.invited == entry.invited
            ]
            if len(devices) >= self._limits.pending_total:
                raise SuzentError("too_many_pending", f"{len(devices)} devices wait for approval already.")
            if entry.limited and not entry.invited:
                home = counted_as(entry.remote)
                same = sum(counted_as(other.remote) == home for other in devices)
                if same >= self._limits.pending_per_address:
                    raise SuzentError("too_many_pending", f"{same} devices of this address wait already.")
        entry.code = new_code(self._limits, lambda code: self.knows(code) or self.taken(code))
        entry.requested_at = now_text()
        entry.expires_at = now_text(self._limits.pairing_ttl)
        self._waiting[entry.code] = entry
        loop = asyncio.get_running_loop()
        entry.timer = loop.call_later(self._limits.pairing_ttl, self._expire, entry)
        self._tell("added", entry)

    def visible(self, principal: Principal) -> list[Pending]:
        """Return what waits and may be shown to a caller, oldest first."""
        return [entry for entry in self._waiting.values() if _may_see(principal, entry)]

    def knows(self, code: str) -> bool:
        """Tell whether a code is, or was until lately, one of these."""
        return code in self._waiting or code in self._ended

    def identity_behind(self, code: str) -> str | None:
        """Return the identity the device that waits under this code claims, None if none waits."""
        entry = self._waiting.get(code)
        return entry.node_identity if entry is not None else None

    def find(self, principal: Principal, code: str) -> Pending:
        """Return the entry of one exact code.

        Raises
        ------
        SuzentError
            ``code_expired``, ``code_denied``, ``code_used``, ``code_gone`` or ``code_unknown``.
        """
        wanted = code.strip().upper()
        entry = self._waiting.get(wanted)
        # Whoever enters the exact code of a device that belongs to nobody yet stands before it.
        if entry is not None and entry.account in (None, principal.account):
            if entry.deciding:
                raise SuzentError("code_used", f"The code {wanted} is being answered already.")
            return entry
        how, account = self._ended.get(wanted, ("", None))
        if how and account in (None, principal.account):
            error_code, message = _ENDED[how]
            raise SuzentError(error_code, message.format(code=wanted))
        raise SuzentError("code_unknown", f"No device waits with the code '{wanted[:16]}'.")

    @contextmanager
    def deciding(self, entry: Pending) -> Iterator[None]:
        """Keep an entry from a second answer, and from expiring, while the first one is written."""
        entry.deciding = True
        try:
            yield
        finally:
            entry.deciding = False
            if entry.timer is not None and entry.timer.when() <= asyncio.get_running_loop().time():
                self._expire(entry)

    def end(self, entry: Pending, how: str) -> bool:
        """Take an entry out: ``used``, ``denied``, ``expired``, ``gone`` or ``replaced``; False if it was out."""
        if self._waiting.pop(entry.code, None) is None:
            return False
        if entry.timer is not None:
            entry.timer.cancel()
        self._ended[entry.code] = how, entry.account
        while len(self._ended) > self._limits.codes_remembered:
            self._ended.popitem(last=False)
        self._tell("removed", entry)
        return True

    def __len__(self) -> int:
        return len(self._waiting)

    def _expire(self, entry: Pending) -> None:
        if not entry.deciding and self.end(entry, "expired"):
            entry.refuse("expired")

    def _tell(self, kind: str, entry: Pending) -> None:
        self._changes.publish(
            "pending", kind, lambda: entry.info().model_dump(), lambda principal: _may_see(principal, entry)
        )


def new_code(limits: Limits, taken: Callable[[str], bool]) -> str:
    """Return a code to be read out loud or typed that is not taken."""
    while True:
        code = "".join(secrets.choice(ALPHABET) for _ in range(int(limits.pairing_code_length)))
        if not taken(code):
            return code


def _may_see(principal: Principal, entry: Pending) -> bool:
    return entry.account is not None and entry.account == principal.account
