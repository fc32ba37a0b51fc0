"""Where a conversation comes from and goes to, as the one sign that lists show for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.chat import Icon

if TYPE_CHECKING:
    from ..principals import Principal

#: Actor → channel; everybody else who is known is a program.
_CHANNELS = {"kernel": "notebook", "user": "web"}


def channel_of(principal: Principal) -> str:
    """Return by which way somebody asks: ``notebook``, ``web``, ``node``, ``peer`` or ``program``."""
    if principal.grant is not None:
        return "peer"
    if principal.actor.startswith("node:"):
        return "node"
    return _CHANNELS.get(principal.actor, "program")


def is_local(channel: str) -> bool:
    """Tell whether a channel begins at this gateway itself, and not at another machine."""
    return channel not in ("peer", "node")


def icon_of(*, channel: str, is_local_initiated: bool, target_node_id: str, is_enterprise: bool) -> Icon:
    """Return the sign.

    Parameters
    ----------
    channel : str
        As :func:`channel_of` says.
    is_local_initiated : bool
        Whether it began at this gateway.
    target_node_id : str
        The node that answered last; ``""`` for this gateway's own agent.
    is_enterprise : bool
        Whether that node is another account's.
    """
    if channel == "peer":
        return "peer"
    if is_enterprise:
        return "enterprise"
    if not is_local_initiated:
        return "received-from-node"
    if target_node_id:
        return "sent-to-node"
    return "web" if channel == "web" else "local"
