"""An agent that is a model: pydantic-ai asks it, our tools carry out what it calls, AG-UI events come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_text
from .clients import Endpoint, model_of
from .failures import turn_error
from .prompt import history, instructions, user_prompt
from .tools.dispatch import dispatch_tools
from .tools.files import file_tools
from .tools.memory import memory_tools
from .tools.nodes import node_tools
from .tools.route import route_tools

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent
    from pydantic_ai.models import Model

    from ..protocol.agents import Agent, Turn
    from ..protocol.limits import Limits
    from .tools import Workbench


def make_model_agent(model_name: str, workbench: Workbench, limits: Limits) -> Agent:
    """Make an agent that asks a model.

    Parameters
    ----------
    model_name : str
        As pydantic-ai names it, ``provider:model``. ``openai:NAME``, and a bare name, speak OpenAI's responses API;
        with ``OPENAI_BASE_URL`` set to another server they speak chat completions, which is what compatible servers
        understand, and a name with a colon of its own, such as ``qwen3:8b``, is taken whole. ``openai-chat:NAME`` and
        ``openai-responses:NAME`` choose the API. ``OPENAI_API_KEY`` may be missing where ``OPENAI_BASE_URL`` is set.
        The environment is read at each turn.
    workbench : Workbench
        The tools of its turns.
    limits : Limits
        The numbers in force.

    Returns
    -------
    Agent
        Its turns may end with ``no_agent`` (pydantic-ai is not installed), ``model_failed`` and ``turn_limit``.
    """
    return ModelAgent(model_name, workbench, limits)


class ModelAgent:
    """The agent of :func:`make_model_agent`; ``model`` takes the place of the one that has that name."""

    def __init__(self, model_name: str, workbench: Workbench, limits: Limits, model: Model | None = None) -> None:
        self._model_name = model_name
        self._workbench = workbench
        self._limits = limits
        self._model = model

    @property
    def name(self) -> str:
        """The model's name."""
        return clean_text(self._model_name, 128)

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn, as :class:`~suzent_jupyter.protocol.agents.Agent` says.

        Raises
        ------
        SuzentError
            ``no_agent``, ``model_failed`` or ``turn_limit``; what came before it was yielded.
        """
        limits = self._limits
        steps, tokens = int(limits.agent_steps), int(limits.agent_tokens)
        endpoint = Endpoint.read(self._model_name, limits)
        model = self._model or await model_of(endpoint)
        told = instructions(turn, self._workbench)
        agent, options, events = await asyncio.to_thread(self._prepare, model, turn, told, steps, tokens)
        try:
            async with (
                agent.run_stream_events(**options) as run,
                # Closing it early ends the run: its request and the tools under way are cancelled.
                aclosing(events.transform_stream(run)) as inside,
            ):
                async for event in inside:
                    yield event
        except Exception as error:
            raise turn_error(error, endpoint, steps, tokens) from None
        if events.error is not None:
            raise turn_error(events.error, endpoint, steps, tokens) from None

    def _prepare(self, model: Model, turn: Turn, told: str, steps: int, tokens: int) -> tuple[Any, dict[str, Any], Any]:
        """Load, read and build what takes time; works in a thread."""
        import pydantic_ai

        from .events import InnerEvents

        tools: list[pydantic_ai.Tool[None]] = []
        if self._workbench.nodes is not None:
            tools += node_tools(self._workbench.nodes, self._limits, turn.run_id)
        if self._workbench.files is not None:
            tools += file_tools(self._workbench.files, self._limits, self._workbench.permissions, turn.run_id)
        if self._workbench.dispatch is not None:
            tools += dispatch_tools(self._workbench.dispatch, self._limits, turn.run_id)
        if self._workbench.route is not None:
            tools += route_tools(self._workbench.route, self._limits)
        if self._workbench.memory is not None:
            tools += memory_tools(self._workbench.memory, self._limits, turn.run_id)
        agent = pydantic_ai.Agent(
            model,
            name="suzent",
            instructions=told,
            tools=tools,
            # A call of a tool that is not there, or with arguments that don't fit, goes back to the model as often as
            # it may be asked at all.
            retries={"tools": steps, "output": 1},
            model_settings={"first_event_timeout": float(self._limits.model_timeout)},
        )
        options = {
            "user_prompt": user_prompt(turn, self._limits),
            "message_history": history(turn),
            "usage_limits": pydantic_ai.UsageLimits(request_limit=steps, total_tokens_limit=tokens),
        }
        return agent, options, InnerEvents()
