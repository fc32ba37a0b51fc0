"""One turn: what was asked, what has been said so far, how it ended.

A reader of a turn is an index into the list of its events, so one that is slow or gone stalls nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ...protocol.agents import TurnAttachment, TurnCaller
from ...protocol.chat import RunInfo
from ...protocol.errors import ERRORS, SuzentError
from ..clock import now_text
from ..principals import Principal
from .conversations import Also
from .news import News

if TYPE_CHECKING:
    from ...protocol.agents import Agent
    from ...protocol.routing import Decision
    from .turn_events import Answer


async def _nothing() -> None:
    pass


@dataclass(slots=True, kw_only=True)
class Prompt:
    """What somebody asks.

    Attributes
    ----------
    text : str
        The prompt.
    attachments : list of TurnAttachment
        What came with it.
    clear : callable
        Called once the agent is done with these.
    began, ended : callable, optional
        What is to be written together with the prompt, given the run id, and with the answer, given whether it failed.
    again : callable, optional
        Whether a turn that ended with this code is to be run anew: then no answer is kept.
    agent : Agent, optional
        Who answers; the gateway chooses otherwise.
    decision : Decision, optional
        Which node was chosen for it, and why.
    node_id, node_name : str
        The node that answers; ``""`` for this gateway's own agent.
    chain : tuple of str
        The nodes whose agents ask each other, up to the one that answers.
    top_run : str
        The turn somebody began that this one is part of; ``""`` where somebody began this one.
    remote : bool
        Whether the agent belongs to another account than who asks.
    folder : str
        Where a new conversation is filed; ``""`` for where its caller's are.
    note : str
        What else the agent is told of who asks.
    """

    text: str
    attachments: list[TurnAttachment] = field(default_factory=list)
    clear: Callable[[], Awaitable[None]] = _nothing
    origin: str = ""
    began: Callable[[str], Also] | None = None
    ended: Callable[[bool], Also] | None = None
    again: Callable[[str], bool] = lambda code: False
    agent: Agent | None = None
    decision: Decision | None = None
    node_id: str = ""
    node_name: str = ""
    chain: tuple[str, ...] = ()
    top_run: str = ""
    remote: bool = False
    folder: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """How a turn ended: ``code`` and ``message`` are those of a failure."""

    status: Literal["done", "stopped", "failed"]
    code: str = ""
    message: str = ""

    @property
    def outcome(self) -> str:
        """How the answer's row says it."""
        return self.code or self.status

    @classmethod
    def of(cls, error: SuzentError) -> End:
        """Return the end that a failure makes; whoever reads it may not know our codes."""
        hint = f" {ERRORS['no_agent'].hint}" if error.code == "no_agent" else ""
        return cls("failed", error.code, error.message + hint)


class Run:
    """One turn.

    Attributes
    ----------
    events : list of bytes
        What it has said so far, each event encoded once.
    over : bool
        Whether that is all.
    """

    def __init__(self, principal: Principal, conversation_id: str, caller: TurnCaller, prompt: Prompt) -> None:
        self.run_id = secrets.token_hex(8)
        self.principal = principal
        self.account = principal.account
        self.conversation_id = conversation_id
        self.caller = caller
        self.prompt = prompt
        self.agent = ""
        self.events: list[bytes] = []
        self.bytes = 0
        self.over = False
        self.end: End | None = None
        self.started_at = now_text()
        self.started = time.monotonic()
        self.finished_at = ""
        self.answer: Answer | None = None
        self.ending: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.released = asyncio.Event()
        self._news = News()

    @property
    def closing(self) -> bool:
        """Whether it takes no more events of its agent."""
        return self.ending.done()

    def finish(self, end: End) -> None:
        """End it, unless it has ended already."""
        if not self.ending.done():
            self.ending.set_result(end)

    def append(self, data: bytes) -> None:
        """Add an event."""
        self.events.append(data)
        self.bytes += len(data)
        self._news.tell()

    def close(self, end: End) -> None:
        """Say that all events are there, and how it ended."""
        self.end, self.over, self.finished_at = end, True, now_text()
        self._news.tell()

    def wake(self) -> None:
        """Have readers look whether they may still read."""
        self._news.tell()

    async def more(self, seen: int, valid: Callable[[], bool] = lambda: True) -> bool:
        """Wait for an event beyond the first ``seen``; False if there will be none, or its reader is not valid now."""
        while len(self.events) <= seen:
            if self.over or not valid():
                return False
            await self._news.wait()
        return True

    async def ended(self) -> End | None:
        """Wait until it is over, and return how it ended."""
        while not self.over:
            await self.more(len(self.events))
        return self.end

    def info(self) -> RunInfo:
        """Return it as subscribers see it."""
        end = self.end
        return RunInfo(
            run_id=self.run_id,
            conversation_id=self.conversation_id,
            caller=self.caller.name,
            agent=self.agent,
            status=end.status if end is not None else "running",
            started_at=self.started_at,
            finished_at=self.finished_at,
            events=len(self.events),
            error=f"{end.code}: {end.message}" if end is not None and end.code else "",
            node_id=self.prompt.node_id,
            node_name=self.prompt.node_name,
        )
