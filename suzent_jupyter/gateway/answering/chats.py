"""Chats of one socket: prompts that are routed to a node, and runs that are watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..principals import Principal

if TYPE_CHECKING:
    from ..gateway import Gateway


class Chats:
    """Those of one ``/ws/client`` or ``/ws/gateway`` socket.

    Parameters
    ----------
    principal : Principal
        Whose socket it is.
    send : callable
        Sends a frame (a dict).
    """

    def __init__(self, gateway: Gateway, principal: Principal, send: Callable[[dict[str, Any]], None]) -> None:
        raise NotImplementedError

    def receive(self, frame: dict[str, Any]) -> None:
        """Take a ``chat.*`` frame; ``SuzentError`` for one that is none."""

    def close(self) -> None:
        """Watch nothing any more: the socket is gone. The runs go on."""
