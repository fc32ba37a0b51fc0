"""What a control grant covers, and holding its holder to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ...protocol.rest import NodeInfo
from ...protocol.text import clean_text
from ..principals import Grant, Principal

if TYPE_CHECKING:
    from ..gateway import Gateway


def covered_nodes(grant: Grant, nodes: list[NodeInfo]) -> list[NodeInfo]:
    """Return of nodes what a grant covers. Nodes it covers nothing of are left out, and so is where the others are."""
    if not grant.devices:
        return []
    shown = []
    for node in nodes:
        capabilities = [capability for capability in node.capabilities if grant.allows(capability.name)]
        if capabilities or not grant.commands:
            shown.append(
                node.model_copy(update={"capabilities": capabilities, "pending_capabilities": [], "remote": ""})
            )
    return shown


def require_agent(principal: Principal) -> None:
    """Refuse a caller whose control grant does not cover the agent: ``not_granted``."""
    if principal.grant is not None and not principal.grant.agent:
        raise SuzentError("not_granted", "This control grant does not cover the agent.")


def require_command(principal: Principal, command: str) -> None:
    """Refuse a caller whose control grant does not cover a device's command: ``not_granted``."""
    if principal.grant is not None and not principal.grant.allows(command):
        what = f"'{clean_text(command, 128)}'" if principal.grant.devices else "devices"
        raise SuzentError("not_granted", f"This control grant does not cover {what}.")


def provider_of(gateway: Gateway, principal: Principal, command: str) -> str:
    """Return the id of the node that carries a command out where the caller names none: the one connected longest.

    Raises
    ------
    SuzentError
        ``not_granted``, ``nodes_disabled``, or ``unknown_command`` where no node offers it.
    """
    gateway.dispatcher.check_grant(principal, command)
    gateway.settings.check_nodes_enabled()
    for session in gateway.registry.visible(principal):
        offered = command in session.capabilities and command in session.device.approved
        if offered and session.device.status == "active":
            return session.node_id
    raise SuzentError("unknown_command", f"No local node provides '{clean_text(command, 128)}'.")
