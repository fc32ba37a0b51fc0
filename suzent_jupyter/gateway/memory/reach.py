"""Whose memory a caller or a turn may look into. Made by the gateway alone, never from what a caller says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ...protocol.memory import Level
from ..principals import Authority

if TYPE_CHECKING:
    from ..answering.run import Run
    from ..principals import Principal
    from ..session import NodeSession


@dataclass(frozen=True, slots=True)
class Space:
    """One owner's memory of one level. ``session_id`` is ``""`` but for sessions, whose owner is an account."""

    level: Level
    owner: str
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be read and written on somebody's behalf.

    Attributes
    ----------
    spaces : tuple of Space
        At most one of each level. A space that does not stand here is not looked into, counted or ranked.
    actor : str
        Who, for the record.
    account : str
        Whose record.
    """

    spaces: tuple[Space, ...]
    actor: str
    account: str

    def space(self, level: Level) -> Space:
        """Return the one of a level that may be written to.

        Raises
        ------
        SuzentError
            ``permission_needed``, or what its caller can do about it: ``no_org``, ``invalid_request``.
        """
        found = {each.level: each for each in self.spaces}
        if level in found:
            return found[level]
        if level == "enterprise" and "account" in found:
            raise SuzentError("no_org", "You belong to no organisation that this could be kept for.")
        if level == "session" and "account" in found:
            raise SuzentError("invalid_request", "Level `session` needs a conversation to belong to.")
        levels = ", ".join(found) or "none"
        raise SuzentError("permission_needed", f"Level `{level}` is out of reach here.", hint=f"In reach: {levels}.")


def reach_of(principal: Principal, session_id: str = "") -> Reach:
    """Return what a caller of full authority reaches by ``/memory``: their own, their organisation's, one session."""
    if principal.authority < Authority.FULL:
        return Reach((), principal.actor, principal.account)
    spaces = [Space("account", principal.account)]
    if principal.org:
        spaces.append(Space("enterprise", principal.org))
    if session_id:
        spaces.append(Space("session", principal.account, session_id))
    return Reach(tuple(spaces), principal.actor, principal.account)


def reach_in(run: Run, executor: NodeSession | None) -> Reach:
    """Return what an agent reaches in a turn.

    The account is that of the node that executes it (this gateway's own agent: the caller's). Where somebody of another
    account asks (``is_remote_session``), or the holder of a control grant, there is no account level in it.

    Parameters
    ----------
    executor : NodeSession, optional
        The app node whose agent answers; None for this gateway's own.
    """
    principal = run.principal
    spaces = [Space("session", run.account, run.conversation_id)]
    actor = f"node:{executor.node_id}" if executor is not None else "agent"
    if principal.authority < Authority.FULL:
        return Reach(tuple(spaces), principal.actor, run.account)
    # Of an organisation only while both sides still belong to it.
    if principal.org and (not is_remote(run, executor) or executor is None or executor.device.org == principal.org):
        spaces.insert(0, Space("enterprise", principal.org))
    if not is_remote(run, executor):
        spaces.insert(0, Space("account", run.account))
    return Reach(tuple(spaces), actor, run.account)


def reach_outside(principal: Principal, under_way: list[Run], session: NodeSession) -> Reach:
    """Return what an app node reaches without naming a turn: its own account's.

    While it answers a prompt or a call of somebody else there is no account level: leaving the turn's name out is no
    way round it.
    """
    reach = reach_of(principal)
    callers = [call.principal for call in (*session.calls.values(), *session.late.values())]
    strangers = [each for each in callers if each.authority < Authority.FULL or each.account != principal.account]
    strangers += [run.principal for run in under_way if run.principal.authority < Authority.FULL]
    strangers += [run.principal for run in under_way if is_remote(run, session)]
    if not strangers:
        return reach
    # As in a turn of theirs: what an organisation shares is for those who belong to it, and never for a grant.
    shared = all(each.authority >= Authority.FULL and each.org == principal.org for each in strangers)
    others = tuple(each for each in reach.spaces if each.level == "enterprise" and shared)
    return Reach(others, reach.actor, reach.account)


def is_remote(run: Run, executor: NodeSession | None) -> bool:
    """Tell whether somebody of another account than the executing node's asks in a turn."""
    return run.prompt.remote or (executor is not None and executor.device.account != run.account)
