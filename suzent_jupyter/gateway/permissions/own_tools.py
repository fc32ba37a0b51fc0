"""Tools of a node's own agent: the node asks before it uses one, since the gateway sees nothing of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ...protocol.wire import is_frame_id
from ..failures import internal
from .prompt import Question
from .summary import clean_summary

if TYPE_CHECKING:
    from ..answering.run import Run
    from ..gateway import Gateway
    from ..session import NodeSession

#: How a refusal reads as the reason of a prompt.
_REASONS = {"permission_denied": "answered", "permission_expired": "expired", "cancelled": "cancelled"}


class OwnTools:
    """What one node asks for its agent.

    Parameters
    ----------
    session : NodeSession
        The node.
    send : callable
        Sends it a frame (a dict).
    """

    def __init__(self, gateway: Gateway, session: NodeSession, send: Callable[[dict[str, Any]], None]) -> None:
        self._gateway = gateway
        self._session = session
        self._send = send
        self._tasks: dict[str | int, asyncio.Task[None]] = {}

    def receive(self, frame: dict[str, Any]) -> None:
        """Take a ``permission.request``; ``SuzentError`` for one that is none, or names a turn of somebody else."""
        request_id, tool = frame.get("id"), clean_text(frame.get("tool"), 128)
        if not is_frame_id(request_id):
            raise SuzentError("bad_frame", "`id` must be text of at most 128 characters or a number.")
        if not tool:
            raise SuzentError("invalid_request", "`tool` must be the name of a tool.")
        if request_id in self._tasks:
            raise SuzentError("bad_frame", f"A request with the id {request_id!r} is under way already.")
        if len(self._tasks) >= self._gateway.limits.permissions_open:
            raise SuzentError("too_many_permissions", f"{len(self._tasks)} prompts of this node wait already.")
        run = self._run(frame.get("run_id"))
        summary = clean_summary(frame.get("summary"), tool)
        # Whatever the summary calls it, the tool is what is asked about and remembered.
        summary.command = tool
        question = Question(run.principal, self._session, summary, run, own_tool=True, size=len(summary.params))
        task = self._tasks[request_id] = asyncio.ensure_future(self._ask(request_id, question))
        task.add_done_callback(lambda _: self._tasks.pop(request_id, None))

    def close(self) -> None:
        """Ask no more: the node is gone."""
        for task in list(self._tasks.values()):
            task.cancel()

    def _run(self, run_id: Any) -> Run:
        for run in self._gateway.runs.executed_by(self._session.node_id):
            if run.run_id == run_id:
                return run
        raise SuzentError("run_unknown", "There is no such turn, or not any more.")

    async def _ask(self, request_id: str | int, question: Question) -> None:
        answer: dict[str, Any] = {"decision": "allow", "reason": "answered"}
        try:
            await self._gateway.permissions.require(question)
        except SuzentError as error:
            answer = {"decision": "deny", "reason": _REASONS.get(error.code, "no_interface"), "code": error.code}
        except Exception as error:
            answer = {"decision": "deny", "reason": "no_interface", "code": internal("A prompt", error).code}
        self._send({"type": "permission.resolved", "id": request_id, **answer})
