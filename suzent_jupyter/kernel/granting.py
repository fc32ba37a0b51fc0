"""What a control grant allows, in words, and as people type it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import UsageError
from .plain import one_line

Record = dict[str, Any]

COVERS = ("both", "agent", "devices")


def approval(
    expires_in: float | None = None,
    commands: Sequence[str] = (),
    covers: str = "both",
    unattended_tools: bool = False,
) -> Record:
    """Return the body of an approval.

    Raises
    ------
    UsageError
        The terms contradict each other.
    """
    if covers not in COVERS:
        raise UsageError(f"'{one_line(covers, 40)}' can't be covered.", hint=f"A grant covers {', '.join(COVERS)}.")
    if covers == "agent" and commands:
        raise UsageError(
            "Commands are those of devices, and this grant is to cover the agent alone.", hint="Leave one of them out."
        )
    if covers == "devices" and unattended_tools:
        raise UsageError(
            "Unattended turns are the agent's, and this grant is to cover devices alone.", hint="Leave one of them out."
        )
    body: Record = {"covers": covers, "commands": list(commands), "unattended_tools": unattended_tools}
    return body if expires_in is None else {**body, "expires_in": expires_in}


def granted(grant: Record, terms: Record) -> str:
    """Return what approving ``grant`` under these terms lets the other side do."""
    who = one_line(grant.get("controller_name"), 64) or "It"
    host = one_line(grant.get("controller_host"), 80)
    parts = []
    if terms["covers"] != "devices":
        parts.append("drive this gateway's agent")
    if terms["covers"] != "agent":
        commands = ", ".join(one_line(each, 128) for each in terms["commands"])
        parts.append(f"call {commands or 'every command'} of its devices")
    text = f"{who}{f' ({host})' if host else ''} may now {' and '.join(parts)}, "
    seconds = terms.get("expires_in")
    if seconds is None:
        text += "until revoked."
    else:
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        text += f"until {until:%Y-%m-%d %H:%M} UTC."
    if terms["covers"] != "devices":
        may = "may" if terms["unattended_tools"] else "may not"
        text += f" Its turns {may} use tools that would otherwise ask."
    if grant.get("replaces"):
        text += " It takes the place of an earlier grant."
    return text
