"""Bodies of the routes between gateways: control grants, peers and their files. Suzent's fields keep their names."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from .capabilities import CapabilitySchema
from .rest import Body, Covers
from .text import clean_text

_PATTERN_CHARS = 128
_PATTERNS = 64
_TEN_YEARS = 10 * 365.25 * 24 * 3600

#: Whether a peer is driven, not for now, or not at all.
PeerMode = Literal["trigger", "paused", "off"]


class GrantRequest(Body):
    """``POST /nodes/grant-request``: another gateway asks for control of this one.

    Attributes
    ----------
    controller_name : str
        How it calls itself.
    controller_addr : str
        Where it is reached, to be told of a revoke.
    controller_identity : str
        Its stable id, by which a later request takes the place of an earlier grant.
    """

    controller_name: str = ""
    controller_addr: str = ""
    controller_identity: str = ""


class GrantRequestResponse(Body):
    """Its answer. ``request_id`` is the secret with which the token is fetched; ``code`` is for the operators' eyes."""

    request_id: str
    status: Literal["pending"] = "pending"
    code: str = ""
    expires_at: str = ""


class GrantStatusResponse(Body):
    """``GET /nodes/grant-status/{request_id}``; ``token`` is served once, ``node_identity`` is this gateway's."""

    status: Literal["pending", "approved", "denied"]
    token: str | None = None
    node_identity: str | None = None


class GrantInfo(Body):
    """A control request that waits. ``code`` is short enough to compare and to type; ``replaces`` names the grant that
    approving it would take the place of.
    """

    request_id: str
    code: str = ""
    controller_name: str
    controller_host: str
    controller_addr: str
    controller_identity: str
    requested_at: str
    expires_at: str = ""
    replaces: str | None = None


class GrantListResponse(Body):
    """``GET /nodes/grants``: the waiting ones."""

    grants: list[GrantInfo] = Field(default_factory=list)
    count: int = 0


def _plain(pattern: str) -> str:
    if not pattern or clean_text(pattern, _PATTERN_CHARS) != pattern:
        raise ValueError("give the name of a command, or a pattern such as camera.*")
    return pattern


Pattern = Annotated[str, Field(min_length=1, max_length=_PATTERN_CHARS), AfterValidator(_plain)]


class GrantApproval(Body):
    """``POST /nodes/grants/{id}/approve``; an empty body is Suzent's and grants everything for good.

    Attributes
    ----------
    expires_in : float, optional
        Seconds, at most ten years; None for never.
    covers : str
        ``both``, ``agent`` or ``devices``.
    commands : list of str
        Patterns of the devices' commands; empty for all.
    unattended_tools : bool
        Whether turns may use tools that would otherwise ask.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    expires_in: float | None = Field(None, gt=0, le=_TEN_YEARS, allow_inf_nan=False, strict=True)
    covers: Covers = "both"
    commands: list[Pattern] = Field(default_factory=list, max_length=_PATTERNS)
    unattended_tools: bool = Field(False, strict=True)


class UnauthorizedAttempt(Body):
    """A refused attempt to drive the agent; ``claimed_id`` is what it said of itself, and proves nothing."""

    at: str
    host: str
    claimed_id: str = ""
    path: str = ""


class UnauthorizedListResponse(Body):
    """``GET /nodes/unauthorized``: newest first."""

    attempts: list[UnauthorizedAttempt] = Field(default_factory=list)
    count: int = 0


class ControlRequest(Body):
    """``POST /nodes/control``: ask another gateway for control; ``base_url`` may also be a pairing link or a peer."""

    base_url: str
    name: str | None = None


class ControlResponse(Body):
    """Its answer, and that of ``GET /nodes/control-status``: ``pending``, ``approved``, ``denied`` or ``expired``."""

    status: str
    request_id: str | None = None
    base_url: str | None = None
    code: str = ""
    peer_id: str | None = None
    expires_at: str = ""


class PeerInfo(Body):
    """A gateway this one controls or is controlled by.

    Outbound (we drive it): ``mode`` and ``outbound_status``. Inbound (it drives us): ``inbound``, with usage.
    A gateway that only drives us stands here too, with ``mode`` ``off`` and no ``base_url`` it could be driven at.
    """

    peer_id: str
    name: str
    base_url: str
    mode: PeerMode = "trigger"
    node_identity: str = ""
    reverse_enabled: bool = False
    added_at: str = ""
    online: bool | None = None
    outbound_status: Literal["ready", "revoked", "offline", "none"] = "none"
    checked_at: str = ""
    inbound: Literal["active", "paused", "expired", "none"] = "none"
    inbound_device_id: str = ""
    inbound_count: int = 0
    inbound_last: str = ""
    inbound_expires_at: str = ""
    inbound_covers: Covers | None = None


class PeerListResponse(Body):
    """``GET /nodes/peers?refresh=1``; ``requests`` are our own control requests that wait for the other side."""

    peers: list[PeerInfo] = Field(default_factory=list)
    count: int = 0
    requests: list[ControlResponse] = Field(default_factory=list)


class PeerCapability(CapabilitySchema):
    """A capability of one of a peer's nodes."""

    node: str = ""


class PeerCapabilitiesResponse(Body):
    """``GET /nodes/peers/{id}/capabilities``."""

    capabilities: list[PeerCapability] = Field(default_factory=list)
    count: int = 0


class PeerInvokeRequest(Body):
    """``POST /nodes/peer-invoke`` and ``POST /nodes/peers/{id}/invoke``; ``node`` chooses among several."""

    command: str
    params: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None
    node: str | None = None


class PeerModeRequest(Body):
    """``POST /nodes/peers/{id}/mode``."""

    mode: PeerMode


class PeerModeResponse(Body):
    """Its answer."""

    success: bool
    mode: str


class PeerReverseRequest(Body):
    """``POST /nodes/peers/{id}/reverse``: whether that peer may drive this gateway."""

    enabled: bool


class PeerReverseResponse(Body):
    """Its answer."""

    success: bool
    enabled: bool


class PeerOffer(Body):
    """``POST /nodes/peer-offer``: a gateway that drives us gives us control of itself too.

    ``pin`` is the key that ``base_url`` shows, where no authority vouches for it.
    """

    name: str = ""
    base_url: str
    token: str
    pin: str = ""


class DoneResponse(Body):
    """An answer that says only that it is done."""

    success: bool = True
    message: str = ""


class OfferResponse(DoneResponse):
    """Answer of ``POST /nodes/peer-offer``: ``taken`` is false where a grant of the sender's is held and kept."""

    taken: bool = True


class PromptAttachment(Body):
    """A file to send with a prompt: a path on the gateway's machine."""

    path: str
    name: str | None = None
    media_type: str | None = None


class TriggerRequest(Body):
    """``POST /nodes/peers/{id}/trigger``: run a prompt on a peer; answered as a stream of events."""

    prompt: str
    chat_id: str | None = None
    attachments: list[PromptAttachment] = Field(default_factory=list)


class FileReference(Body):
    """A file that a peer may fetch for a while; its token comes along where it has one of its own."""

    id: str
    url: str
    name: str
    media_type: str
    size: int
    expires_at: str
    token: str | None = None


class WhoamiResponse(Body):
    """``GET /channels/suzent/whoami``; ``peer_id`` is the caller's grant, None where it has none."""

    ok: bool = True
    peer_id: str | None = None


class GrantChanged(Body):
    """``POST /channels/suzent/grant-changed``: a hint to look again, believed in nothing.

    ``base_url`` is where its sender is reached now, looked at only where the sender proves who it is.
    """

    base_url: str = ""


class GrantChangedResponse(Body):
    """Its answer, the same for everybody."""

    ok: bool = True
    removed: int = 0


class ProofRequest(Body):
    """``POST /channels/suzent/prove``: whoever holds a grant asks whether its issuer is reached at ``base_url``."""

    device_id: str = Field(max_length=256)
    nonce: str = Field(min_length=16, max_length=128)
    base_url: str = Field(max_length=2048)


class ProofResponse(Body):
    """Its answer, which only the issuer can give; of the same form for grants that are none."""

    proof: str


def grant_proof(digest: bytes, nonce: str, base_url: str) -> str:
    """Return HMAC-SHA256 (RFC 2104) over a nonce and an address, in base64, under the SHA-256 of a grant's token.

    Both sides know the digest, and nobody learns the token from it. The address is part of it, and an issuer signs for
    its own alone: another gateway could pass the question on otherwise, and the answer back.
    """
    text = f"{nonce}\n{base_url}".encode("utf-8", "surrogatepass")
    return base64.b64encode(hmac.new(digest, text, hashlib.sha256).digest()).decode()
