"""The gateway's door for its guests: a port on loopback, apart from the listener, for those who show the secret."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING

from tornado.netutil import bind_sockets

from ..port import Port

if TYPE_CHECKING:
    from ..service import GatewayService

_HEADER_BYTES = 128 * 1024  # what a Jupyter server takes, and ours


class Door(Port):
    """Binds, serves and closes: so the guests learn of the end."""

    def __init__(self, service: GatewayService) -> None:
        super().__init__()
        self._service = service
        self.secret = secrets.token_urlsafe(32)

    def bind(self) -> None:
        """Take a free port; whoever connects waits until :meth:`serve`."""
        self._sockets = bind_sockets(0, "127.0.0.1", family=socket.AF_INET)
        self.port = self._sockets[0].getsockname()[1]

    def serve(self) -> None:
        """Answer from now on."""
        from ..listener.connections import GuardedServer
        from .door_application import DoorApplication

        # Programs of all users of this machine may knock, and web pages too: without the secret they are strangers.
        self._server = GuardedServer(
            DoorApplication(self._service, self.secret),
            limits=self._service.gateway.limits,
            max_header_size=_HEADER_BYTES,
        )
        self._server.add_sockets(self._sockets)
