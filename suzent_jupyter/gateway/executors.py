"""Which nodes could carry out a chat, and the agent that does so on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from .answering.app_agent import AppAgent
from .answering.device_agent import DeviceAgent
from .answering.merging import Merged
from .principals import Principal

if TYPE_CHECKING:
    from ..protocol.agents import Agent
    from .gateway import Gateway
    from .session import NodeSession


def executes(session: NodeSession) -> bool:
    """Tell whether a node has an approved agent that may be used now."""
    device = session.device
    return AGENT_COMMAND in session.capabilities and AGENT_COMMAND in device.approved and device.status == "active"


def agent_of(gateway: Gateway, principal: Principal, session: NodeSession) -> Agent:
    """Return the agent on a node, for a caller's prompt; its pieces of text come merged (``delta_throttle``).

    Raises
    ------
    SuzentError
        ``nodes_disabled``, ``command_denied``, ``paused``, or ``not_executable`` for a node that has none.
    """
    name = session.display_name
    gateway.settings.check_nodes_enabled()
    if gateway.settings.denies(AGENT_COMMAND):
        raise SuzentError("command_denied", f"This gateway never runs '{AGENT_COMMAND}'.")
    if session.device.status == "paused":
        raise SuzentError("paused", f"{name} is paused.")
    if not executes(session):
        raise SuzentError("not_executable", f"{name} has no agent that was approved.")
    return Merged(_agent_on(gateway, principal, session), gateway.limits.delta_throttle)


def newest_agent(gateway: Gateway, principal: Principal) -> Agent | None:
    """Return the agent of the account's newest connected node that has one, for prompts to this gateway itself.

    Its events come as it says them.
    """
    if not gateway.settings.nodes_enabled or gateway.settings.denies(AGENT_COMMAND):
        return None
    for session in reversed(list(gateway.registry)):
        if session.device.account == principal.account and executes(session):
            return _agent_on(gateway, principal, session)
    return None


def _agent_on(gateway: Gateway, principal: Principal, session: NodeSession) -> Agent:
    if session.runs_chats:
        return AppAgent(gateway, principal.account, session)
    return DeviceAgent(gateway, principal, session)
