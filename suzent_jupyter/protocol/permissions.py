"""Permission prompts: what somebody is asked before it runs, and how it ended.

``/permissions`` and the frames ``permission.*`` of ``/ws/client``, ``/ws/gateway`` and, for devices with the feature
``permissions``, ``/ws/node`` carry the same bodies.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .device import Frame
from .rest import Body

#: What a device announces that can ask the person before it.
FEATURE = "permissions"

Decision = Literal["allow", "deny"]
Remember = Literal["once", "session"]
#: How who calls and who executes are related; it decides who is asked.
Relation = Literal["local", "web", "app", "cross_account", "grant"]
#: Why a prompt is closed.
Reason = Literal[
    "", "answered", "remembered", "granted", "expired", "no_interface", "disconnected", "cancelled", "restarted"
]


class PermissionSummary(Body):
    """Exactly what would run; frozen when it is asked, and run as it stands here.

    Attributes
    ----------
    command : str
        A device's command, or a tool of an agent such as ``write_file``.
    description : str
        What the device or the tool says of it.
    params : str
        The parameters as JSON, cut where they are long; ``params_bytes`` is their whole size.
    files : list
        ``{name, media_type, size}`` of what is sent along, in the parameters or as attachments.
    sha256 : str
        Of the parameters, whole.
    """

    command: str
    description: str = ""
    params: str = ""
    params_bytes: int = 0
    files: list[dict[str, Any]] = Field(default_factory=list)
    sha256: str = ""


class PermissionInfo(Body):
    """A prompt, open or closed.

    Attributes
    ----------
    id : str
        Of this prompt alone; an answer names it.
    tool : str
        What asks: the command of the summary.
    relation : str
        See :data:`Relation`.
    caller : str
        Who wants it, cleaned; data.
    node_id, node_name : str
        Where it would run; ``""`` for this gateway itself.
    run_id, conversation_id : str
        The turn that wants it; ``""`` for a call that is part of none.
    top_run_id : str
        The turn that one is part of, where an agent had another agent do it: the one somebody began.
    call_id : str
        The ``id`` of the frame a person called a node with by ``/ws/client``, for whoever waits for it to know it by.
    asked_at, expires_at, resolved_at : str
        UTC, ISO 8601.
    decision : str
        ``""`` while it is open.
    reason : str
        See :data:`Reason`.
    by : str
        Who decided, as the audit trail names callers; ``""`` where nobody did.
    """

    id: str
    tool: str
    summary: PermissionSummary
    relation: Relation = "web"
    caller: str = ""
    node_id: str = ""
    node_name: str = ""
    run_id: str = ""
    top_run_id: str = ""
    conversation_id: str = ""
    call_id: str = ""
    asked_at: str = ""
    expires_at: str = ""
    resolved_at: str = ""
    decision: Literal["", "allow", "deny"] = ""
    reason: Reason = ""
    remember: Remember = "once"
    by: str = ""


class PermissionListResponse(Body):
    """``GET /permissions``: what waits for the caller, oldest first; with ``history`` what is over, newest first."""

    permissions: list[PermissionInfo] = Field(default_factory=list)
    count: int = 0


class PermissionAnswer(Body):
    """``POST /permissions/{id}``; ``session`` remembers it for the same command there in the same conversation."""

    decision: Decision
    remember: Remember = "once"


class PermissionAnswerResponse(Body):
    """Its answer: the prompt as it is now."""

    success: bool = True
    permission: PermissionInfo


class PermissionRequest(Frame):
    """Gateway → a surface that is asked: ``id`` is the gateway's, and all of :class:`PermissionInfo` stands in it.

    Executing node → gateway: its agent asks before it uses a tool of its own; ``id`` is the node's, ``run_id`` names
    the turn, ``summary`` is a :class:`PermissionSummary`. The gateway answers with ``permission.resolved`` of that id.
    """

    type: Literal["permission.request"] = "permission.request"
    id: str | int
    run_id: str = ""
    tool: str
    summary: PermissionSummary
    expires_at: str = ""


class PermissionResponse(Frame):
    """A surface that was asked → gateway."""

    type: Literal["permission.response"] = "permission.response"
    id: str
    decision: Decision
    remember: Remember = "once"


class PermissionResolved(Frame):
    """Gateway → every surface that was asked, and whoever asked for the prompt: it is closed.

    ``tool`` is told to surfaces; ``code`` to a node that asked for its agent: the error code of a refusal.
    """

    type: Literal["permission.resolved"] = "permission.resolved"
    id: str | int
    decision: Decision
    reason: Reason
    remember: Remember = "once"
    by: str = ""
    tool: str = ""
    code: str = ""
