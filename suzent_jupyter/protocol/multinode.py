"""Frames of ``/ws/gateway``: nodes that prove who they are with a key, chat from one and are executed on another.

The frames that carry chats (``chat.*``) are those of ``/ws/client`` too. ``id`` is chosen by whoever sends a frame and
comes back in what answers it, also in an ``error``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .address import GATEWAY_PATH
from .device import Frame
from .rest import NodeScope

PATH = GATEWAY_PATH
PROTOCOL = 1
#: What a node may announce; everything else is ignored.
FEATURES = ("artifacts", "cancel", "permissions", "progress", "update")


class Challenge(Frame):
    """Gateway → node, the answer to ``connect.challenge``.

    Attributes
    ----------
    nonce : str
        Goes into the JWT; good once, on this socket, for a minute.
    ts : int
        The gateway's clock in milliseconds since 1970: ``exp`` is counted from it.
    aud : str
        The gateway's identity. A node that knows the gateway signs for the identity it pinned, whatever stands here.
    """

    type: Literal["challenge"] = "challenge"
    nonce: str
    ts: int
    aud: str


class NodeDescription(BaseModel):
    """What an app node says of itself; read leniently by the gateway, as everything that devices say."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    name: str
    description: str = ""
    platform: str = ""
    tags: list[str] = Field(default_factory=list)
    scope: NodeScope = "account"
    capabilities: list[dict[str, Any]] = Field(default_factory=list)
    agent: bool = False


class MultinodeConnect(Frame):
    """Node → gateway. A web client that is logged in to Jupyter sends no ``jwt``; ``ticket`` is a pairing link's."""

    type: Literal["connect"] = "connect"
    jwt: str | None = None
    role: Literal["app", "web"] = "app"
    node: NodeDescription | None = None
    features: list[str] = Field(default_factory=list)
    ticket: str | None = None


class Policy(BaseModel):
    """How often and how much; milliseconds and bytes."""

    model_config = ConfigDict(defer_build=True)

    tick_interval_ms: int
    max_payload: int
    run_ttl_ms: int
    delta_throttle_ms: int


class HelloOk(Frame):
    """Gateway → node: connected."""

    type: Literal["hello-ok"] = "hello-ok"
    node_id: str | None = None
    account: str
    org: str
    protocol: int = PROTOCOL
    policy: Policy
    gateway: str = ""
    scope: NodeScope | None = None
    approved: list[str] = Field(default_factory=list)
    pending_approval: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class Tick(Frame):
    """Both ways."""

    type: Literal["tick"] = "tick"
    ts: int = 0


class NodeList(Frame):
    """Node → gateway with ``id`` alone; gateway → node with the nodes it may see, as ``GET /nodes`` shows them."""

    type: Literal["node.list"] = "node.list"
    id: str | int | None = None
    nodes: list[dict[str, Any]] | None = None


class NodeChange(Frame):
    """Gateway → node: a node that it may see came, changed or went; node → gateway (``node.update``): this one has."""

    type: Literal["node.online", "node.offline", "node.update"]
    node: dict[str, Any]


class ChatSend(Frame):
    """Caller → gateway: run this prompt on the best node, or on the one that is named."""

    type: Literal["chat.send"] = "chat.send"
    id: str | int
    session_id: str | None = None
    message: str
    attachments: list[dict[str, Any]] = Field(default_factory=list)
    target_node_id: str | None = None
    origin: dict[str, Any] | None = None


class ChatAccepted(Frame):
    """Gateway → caller: who executes it, and why. ``routing`` is the whole decision (:class:`.routing.Decision`)."""

    type: Literal["chat.accepted"] = "chat.accepted"
    id: str | int
    run_id: str
    session_id: str
    node_id: str
    node_name: str = ""
    tier: Literal["llm", "bm25", "recent", "manual"]
    confidence: float | None = None
    reason: str = ""
    routing: dict[str, Any] = Field(default_factory=dict)


class ChatWatch(Frame):
    """Caller → gateway: send me the events of this run from ``seq`` on; any number of sockets may."""

    type: Literal["chat.watch"] = "chat.watch"
    id: str | int
    run_id: str
    seq: int = 0


class ChatUnwatch(Frame):
    """Caller → gateway: no more of them. The run goes on."""

    type: Literal["chat.unwatch"] = "chat.unwatch"
    run_id: str


class ChatEvent(Frame):
    """Executing node → gateway, and gateway → watchers: an event of ``ag_ui.core``.

    ``seq`` counts from 0 without gaps. A node ends its run with ``RUN_FINISHED`` or ``RUN_ERROR``.
    """

    type: Literal["chat.event"] = "chat.event"
    run_id: str
    seq: int
    event: dict[str, Any]


class ChatAbort(Frame):
    """Caller → gateway: stop this run. Gateway → executing node: likewise; nothing more is taken from it."""

    type: Literal["chat.abort"] = "chat.abort"
    run_id: str
    id: str | int | None = None


class ChatRun(Frame):
    """Gateway → executing node: answer this prompt.

    ``turn`` holds the fields of :class:`.agents.Turn` that have no place of their own, such as the history.
    """

    type: Literal["chat.run"] = "chat.run"
    run_id: str
    session_id: str
    message: str
    attachments: list[dict[str, Any]] = Field(default_factory=list)
    caller: dict[str, Any] = Field(default_factory=dict)
    is_remote_session: bool = False
    turn: dict[str, Any] = Field(default_factory=dict)


class NodeInvokeRequest(Frame):
    """Caller → gateway, and gateway → executing node: call a command, or let the node's agent answer a prompt.

    ``run_id`` names the run on whose behalf a node asks: the call then has no more rights than that run's caller.
    ``artifacts`` is the gateway's alone to say: see :class:`~.device.InvokeMessage`.
    """

    type: Literal["node.invoke.request"] = "node.invoke.request"
    id: str | int
    node_id: str
    command: str | None = None
    agent: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_ms: float | None = None
    run_id: str | None = None
    artifacts: list[str] | None = None


class NodeInvokeResult(Frame):
    """The answer: executing node → gateway, gateway → caller. ``error`` is ``{code, message, hint?, retryable?}``."""

    type: Literal["node.invoke.result"] = "node.invoke.result"
    id: str | int
    ok: bool
    result: Any = None
    error: dict[str, Any] | None = None


class NodeInvokeCancel(Frame):
    """Whoever asked: stop it."""

    type: Literal["node.invoke.cancel"] = "node.invoke.cancel"
    id: str | int
    reason: str = ""


class NodeInvokeProgress(Frame):
    """Executing node → gateway → caller: how far it is."""

    type: Literal["node.invoke.progress"] = "node.invoke.progress"
    id: str | int
    seq: int = 0
    fraction: float | None = None
    message: str | None = None
    data: Any = None
