"""Every token we issued and whom it stands for, in memory; the store keeps the same rows."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..protocol.errors import SuzentError
from ..protocol.rest import ApprovedDeviceInfo, Covers, NodeScope
from .clock import now_text
from .principals import Authority, Grant, Principal
from .tokens import key_digest, token_digest

#: How a token stopped speaking for anyone.
Departure = Literal["revoked", "paused"]
_AUTHORITY = {"node": Authority.NODE, "agent": Authority.AGENT, "full": Authority.FULL}


@dataclass(slots=True)
class Device:
    """One issued token.

    Attributes
    ----------
    device_id : str
        For a node also its ``node_id``, for life.
    digest : bytes
        SHA-256 of the token, or of the public key (:func:`.tokens.key_digest`).
    scope : str
        ``node``, ``agent`` or ``full``: the token's authority.
    status : str
        ``active`` or ``paused``; a revoked device is gone.
    approved : list of str
        The commands that were shown when the operator approved.
    sharing : str
        ``account`` or ``enterprise``: who may see the node.
    covers : str
        Of a control grant: ``both``, ``agent`` or ``devices``.
    commands : list of str
        Of a control grant: patterns of the devices' commands it covers; empty for all.
    unattended_tools : bool
        Of a control grant: whether turns may use tools that would otherwise ask.
    expires_at : str
        When the token ends by itself; UTC, ISO 8601, ``""`` for never.
    public_key : str
        Of a node that proves who it is with a key instead of a token: that key's thumbprint, else ``""``.
    role : str
        As what such a key was approved: ``app``, or ``web`` for a person's own page; ``""`` where that was not noted.
    """

    device_id: str
    digest: bytes
    display_name: str
    platform: str = ""
    scope: str = "node"
    status: str = "active"
    token_hint: str = ""
    account: str = ""
    org: str = ""
    node_identity: str = ""
    callback_url: str = ""
    approved: list[str] = field(default_factory=list)
    sharing: NodeScope = "account"
    approved_at: str = ""
    last_seen: str = ""
    trigger_count: int = 0
    last_triggered_at: str = ""
    covers: Covers = "both"
    commands: list[str] = field(default_factory=list)
    unattended_tools: bool = False
    expires_at: str = ""
    public_key: str = ""
    role: str = ""

    @property
    def grant(self) -> Grant | None:
        """What it covers, for a control grant."""
        if self.scope != "agent":
            return None
        return Grant(self.covers != "devices", self.covers != "agent", tuple(self.commands), self.unattended_tools)

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return bool(self.expires_at) and self.expires_at <= now_text()

    @property
    def may_be_a_person(self) -> bool:
        """Whether its key may speak for a person: approved as a node it must not answer what people are asked."""
        return self.role != "app" and not self.approved

    @property
    def speaks(self) -> bool:
        """Whether its token speaks for anyone: it is neither paused nor past its time."""
        return self.status == "active" and not self.expired

    def is_held_by(self, identity: str, address: str) -> bool:
        """Tell whether this is a control grant of the gateway of that identity, or address where one of both has none.

        Never by name: that is anybody's to choose.
        """
        if self.scope != "agent":
            return False
        if self.node_identity and identity:
            return self.node_identity == identity
        return bool(address) and self.callback_url == address

    def info(self, connected: bool) -> ApprovedDeviceInfo:
        """Return it as ``GET /nodes/devices`` shows it."""
        return ApprovedDeviceInfo.model_validate(
            {
                "device_id": self.device_id,
                "display_name": self.display_name,
                "platform": self.platform,
                "scope": self.scope,
                "status": self.status,
                "token_hint": self.token_hint,
                "callback_url": self.callback_url,
                "node_identity": self.node_identity,
                "approved_at": self.approved_at,
                "last_seen": self.last_seen,
                "trigger_count": self.trigger_count,
                "last_triggered_at": self.last_triggered_at,
                "connected": connected,
                "sharing": self.sharing,
                "capabilities": self.approved,
                "covers": self.covers if self.scope == "agent" else None,
                "commands": self.commands,
                "unattended_tools": self.unattended_tools,
                "expires_at": self.expires_at,
            }
        )


class Devices:
    """Look-up by token and by id."""

    def __init__(self) -> None:
        self._by_id: dict[str, Device] = {}
        self._by_digest: dict[bytes, Device] = {}

    def __iter__(self) -> Iterator[Device]:
        return iter(list(self._by_id.values()))

    def replace_all(self, devices: Iterable[Device]) -> None:
        """Take over what the store holds."""
        self._by_id = {device.device_id: device for device in devices}
        self._by_digest = {device.digest: device for device in self._by_id.values()}

    def put(self, device: Device) -> None:
        """Add a device, or its successor under the same id."""
        old = self._by_id.get(device.device_id)
        if old is not None:
            self._by_digest.pop(old.digest, None)
        self._by_id[device.device_id] = device
        self._by_digest[device.digest] = device

    def remove(self, device_id: str) -> None:
        """Forget a device; its token is unknown from now on."""
        device = self._by_id.pop(device_id, None)
        if device is not None:
            self._by_digest.pop(device.digest, None)

    def by_id(self, device_id: str) -> Device | None:
        """Return the device of that id."""
        return self._by_id.get(device_id)

    def by_token(self, token: str) -> Device | None:
        """Return the device whose token this is, paused ones too."""
        if not token:
            return None
        digest = token_digest(token)
        device = self._by_digest.get(digest)
        return device if device is not None and hmac.compare_digest(device.digest, digest) else None

    def by_key(self, public: bytes) -> Device | None:
        """Return the device that proves who it is with this public key, paused ones too."""
        return self._by_digest.get(key_digest(public))

    def by_identity(self, node_identity: str, account: str) -> Device | None:
        """Return the node that claimed this identity within the account."""
        if not node_identity:
            return None
        return next(
            (
                device
                for device in self._by_id.values()
                if device.scope == "node" and device.node_identity == node_identity and device.account == account
            ),
            None,
        )

    def authenticate(self, token: str) -> Principal | None:
        """Return whom a token stands for; None for unknown, paused and expired ones."""
        device = self.by_token(token)
        if device is None or not device.speaks:
            return None
        actor = f"token:{device.device_id}"
        return Principal(_AUTHORITY[device.scope], device.account, device.org, device.device_id, actor, device.grant)

    def visible(self, principal: Principal) -> list[Device]:
        """Return the devices of the caller's account."""
        return [device for device in self._by_id.values() if device.account == principal.account]

    def find(self, principal: Principal, device_id: str) -> Device:
        """Return a device of the caller's account by id or unique id prefix; ``device_unknown`` otherwise."""
        matches = [device for device in self.visible(principal) if device.device_id == device_id]
        if not matches and len(device_id) >= 4:
            matches = [device for device in self.visible(principal) if device.device_id.startswith(device_id)]
        if len(matches) != 1:
            raise SuzentError("device_unknown", f"No device has the id '{device_id[:64]}'.")
        return matches[0]
