"""Agents that run in a notebook's kernel, over its ``/ws/client`` socket."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...protocol.agents import Turn, load_events
from ...protocol.client import AgentCancel, AgentRegistered, AgentTurn
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ..principals import Principal
from .agent_events import AgentEvents

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

    from ..gateway import Gateway

_AGENTS = 64  # of one socket
_ID_CHARS = 128
#: What a kernel may say a turn failed with; anything else is the agent's failure.
_CODES = frozenset(["agent_failed", "agent_gone", "turn_limit"])


class KernelAgent:
    """One agent of a kernel.

    Attributes
    ----------
    name, description : str
        As its owner calls it, cleaned.
    """

    def __init__(self, agents: KernelAgents, agent_id: str, name: str, description: str) -> None:
        self._agents = agents
        self._id = agent_id
        self.name = name
        self.description = description

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn; see :meth:`~suzent_jupyter.protocol.agents.Agent.run`.

        Raises
        ------
        SuzentError
            ``agent_failed``; ``agent_gone`` when the kernel's socket closed; ``turn_limit`` for events that are too
            large, or come faster than they are taken.
        """
        await load_events()
        events = self._agents.start(self._id, self.name, turn)
        try:
            async with aclosing(aiter(events)) as each:  # type: ignore[type-var]
                async for event in each:
                    yield event
        finally:
            self._agents.end(events)


class KernelAgents:
    """The agents of one client socket, and their turns. All methods are called on the event loop.

    Parameters
    ----------
    send : callable
        Sends a frame; does nothing once the socket is closed.
    """

    def __init__(self, gateway: Gateway, principal: Principal, send: Callable[[dict[str, Any]], None]) -> None:
        self._gateway = gateway
        self._account = principal.account
        self._send = send
        self._agents: dict[str, KernelAgent] = {}
        self._turns: dict[str, tuple[AgentEvents, str]] = {}
        self._closed = False

    def receive(self, frame: dict[str, Any], size: int) -> None:
        """Take a frame ``agent.*`` of ``size`` bytes; ``bad_frame`` when a field is wrong."""
        match frame["type"]:
            case "agent.register":
                self._register(frame)
            case "agent.unregister":
                self._unregister(_text(frame, "id"))
            case _:
                self._event(frame, size)

    def close(self) -> None:
        """Forget the agents; their turns end with ``agent_gone``."""
        self._closed = True
        for agent_id in list(self._agents):
            self._unregister(agent_id)
        for events, name in list(self._turns.values()):
            events.finish(_gone(name))

    # -- turns

    def start(self, agent_id: str, name: str, turn: Turn) -> AgentEvents:
        """Have the kernel begin a turn; return where its events come in."""
        if self._closed:
            raise _gone(name)
        events = AgentEvents(self._gateway.limits)
        turn_id = secrets.token_hex(8)
        self._turns[turn_id] = (events, name)
        self._send(AgentTurn(id=agent_id, turn_id=turn_id, turn=turn.model_dump(mode="json")).model_dump())
        return events

    def end(self, events: AgentEvents) -> None:
        """Forget a turn; one that the kernel still works on is cancelled there."""
        for turn_id, (each, _) in list(self._turns.items()):
            if each is events:
                del self._turns[turn_id]
                if not self._closed:
                    self._send(AgentCancel(turn_id=turn_id).model_dump())

    def _event(self, frame: dict[str, Any], size: int) -> None:
        turn_id = _text(frame, "turn_id")
        events, name = self._turns.get(turn_id, (None, ""))
        if events is None:
            return  # of a turn nobody waits for any more
        if frame.get("done") is not True:
            events.put(frame.get("event"), size)
            return
        del self._turns[turn_id]  # the kernel is through with it: nothing is left to cancel
        error = frame.get("error")
        if error is None:
            events.finish()
        else:
            code = frame.get("code")
            why = clean_text(error, 500) or f"{name} failed without saying why."
            events.finish(SuzentError(code if code in _CODES else "agent_failed", why))

    # -- who is asked

    def _register(self, frame: dict[str, Any]) -> None:
        agent_id, name = _text(frame, "id"), clean_text(frame.get("name"), int(self._gateway.limits.name_chars))
        if not name:
            raise SuzentError("bad_frame", "An agent needs a `name` that can be printed.")
        self._unregister(agent_id)
        if len(self._agents) >= _AGENTS:
            raise SuzentError("bad_frame", f"One client may register {_AGENTS} agents.")
        description = clean_text(frame.get("description"), int(self._gateway.limits.description_chars))
        agent = self._agents[agent_id] = KernelAgent(self, agent_id, name, description)
        self._gateway.agents.register(self._account, agent)
        self._send(AgentRegistered(id=agent_id).model_dump())

    def _unregister(self, agent_id: str) -> None:
        agent = self._agents.pop(agent_id, None)
        if agent is not None:
            self._gateway.agents.unregister(agent)


def _gone(name: str) -> SuzentError:
    return SuzentError("agent_gone", f"The notebook that ran {name} is gone.")


def _text(frame: dict[str, Any], field: str) -> str:
    value = frame.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= _ID_CHARS:
        raise SuzentError("bad_frame", f"`{field}` must be text of 1 to {_ID_CHARS} characters.")
    return value
