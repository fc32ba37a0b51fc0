"""Agents of app nodes: ``chat.run`` out, ``chat.event`` in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...protocol.agents import Turn, load_events
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ...protocol.wire import encode
from ..session import NodeSession
from .agent_events import AgentEvents, Numbered
from .kept_files import keep_attachments
from .namespaces import name_elsewhere
from .turn_bodies import shorten, turn_body

if TYPE_CHECKING:
    from pathlib import Path

    from ag_ui.core import BaseEvent

    from ...protocol.artifacts import ArtifactReference
    from ..gateway import Gateway

_OTHERS_SHARE = 0.75  # of the prompts a node works on; the rest is for its owner's account
_IN_THE_FRAME = frozenset(["run_id", "conversation_id", "message", "attachments", "caller", "is_remote_session"])


class AppAgent:
    """The agent of one connected app node.

    Parameters
    ----------
    account : str
        Whose prompts it is for.

    Attributes
    ----------
    name : str
        The node's own name.
    """

    def __init__(self, gateway: Gateway, account: str, session: NodeSession) -> None:
        self._gateway = gateway
        self._account = account
        self._session = session
        self.name = session.display_name

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn; see :meth:`~suzent_jupyter.protocol.agents.Agent.run`.

        Raises
        ------
        SuzentError
            ``agent_failed`` and what else the node says in a ``RUN_ERROR``; ``turn_limit`` for events that are too
            large or come faster than they are taken; ``node_busy``; ``node_disconnected`` or ``revoked`` when it goes;
            and those of :func:`.kept_files.keep_attachments`.
        """
        await load_events()
        session, limits = self._session, self._gateway.limits
        kept = await keep_attachments(self._gateway, self._account, session, turn)
        frame = await asyncio.to_thread(self._frame, turn, kept)
        if not session.alive:
            raise SuzentError("node_disconnected", f"{self.name} disconnected.")
        if len(session.executing) >= limits.calls_in_flight:
            raise SuzentError("node_busy", f"{self.name} works on {len(session.executing)} prompts already.")
        if turn.is_remote_session:
            others = sum(run.prompt.remote for run in self._gateway.runs.executed_by(session.node_id)) - 1
            if others >= limits.calls_in_flight * _OTHERS_SHARE:
                raise SuzentError("node_busy", f"{self.name} works on {others} prompts of other accounts already.")
        execution = _Execution(AgentEvents(limits), self.name)
        session.executing[turn.run_id] = execution.take
        session.at_end.add(execution.lost)
        try:
            if not session.send_frame(frame):
                raise SuzentError("node_busy", f"{self.name} has stopped reading.")
            async with aclosing(aiter(execution.events)) as each:  # type: ignore[type-var]
                async for event in each:
                    yield event
        finally:
            session.executing.pop(turn.run_id, None)
            session.at_end.discard(execution.lost)
            if not execution.is_over:
                session.send_frame(encode({"type": "chat.abort", "run_id": turn.run_id}))

    def _frame(self, turn: Turn, kept: dict[Path, ArtifactReference]) -> bytes:
        """Return the turn as one ``chat.run``. Reads from disk."""
        room = self._gateway.limits.frame_bytes
        body = shorten(turn_body(turn, min(self._gateway.limits.agent_attachment_bytes, room // 2), kept), room)
        more = {name: value for name, value in body.items() if name not in _IN_THE_FRAME}
        return encode(
            {
                "type": "chat.run",
                "run_id": turn.run_id,
                "session_id": self._conversation(turn.conversation_id),
                "message": turn.message,
                "attachments": body["attachments"],
                "caller": body["caller"],
                "is_remote_session": turn.is_remote_session,
                "turn": more,
            }
        )

    def _conversation(self, conversation_id: str) -> str:
        """Return a conversation's name at the node: others' can't be called like its owner's, or each other's."""
        if self._account == self._session.device.account:
            return conversation_id
        return name_elsewhere(self._account, conversation_id)


class _Execution(Numbered):
    """What a node sends for one run; its end is one of the events."""

    def __init__(self, events: AgentEvents, name: str) -> None:
        super().__init__(events, name)
        #: Whether the node itself has ended it, or is gone: there is nothing to abort then.
        self.is_over = False
        self._name = name

    def take(self, frame: dict[str, Any], size: int) -> None:
        """Take a ``chat.event``."""
        if not self.is_over:
            super().take(frame, size)

    def lost(self, error: SuzentError) -> None:
        """Take note that the node is gone."""
        self.is_over = True
        self.events.finish(error)

    def _put(self, event: Any, size: int) -> None:
        match event.get("type") if isinstance(event, dict) else None:
            case "RUN_FINISHED":
                self.is_over = True
                self.events.finish()
            case "RUN_ERROR":
                self.is_over = True
                self.events.finish(self._failure(event))
            case _:
                super()._put(event, size)

    def _failure(self, event: Any) -> SuzentError:
        message = clean_text(event.get("message"), 500) or f"{self._name} failed without saying why."
        # Its own codes would pass for the gateway's.
        return SuzentError("agent_failed", message, hint="")
