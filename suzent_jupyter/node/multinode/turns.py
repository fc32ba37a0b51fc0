"""Prompts for this device's agent: ``chat.run`` as the call of its agent that it is."""

from __future__ import annotations

from typing import Any

from ...protocol.agents import Turn, TurnCaller
from ...protocol.device import AGENT_COMMAND
from ...protocol.limits import Limits
from ...protocol.text import clean_text

_LIMITS = Limits()
_KINDS = ("user", "peer")
#: What ``turn`` may hold; everything else has a place of its own in the frame.
_MORE = frozenset(Turn.model_fields) - {
    "run_id", "conversation_id", "message", "attachments", "caller", "is_remote_session",
}  # fmt: skip


def call_of(frame: dict[str, Any]) -> dict[str, Any]:
    """Return a ``chat.run`` frame as a call of ``agent.run``, which checks the rest."""
    more = frame.get("turn")
    fields = {name: value for name, value in more.items() if name in _MORE} if isinstance(more, dict) else {}
    params = {
        **fields,
        "run_id": frame.get("run_id"),
        "conversation_id": frame.get("session_id"),
        "message": frame.get("message"),
        "attachments": frame.get("attachments") or [],
        "caller": _caller(frame.get("caller")),
        # What is not said plainly is taken for the narrower right.
        "is_remote_session": frame.get("is_remote_session") is not False,
        "stream": True,
    }
    return {
        "request_id": frame.get("run_id"),
        "command": AGENT_COMMAND,
        "params": params,
        "timeout": _LIMITS.run_ttl,
        "artifacts": _addresses(params["attachments"]),
    }


def question(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of ``agent.run`` for a ``node.invoke.request`` that names ``agent``: another's prompt."""
    return {"message": frame.get("agent"), "run_id": frame.get("run_id") or "", "is_remote_session": True}


def _addresses(attachments: Any) -> list[str]:
    """Return the addresses of a prompt's files: every one in this frame is the gateway's own word."""
    found = attachments if isinstance(attachments, list) else []
    return [each["url"] for each in found if isinstance(each, dict) and isinstance(each.get("url"), str)]


def _caller(value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, dict) else {}
    kind = fields.get("kind")
    return TurnCaller(
        kind=kind if kind in _KINDS else "user",
        name=clean_text(fields.get("name"), _LIMITS.name_chars),
        device_id=clean_text(fields.get("device_id"), 128),
    ).model_dump()
