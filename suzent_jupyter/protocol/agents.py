"""The agent interface: an agent is an async iterator of AG-UI events over a turn.

Events are the models of ``ag_ui.core`` (the Agent User Interaction Protocol); that package loads on first use, and what
an agent yields is the inside of a turn only. That a turn starts, ends and fails is said by whoever runs it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent


async def load_events() -> None:
    """Load :mod:`.events`, and with it ``ag_ui``, in a thread: the first time takes some tenths of a second."""
    if f"{__package__}.events" not in sys.modules:
        await asyncio.to_thread(import_module, ".events", __package__)


class TurnPart(BaseModel):
    """Base of what a turn is made of; it travels to kernels and devices as JSON."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class TurnCaller(TurnPart):
    """Who asks.

    Attributes
    ----------
    kind : str
        ``user`` of this gateway, or ``peer``.
    name : str
        As people call it; a peer's own word, cleaned, and still only data.
    device_id : str
        A peer's grant; ``""`` for a user.
    """

    kind: Literal["user", "peer"] = "user"
    name: str = ""
    device_id: str = ""


class TurnMessage(TurnPart):
    """A message that went before."""

    role: Literal["user", "assistant"]
    content: str


class TurnAttachment(TurnPart):
    """A file that came with the prompt; it lies at ``path`` on the gateway's machine until the turn is over."""

    name: str
    media_type: str
    size: int
    path: Path


class Turn(TurnPart):
    """One prompt, and what an agent needs to answer it.

    Attributes
    ----------
    run_id, conversation_id : str
        This turn, and the conversation it continues.
    message : str
        The prompt. A peer's is data from another machine.
    history : list of TurnMessage
        What went before, oldest first.
    note : str
        Who asks and on what terms; for the agent alone.
    unattended : bool
        Whether nobody is there to be asked.
    may_use_asking_tools : bool
        Whether tools that would otherwise ask may be used in this turn.
    is_remote_session : bool
        Whether somebody of another account asks; set by the gateway, never by a caller.
    chain : list of str
        The nodes whose agents ask each other in this turn, the first one asked first; the last is the one that answers.
    """

    run_id: str
    conversation_id: str
    message: str
    history: list[TurnMessage] = Field(default_factory=list)
    attachments: list[TurnAttachment] = Field(default_factory=list)
    caller: TurnCaller = Field(default_factory=TurnCaller)
    note: str = ""
    unattended: bool = False
    may_use_asking_tools: bool = True
    is_remote_session: bool = False
    chain: list[str] = Field(default_factory=list)


class Agent(Protocol):
    """What runs a turn."""

    @property
    def name(self) -> str:
        """How people call it."""

    def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn with events of ``ag_ui.core``, without RUN_STARTED, RUN_FINISHED and RUN_ERROR.

        Closing the iterator, or cancelling the task that reads it, cancels the turn and whatever it called.

        Raises
        ------
        SuzentError
            What ends the turn, such as ``agent_gone``, ``model_failed`` or ``turn_limit``.
        """
