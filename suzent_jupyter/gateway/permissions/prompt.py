"""One prompt: what is asked, of whom, and how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.permissions import PermissionInfo, PermissionSummary
from .distribution import Audience
from .remembered import Key

if TYPE_CHECKING:
    from ..answering.run import Run
    from ..principals import Principal
    from ..session import NodeSession


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes
    ----------
    principal : Principal
        Whose rights it would run with: who calls.
    executor : NodeSession, optional
        The node it would run on; None for this gateway's own tools.
    summary : PermissionSummary
        Exactly what would run.
    run : Run, optional
        The turn that wants it; the prompt ends with it.
    own_tool : bool
        Whether it is a tool of the executor's own agent, and no command of the node.
    origin : object, optional
        The socket of a call that is part of no turn: an answer is remembered for it at the longest.
    call_id : str
        How that socket names the call.
    size : int
        Bytes that are kept while it waits.
    on_asked : callable, optional
        Called with the prompt once somebody is asked: whoever waits may wonder why.
    """

    principal: Principal
    executor: NodeSession | None
    summary: PermissionSummary
    run: Run | None = None
    own_tool: bool = False
    origin: object | None = None
    call_id: str = ""
    size: int = 0
    on_asked: Callable[[PermissionInfo], None] | None = None


@dataclass(slots=True, eq=False)
class Prompt:
    """A question on its way to an answer.

    Attributes
    ----------
    key : Key, optional
        What an answer would be remembered for; None where it can't be.
    answered : asyncio.Future
        Done once it is allowed; fails with why it is not.
    shown : bool
        Whether it is on disk, and those that are asked know of it.
    deciding : bool
        Whether an answer is being written: no other counts then.
    overdue : bool
        Whether its time ran out meanwhile.
    """

    question: Question
    audience: Audience
    info: PermissionInfo
    key: Key | None
    answered: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    shown: bool = False
    deciding: bool = False
    overdue: bool = False
    timer: asyncio.TimerHandle | None = None

    def request_frame(self) -> dict[str, Any]:
        """Return it as those that are asked are told of it."""
        return {"type": "permission.request", **self.info.model_dump()}


def resolved_frame(info: PermissionInfo) -> dict[str, Any]:
    """Return how a prompt ended, as those that were asked are told."""
    told = ("id", "tool", "decision", "reason", "remember", "by")
    return {"type": "permission.resolved", **{name: getattr(info, name) for name in told}}
