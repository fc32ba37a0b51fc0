"""Bodies of the REST routes. Suzent's fields keep their names and types; further ones are ours."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .capabilities import CapabilitySchema

#: Who may see and use a node: its account alone, or all of the account's organisation.
NodeScope = Literal["account", "enterprise"]


class Body(BaseModel):
    """Base of all bodies: unknown fields are ignored, as Suzent's own callers may send more."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class ErrorBody(Body):
    """Any answer with a status of 400 or more."""

    error: str
    code: str
    hint: str = ""
    retryable: bool = False


class NodeInfo(Body):
    """A connected node.

    Times are UTC, ISO 8601. ``latency_ms`` is the round trip of the last WebSocket ping, ``calls`` the calls under way.
    """

    node_id: str
    display_name: str
    platform: str
    status: Literal["connected", "paused"] = "connected"
    connected_at: str
    capabilities: list[CapabilitySchema] = Field(default_factory=list)
    pending_capabilities: list[CapabilitySchema] = Field(default_factory=list)
    description: str = ""
    tags: list[str] = Field(default_factory=list)
    features: list[str] = Field(default_factory=list)
    scope: NodeScope = "account"
    remote: str = ""
    last_seen: str = ""
    latency_ms: float | None = None
    calls: int = 0


class NodeListResponse(Body):
    """``GET /nodes``."""

    nodes: list[NodeInfo]
    count: int


class InvokeRequest(Body):
    """``POST /nodes/{node}/invoke``.

    Attributes
    ----------
    timeout : float, optional
        Seconds, finite and greater than 0; 30 by default, 600 at most.
    idempotency_key : str, optional
        The same key and body within 5 minutes give the same result without a second call.
    """

    command: str
    params: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None
    idempotency_key: str | None = None


class InvokeResponse(Body):
    """The answer: a capability that fails is still an answer (``success`` false, ``error`` says why)."""

    success: bool
    result: Any = None
    error: str | None = None


class PendingNodeInfo(Body):
    """A device, or new commands of a known one, waiting for approval.

    ``kind`` is ``device`` or ``capabilities``; for the latter ``capabilities`` are the new ones only. ``replaces`` is
    the id of a device with the same identity that this approval would replace. ``invited`` devices came by a pairing
    link; ``invitation`` is the name the operator gave it. ``wanted_scope`` says who, as the device wishes, may see it:
    that is its owner's to set.
    """

    pairing_code: str
    display_name: str
    platform: str
    capabilities: list[CapabilitySchema] = Field(default_factory=list)
    requested_at: str
    expires_at: str = ""
    remote: str = ""
    kind: Literal["device", "capabilities"] = "device"
    node_id: str | None = None
    replaces: str | None = None
    description: str = ""
    tags: list[str] = Field(default_factory=list)
    invited: bool = False
    invitation: str = ""
    wanted_scope: NodeScope = "account"


class PendingListResponse(Body):
    """``GET /nodes/pending``."""

    pending: list[PendingNodeInfo]
    count: int


#: What a control grant covers.
Covers = Literal["both", "agent", "devices"]


class ApprovedDeviceInfo(Body):
    """A token we issued. ``scope`` is its authority, ``sharing`` who may see the node.

    ``covers``, ``commands`` (patterns; empty for all) and ``unattended_tools`` are a control grant's; ``expires_at`` is
    when the token ends by itself, ``""`` for never.
    """

    device_id: str
    display_name: str
    platform: str
    scope: Literal["node", "agent", "full"] = "node"
    status: Literal["active", "paused"] = "active"
    token_hint: str = ""
    callback_url: str = ""
    node_identity: str = ""
    approved_at: str = ""
    last_seen: str = ""
    trigger_count: int = 0
    last_triggered_at: str = ""
    connected: bool = False
    sharing: NodeScope = "account"
    capabilities: list[str] = Field(default_factory=list)
    covers: Covers | None = None
    commands: list[str] = Field(default_factory=list)
    unattended_tools: bool = False
    expires_at: str = ""


class ApprovedDeviceListResponse(Body):
    """``GET /nodes/devices``."""

    devices: list[ApprovedDeviceInfo]
    count: int


class PairingActionResponse(Body):
    """Answer of approve, deny and revoke."""

    success: bool
    message: str = ""
    device_id: str | None = None


class StatusRequest(Body):
    """``POST /nodes/devices/{id}/status``."""

    status: Literal["active", "paused"]


class StatusResponse(Body):
    """Its answer."""

    success: bool
    status: str


class HostTokenRequest(Body):
    """``POST /nodes/host-token``: a token of full authority for one's own programs."""

    name: str | None = None


class HostTokenResponse(Body):
    """Its answer; the token is shown this once."""

    device_id: str
    token: str
    scope: Literal["full"] = "full"


class Address(Body):
    """One address a device can use.

    Attributes
    ----------
    label, host : str
        For people; the host as it stands in a URL, so IPv6 in brackets.
    gateway_url : str
        The device socket, ``ws://`` or ``wss://``.
    kind : str
        ``public`` (the Jupyter server as the caller's browser reaches it), ``lan``, ``tailscale``, ``magicdns``, or
        ``local`` for programs on this machine.
    pairing_link : str
        The page that invites a device; see :mod:`.pairing_link`. It holds a ticket: show it, don't log it.
    qr : str, optional
        The link as a QR code, a PNG data URI (RFC 2397); None where a phone could not reach the address.
    """

    label: str
    host: str
    gateway_url: str
    kind: str = ""
    pairing_link: str = ""
    qr: str | None = None


class InviteRequest(Body):
    """``POST /nodes/invite``: make a pairing link; ``name`` says whom or what it is for."""

    name: str | None = None


class InviteResponse(Body):
    """Its answer: a fresh ticket, good once and until ``expires_at`` (UTC, ISO 8601), as a link for every address.

    ``links`` begins with the one most devices can use. ``problem`` says why other machines can't join, ``""`` if they
    can; ``warnings`` are sentences for the operator.
    """

    ticket: str
    expires_at: str
    name: str = ""
    gateway_id: str = ""
    links: list[Address] = Field(default_factory=list)
    problem: str = ""
    warnings: list[str] = Field(default_factory=list)


class LanGateway(Body):
    """A gateway found by mDNS. ``reachable``: something listens there. What it says of itself proves nothing."""

    name: str
    host: str
    port: int
    auth_mode: str = "unknown"
    gateway_url: str
    source: Literal["lan"] = "lan"
    reachable: bool = False
    tls_port: int | None = None


class TailnetGateway(Body):
    """A machine of the tailnet that is online; it runs a gateway where ``reachable``."""

    name: str
    host: str
    port: int
    tailscale_ip: str = ""
    dns_name: str = ""
    gateway_url: str
    source: Literal["tailscale"] = "tailscale"
    reachable: bool = False


class DiscoverResponse(Body):
    """``GET /nodes/discover?timeout=``: a machine seen in both stands in ``lan`` only."""

    lan: list[LanGateway] = Field(default_factory=list)
    tailscale: list[TailnetGateway] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)


class ConfigResponse(Body):
    """``GET /nodes/config``. ``settings`` are the changeable ones, ``limits`` every number in force.

    ``binding_active``, ``port``, ``tls_port``, ``addresses`` and ``problem`` are what is true now. The pairing links
    of one account carry the same ticket until it is used or half of ``ticket_ttl`` is over; ``ticket_expires_at`` is
    its end.
    """

    nodes_enabled: bool
    node_lan_bind: bool
    binding_active: bool
    port: int | None
    addresses: list[Address] = Field(default_factory=list)
    lan_host: str | None = None
    gateway_url: str | None = None
    tls_port: int | None = None
    pin: str = ""
    gateway_id: str = ""
    require_ticket: bool = False
    ticket_expires_at: str = ""
    problem: str = ""
    warnings: list[str] = Field(default_factory=list)
    node_discovery_enabled: bool = True
    display_name: str = ""
    denied_commands: list[str] = Field(default_factory=list)
    restart_required: bool = False
    fixed: list[str] = Field(default_factory=list)
    limits: dict[str, int | float] = Field(default_factory=dict)
    version: str = ""
    store: str = "ok"


class ConfigRequest(Body):
    """``POST /nodes/config``: any of the changeable settings."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    nodes_enabled: bool | None = None
    node_discovery_enabled: bool | None = None
    node_lan_bind: bool | None = None
    display_name: str | None = None
    denied_commands: list[str] | None = None


class ConfigChangeResponse(Body):
    """Its answer: the settings in force, and whether one of them waits for a restart."""

    success: bool
    restart_required: bool
    nodes_enabled: bool
    node_discovery_enabled: bool
    node_lan_bind: bool
    display_name: str
    denied_commands: list[str]


class AuditEntry(Body):
    """Who did what.

    Attributes
    ----------
    id : int
        Grows with time; the cursor for paging.
    at : str
        UTC, ISO 8601.
    actor : str
        The caller: ``user``, ``kernel``, ``loopback``, ``device:<id>``, ``token:<id>``, ``gateway``,
        ``gateway:<host>`` for a gateway that called this one, which had joined it.
    action : str
        Such as ``device.approve``, ``node.connect``, ``invoke``.
    node_id, node, command : str
        What it was done to.
    outcome : str
        ``ok``, ``failed`` (by the device), or an error code.
    duration_ms : float, optional
        For calls.
    origin : dict
        What the caller said of itself, such as notebook and cell.
    detail : dict
        Anything more.
    """

    id: int
    at: str
    actor: str = ""
    action: str
    node_id: str = ""
    node: str = ""
    command: str = ""
    outcome: str = "ok"
    duration_ms: float | None = None
    origin: dict[str, Any] = Field(default_factory=dict)
    detail: dict[str, Any] = Field(default_factory=dict)


class AuditResponse(Body):
    """``GET /audit?limit=&before=``: newest first; ``next`` is the ``before`` of the following page."""

    entries: list[AuditEntry]
    count: int
    next: int | None = None


class ConnectRequest(Body):
    """``POST /nodes/connect``: become a node of another gateway.

    ``gateway_url`` may also be a pairing link; ``capabilities`` are patterns such as ``camera.*`` of what is offered
    there, all by default.
    """

    gateway_url: str
    name: str | None = None
    capabilities: list[str] | None = None


class ConnectionInfo(Body):
    """A gateway this one has joined as a node, or left.

    ``display_name`` is this gateway's name there, ``status`` one of ``connecting``, ``pending`` (its operator must
    approve ``pairing_code``), ``connected``, ``reconnecting``, ``refused`` (``error`` says why) and ``stopped``, in
    force ``since`` (UTC). ``capabilities`` are offered there now, ``pending_approval`` are those of them that wait.
    """

    gateway_url: str
    display_name: str
    status: Literal["connecting", "pending", "connected", "reconnecting", "refused", "stopped"]
    pairing_code: str | None = None
    node_id: str | None = None
    error: str | None = None
    since: str = ""
    added_at: str = ""
    capabilities: list[str] = Field(default_factory=list)
    pending_approval: list[str] = Field(default_factory=list)


class ConnectResponse(ConnectionInfo):
    """Answer of ``POST /nodes/connect``: the connection as it is after a moment."""

    success: bool


class DisconnectRequest(Body):
    """``POST /nodes/connect/stop``: any spelling of the address."""

    gateway_url: str


class DisconnectResponse(Body):
    """Its answer."""

    success: bool
    message: str


class ConnectionListResponse(Body):
    """``GET /nodes/connections``; ``offers`` (with ``?offers=1``) is what this gateway offers where it joins."""

    connections: list[ConnectionInfo] = Field(default_factory=list)
    count: int = 0
    display_name: str = ""
    offers: list[CapabilitySchema] | None = None
