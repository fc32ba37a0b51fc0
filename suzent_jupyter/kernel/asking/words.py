"""What is said of a prompt: who wants what where, exactly what would run, and how it ended."""

from __future__ import annotations

from typing import Any

from ...protocol.text import clean_lines
from ..plain import human_bytes, one_line

Record = dict[str, Any]

_SHORT = 6  # characters of an id that are enough to type, as a rule
_PARAMS = 20_000  # the gateway shows no more

_WHY = {
    "expired": "nobody answered in time",
    "disconnected": "the device is gone",
    "cancelled": "whoever asked does not wait any more",
    "restarted": "the gateway was started anew",
    "no_interface": "nobody could be asked",
    "remembered": "as it was answered before",
    "granted": "the grant allows it",
}

_ACTORS = {
    "user": "the gateway's user",
    "kernel": "a notebook or a terminal of yours",
    "loopback": "a program on the gateway's machine",
}


def short(prompt_id: Any) -> str:
    """Return as much of an id as one types."""
    return one_line(prompt_id, 64)[:_SHORT]


def place(prompt: Record) -> str:
    """Return where it would run."""
    return one_line(prompt.get("node_name"), 64) or one_line(prompt.get("node_id"), 64) or "this gateway"


def command(prompt: Record) -> str:
    """Return what asks."""
    return one_line(_summary(prompt).get("command"), 128) or one_line(prompt.get("tool"), 128) or "something"


def until(prompt: Record) -> str:
    """Return the time of day up to which an answer counts, in UTC."""
    return f"{one_line(prompt.get('expires_at'), 40)[11:19]} UTC"


def headline(prompt: Record) -> str:
    """Return who wants to run what where, and until when it may be allowed."""
    who = one_line(prompt.get("caller"), 160) or "Somebody"
    return f"Permission needed until {until(prompt)}: {who} wants to run {command(prompt)} on {place(prompt)}."


def details(prompt: Record) -> list[str]:
    """Return exactly what would run, a line or more for each part."""
    summary = _summary(prompt)
    lines = []
    if description := one_line(summary.get("description"), 500):
        lines.append(description)
    params = clean_lines(str(summary.get("params") or ""), _PARAMS)
    if params not in ("", "{}"):
        lines.append(f"with {params}")
    lines += [f"sends {file}" for file in files(prompt)]
    return lines


def files(prompt: Record) -> list[str]:
    """Return what is sent along, each with its type and size."""
    listed = _summary(prompt).get("files")
    found = []
    for file in listed if isinstance(listed, list) else []:
        if isinstance(file, dict):
            size = file.get("size")
            said = human_bytes(size) if isinstance(size, int) else "?"
            kind = one_line(file.get("media_type"), 64) or "?"
            found.append(f"{one_line(file.get('name'), 128) or 'a file'} ({kind}, {said})")
    return found


def outcome(prompt: Record, *, mine: bool = False) -> str:
    """Return how a prompt ended, as a sentence."""
    what = f"{command(prompt)} on {place(prompt)}"
    decision, reason = prompt.get("decision"), str(prompt.get("reason") or "")
    if decision not in ("allow", "deny"):
        return f"The prompt for {what} is closed."
    done = "allowed" if decision == "allow" else "not allowed"
    if reason == "answered":
        lasting = ", for the rest of its conversation" if prompt.get("remember") == "session" else ""
        return f"{what}: {done}{'' if mine else f' by {by(prompt)}'}{lasting}."
    return f"{what}: {done}; {_WHY.get(reason, 'it is over')}."


def by(prompt: Record) -> str:
    """Return who answered, in words where there are some."""
    actor = one_line(prompt.get("by"), 128)
    kind, _, credential = actor.partition(":")
    if credential and credential == prompt.get("node_id"):
        return f"{place(prompt)} itself"
    return f"the {kind} {credential}" if credential else _ACTORS.get(actor, actor or "somebody else")


def _summary(prompt: Record) -> Record:
    summary = prompt.get("summary")
    return summary if isinstance(summary, dict) else {}
