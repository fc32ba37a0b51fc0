"""A port that is bound before it is served: how the listener and the guests' door end."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .listener.connections import GuardedServer


class Port:
    """What is bound, and the server on it once there is one.

    Attributes
    ----------
    port : int
        Its number, 0 until it is bound.
    """

    def __init__(self) -> None:
        self.port = 0
        self._sockets: list[socket.socket] = []
        self._server: GuardedServer | None = None

    def stop_listening(self) -> None:
        """Take no new connections."""
        if self._server is not None:
            self._server.stop()
        else:
            for each in self._sockets:
                each.close()
        self._sockets = []

    async def close(self) -> None:
        """Close the connections that are left."""
        if self._server is not None:
            await self._server.close_all_connections()
            self._server = None
