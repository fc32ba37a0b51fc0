"""Bodies of the routes that run an agent: ``/chat``, ``/channels/suzent/*`` and ``/conversations``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from .rest import Body

Icon = Literal["local", "sent-to-node", "received-from-node", "web", "peer", "enterprise"]


class ChatRequest(Body):
    """``POST /chat``: run a turn of this gateway's agent; answered as a stream of events."""

    message: str
    chat_id: str | None = None


class ChatStopRequest(Body):
    """``POST /chat/stop``."""

    chat_id: str | None = None


class InboundAttachment(Body):
    """A file that comes with a peer's prompt, to be fetched from that peer."""

    id: str
    url: str
    token: str
    name: str = ""
    media_type: str = ""
    size: int = 0


class InboundRequest(Body):
    """``POST /channels/suzent/inbound``: a peer's prompt. Who asks is its token's owner, whatever the body says."""

    content: str
    chat_id: str | None = None
    attachments: list[InboundAttachment] = Field(default_factory=list)


class InboxRequest(Body):
    """``POST /channels/suzent/inbox``: exactly these fields, as Suzent takes them."""

    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=True, defer_build=True)

    message_id: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.:-]+$")
    content: str = Field(min_length=1)


class InboxResponse(Body):
    """Its answer, with status 202: the message is on disk. ``created`` is false where it was there already."""

    accepted: Literal[True] = True
    created: bool
    message_id: str
    status: Literal["queued", "running", "done", "failed"]


class StopResponse(Body):
    """A turn was stopped; ``agent_id`` is its conversation."""

    stopped: Literal[True] = True
    agent_id: str


class MessageInfo(Body):
    """A message of a conversation.

    Attributes
    ----------
    role : str
        ``user`` or ``assistant``.
    at : str
        UTC, ISO 8601.
    outcome : str
        Of an answer: ``done``, ``stopped``, or an error code; ``""`` for a prompt.
    detail : dict
        ``tools`` that were called, ``attachments`` that came along, ``caller``, an ``error`` message; ``routing`` of a
        prompt that was routed (:class:`.routing.Decision`).
    """

    role: str
    content: str
    run_id: str = ""
    at: str = ""
    outcome: str = ""
    detail: dict[str, Any] = Field(default_factory=dict)


class SessionMessage(MessageInfo):
    """A message as its peer is shown it; ``index``, ``text`` and ``timestamp`` are what Suzent's agents read."""

    index: int = 0
    text: str = ""
    timestamp: str = ""


class SessionResponse(Body):
    """``GET /channels/suzent/session``: the caller's own conversation, its newest messages."""

    agent_id: str
    status: Literal["active", "idle"]
    messages: list[SessionMessage] = Field(default_factory=list)
    message_count: int = 0
    omitted_message_count: int = 0
    transcript_truncated: bool = False


class ConversationInfo(Body):
    """A conversation.

    ``folder`` is ``Social`` for a peer's, ``device_id`` the grant it belongs to; ``target_node_id`` is the node that
    answered last, ``""`` for this gateway's own agent. ``icon`` follows from the three fields after it: ``local``,
    ``sent-to-node``, ``received-from-node``, ``web``, ``peer`` or ``enterprise``.
    """

    conversation_id: str
    title: str
    folder: str = ""
    device_id: str = ""
    created_at: str = ""
    updated_at: str = ""
    status: Literal["active", "idle"] = "idle"
    message_count: int = 0
    target_node_id: str = ""
    icon: Icon = "local"
    isLocalInitiated: bool = True  # noqa: N815 - the name other programs read
    targetNodeId: str = ""  # noqa: N815
    sourceChannel: str = ""  # noqa: N815


class ConversationListResponse(Body):
    """``GET /conversations``: newest first."""

    conversations: list[ConversationInfo] = Field(default_factory=list)
    count: int = 0


class ConversationResponse(ConversationInfo):
    """``GET /conversations/{id}``."""

    messages: list[MessageInfo] = Field(default_factory=list)


class RunInfo(Body):
    """A turn, as subscribers of topic ``runs`` see it.

    ``status`` is ``running``, ``done``, ``stopped`` or ``failed`` (then ``error`` holds code and message).
    """

    run_id: str
    conversation_id: str
    caller: str = ""
    agent: str = ""
    status: Literal["running", "done", "stopped", "failed"] = "running"
    started_at: str = ""
    finished_at: str = ""
    events: int = 0
    error: str = ""
    node_id: str = ""
    node_name: str = ""
