"""Which nodes could carry out a chat, and the agent that does so on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .principals import Principal

if TYPE_CHECKING:
    from ..protocol.agents import Agent
    from .gateway import Gateway
    from .session import NodeSession


def executes(session: NodeSession) -> bool:
    """Tell whether a node has an agent that may be used: an app node's, or the approved ``agent.run`` of a device."""
    raise NotImplementedError


def agent_of(gateway: Gateway, principal: Principal, session: NodeSession) -> Agent:
    """Return the agent on a node, for a caller's prompt; ``not_executable`` if it has none."""
    raise NotImplementedError
