"""Calls that a socket makes with ``node.invoke.request``: a command of a node, or its agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..principals import Principal

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession


class Invocations:
    """Those of one socket.

    Parameters
    ----------
    principal : Principal
        Whose socket it is.
    send : callable
        Sends a frame (a dict).
    session : NodeSession, optional
        The app node at its other end; None for people.
    """

    def __init__(
        self,
        gateway: Gateway,
        principal: Principal,
        send: Callable[[dict[str, Any]], None],
        session: NodeSession | None = None,
    ) -> None:
        raise NotImplementedError

    def receive(self, frame: dict[str, Any], size: int) -> None:
        """Take a ``node.invoke.request`` or ``node.invoke.cancel``; ``SuzentError`` for one that is none."""

    def close(self) -> None:
        """Cancel what is under way: the socket is gone."""
