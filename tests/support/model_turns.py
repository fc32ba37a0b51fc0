"""Short ways to run an agent's turn."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from suzent_jupyter.agent.clients import close_clients
from suzent_jupyter.agent.model import make_model_agent
from suzent_jupyter.agent.tools import Workbench
from suzent_jupyter.protocol.agents import Agent, Turn
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits


def a_turn(message: str = "hello?", **facts: Any) -> Turn:
    return Turn(run_id="r1", conversation_id="c1", message=message, **facts)


class Told:
    """What a turn yielded, and the error it ended with."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.error: SuzentError | None = None

    @property
    def kinds(self) -> list[str]:
        return [event.type.value for event in self.events]

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.events if event.type.value == "TEXT_MESSAGE_CONTENT")

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type.value == kind]

    @property
    def results(self) -> list[Any]:
        """What tools answered, parsed."""
        return [json.loads(event.content) for event in self.of("TOOL_CALL_RESULT")]


async def told_by(agent: Agent, turn: Turn | None = None) -> Told:
    """Run a turn to its end."""
    told = Told()
    async with contextlib.aclosing(agent.run(turn or a_turn())) as events:  # type: ignore[type-var]
        try:
            async for event in events:
                told.events.append(event)
        except SuzentError as error:
            told.error = error
    return told


async def told(model: str, turn: Turn | None = None, workbench: Workbench | None = None, **limits: Any) -> Told:
    """Run a turn of a model of the local server to its end, and close its connections."""
    try:
        return await told_by(make_model_agent(model, workbench or Workbench(), Limits(**limits)), turn)
    finally:
        await close_clients()


def calling(tool: str, arguments: Any, scenario: str = "tool", **options: Any) -> str:
    """Return the name of a model that calls a tool; ``arguments`` as JSON, or as the text that is sent instead."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    more = "".join(f";{name}={value}" for name, value in options.items())
    return f"{scenario};name={tool};args={text.encode().hex()}{more}"
