"""Frames of ``/ws/client``, the one socket of a kernel, widget or panel: calls in, results and changes out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .device import Frame

#: What can be subscribed to. Each change carries the same item as the REST list of that name.
TOPICS = (
    "nodes",
    "pending",
    "devices",
    "grants",
    "peers",
    "connections",
    "permissions",
    "conversations",
    "runs",
    "turns",
    "audit",
    "events",
)


class HelloMessage(Frame):
    """Gateway → client, the first frame: who this is."""

    type: Literal["hello"] = "hello"
    gateway: str
    version: str
    account: str
    limits: dict[str, int | float] = Field(default_factory=dict)


class ClientInvoke(Frame):
    """Client → gateway: call a node. ``id`` is the client's own and comes back in every frame about this call.

    ``origin`` says where the call comes from (notebook, cell); it is kept in the audit trail.
    """

    type: Literal["invoke"] = "invoke"
    id: str | int
    node: str
    command: str
    params: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None
    idempotency_key: str | None = None
    origin: dict[str, Any] | None = None


class ClientProgress(Frame):
    """Gateway → client: how far the call is, as the device says."""

    type: Literal["progress"] = "progress"
    id: str | int
    seq: int = 0
    fraction: float | None = None
    message: str | None = None
    data: Any = None


class ClientResult(Frame):
    """Gateway → client: the call is over.

    A refusal of the gateway carries ``code``, ``hint``, ``retryable`` and ``status`` (the HTTP status the same call
    would have had); a failure of the capability itself carries only ``error``.
    """

    type: Literal["result"] = "result"
    id: str | int
    success: bool
    result: Any = None
    error: str | None = None
    code: str | None = None
    hint: str | None = None
    retryable: bool | None = None
    status: int | None = None


class ClientCancel(Frame):
    """Client → gateway: stop this call; its result comes with code ``cancelled``."""

    type: Literal["cancel"] = "cancel"
    id: str | int


class Subscribe(Frame):
    """Client → gateway: send changes of these topics from now on, a snapshot of each first."""

    type: Literal["subscribe"] = "subscribe"
    topics: list[str]


class Unsubscribe(Frame):
    """Client → gateway: no more changes of these topics."""

    type: Literal["unsubscribe"] = "unsubscribe"
    topics: list[str]


class AgentRegister(Frame):
    """Client → gateway: answer the account's prompts with this agent, from now on, as long as this socket is open.

    ``id`` is the client's own; the same one again takes the place of the former.
    """

    type: Literal["agent.register"] = "agent.register"
    id: str
    name: str
    description: str = ""


class AgentRegistered(Frame):
    """Gateway → client: the agent is the one that is asked."""

    type: Literal["agent.registered"] = "agent.registered"
    id: str


class AgentUnregister(Frame):
    """Client → gateway: no more turns for this agent. Those under way go on."""

    type: Literal["agent.unregister"] = "agent.unregister"
    id: str


class AgentTurn(Frame):
    """Gateway → client: answer a turn (:class:`~.agents.Turn`)."""

    type: Literal["agent.turn"] = "agent.turn"
    id: str
    turn_id: str
    turn: dict[str, Any]


class AgentEvent(Frame):
    """Client → gateway: an event of ``ag_ui.core`` in a turn, or with ``done`` its end, and if it failed, why."""

    type: Literal["agent.event"] = "agent.event"
    turn_id: str
    event: dict[str, Any] | None = None
    done: bool = False
    error: str | None = None
    code: str | None = None


class AgentCancel(Frame):
    """Gateway → client: nobody waits for this turn any more; nothing is answered."""

    type: Literal["agent.cancel"] = "agent.cancel"
    turn_id: str


class Change(Frame):
    """Gateway → client: something changed.

    ``kind`` is ``snapshot`` (``item`` is the list), ``added``, ``changed`` or ``removed``. ``seq`` counts the changes
    of this topic on this socket from 0 (the snapshot); a gap means: subscribe again.
    """

    type: Literal["change"] = "change"
    topic: str
    kind: Literal["snapshot", "added", "changed", "removed"]
    item: Any
    seq: int
