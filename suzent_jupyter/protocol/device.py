"""Frames of the device protocol (``/ws/node``): one JSON object a text frame, told apart by ``type``.

Devices written for Suzent know the frames and fields that stand in its documentation; everything else here goes only
to devices that sent ``features``. Unknown fields and types are ignored on both sides.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .capabilities import CapabilitySchema

#: Optional parts of the protocol that a device may announce.
FEATURES = ("agent", "artifacts", "cancel", "permissions", "progress", "update")


#: The command of a device that is an agent; its parameters are the fields of :class:`~.agents.Turn`, and ``stream``.
AGENT_COMMAND = "agent.run"


class Frame(BaseModel):
    """Base of all frames: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    def encode(self) -> bytes:
        """Return the frame as JSON, leaving out fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()


class ConnectMessage(Frame):
    """Device → gateway, the first frame.

    Attributes
    ----------
    display_name : str
        What people call it; cleaned and cut to 64 characters.
    platform : str
        Such as ``ios``, ``linux``.
    capabilities : list
        ``{name, description, params_schema, input_schema?}`` each; read by
        :func:`~suzent_jupyter.protocol.capabilities.read_capabilities`.
    device_token : str
        The token of an earlier approval; empty on first contact.
    node_identity : str, optional
        A stable id of this installation, so that pairing again does not make a second device of it.
    features : list of str, optional
        Which of :data:`FEATURES` the device speaks. Sending the field at all marks a device that copes with
        frames beyond Suzent's.
    description, tags : optional
        Text for people and for routing.
    ticket : str, optional
        From a pairing link: says that the operator invited this device.
    """

    type: Literal["connect"] = "connect"
    display_name: str
    platform: str = "unknown"
    capabilities: list[CapabilitySchema] = Field(default_factory=list)
    device_token: str = ""
    node_identity: str | None = None
    features: list[str] | None = None
    description: str | None = None
    tags: list[str] | None = None
    ticket: str | None = None


class PendingResponse(Frame):
    """Gateway → device: wait for the operator. ``expires_at`` is UTC, ISO 8601.

    A device that sent a ticket is told whether it counts as ``invited``, and if not, why, in ``warnings``.
    """

    type: Literal["pending"] = "pending"
    pairing_code: str
    message: str = "Waiting for approval"
    expires_at: str | None = None
    invited: bool | None = None
    warnings: list[str] | None = None


class ConnectedResponse(Frame):
    """Gateway → device: the handshake is over.

    Attributes
    ----------
    node_id : str
        This device's id for life.
    device_token : str
        To be kept and sent at the next connect; empty unless newly made.
    limits : dict
        ``max_frame_bytes`` and ``max_params_bytes`` of this gateway.
    features : list of str
        What of the device's features the gateway will use.
    approved, pending_approval : list of str
        Commands that may be called, and those that wait for the operator.
    warnings : list of str
        What the gateway left out of the connect frame.
    """

    type: Literal["connected"] = "connected"
    node_id: str
    device_token: str = ""
    limits: dict[str, int] = Field(default_factory=dict)
    features: list[str] = Field(default_factory=list)
    approved: list[str] = Field(default_factory=list)
    pending_approval: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class ApprovedMessage(Frame):
    """Gateway → device with feature ``update``: which commands may be called now, after an update or an approval."""

    type: Literal["approved"] = "approved"
    approved: list[str]
    pending_approval: list[str]


class ErrorResponse(Frame):
    """Gateway → device: refused. Old devices take any of these as final."""

    type: Literal["error"] = "error"
    message: str
    code: str = ""
    hint: str = ""
    retryable: bool = False


class InvokeMessage(Frame):
    """Gateway → device: run ``command``.

    Attributes
    ----------
    timeout : float, optional
        The seconds that remain of the call's one deadline.
    artifacts : list of str, optional
        With feature ``artifacts``: the absolute addresses of files in ``params`` that are the gateway's own word. Other
        absolute ones there are the caller's, and no device fetches them; relative ones are the gateway's routes.
    """

    type: Literal["invoke"] = "invoke"
    request_id: str
    command: str
    params: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None
    artifacts: list[str] | None = None


class ResultMessage(Frame):
    """Device → gateway: the answer to one invoke.

    Binary stands anywhere inside ``result`` as ``{"media_type": str, "base64": str, "name"?: str}``.
    """

    type: Literal["result"] = "result"
    request_id: str
    success: bool = False
    result: Any = None
    error: str | None = None


class ProgressMessage(Frame):
    """Device → gateway (feature ``progress``): how far a call is. ``fraction`` is 0 to 1."""

    type: Literal["progress"] = "progress"
    request_id: str
    seq: int = 0
    fraction: float | None = None
    message: str | None = None
    data: Any = None


class AgentEventMessage(Frame):
    """Device → gateway (feature ``agent``): an event of the turn that a call of ``agent.run`` answers.

    Unlike progress, none is left out: ``seq`` counts from 0 without a gap. ``event`` is one of ``ag_ui.core``.
    """

    type: Literal["agent.event"] = "agent.event"
    request_id: str
    seq: int
    event: dict[str, Any]


class CancelMessage(Frame):
    """Gateway → device (feature ``cancel``): nobody waits for this call any more."""

    type: Literal["cancel"] = "cancel"
    request_id: str
    reason: str = ""


class EventMessage(Frame):
    """Device → gateway: something happened there."""

    type: Literal["event"] = "event"
    event: str
    data: dict[str, Any] = Field(default_factory=dict)


class UpdateMessage(Frame):
    """Device → gateway (feature ``update``): the capabilities are these now."""

    type: Literal["update"] = "update"
    capabilities: list[CapabilitySchema] = Field(default_factory=list)


class PingMessage(Frame):
    """Gateway → device: the protocol's own heartbeat, beside RFC 6455 ping."""

    type: Literal["ping"] = "ping"


class PongMessage(Frame):
    """Device → gateway: the answer to it."""

    type: Literal["pong"] = "pong"
