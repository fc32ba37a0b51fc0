"""The gateway's door for its guests: a port on loopback, apart from the listener, for those who show the secret."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING

from tornado.netutil import bind_sockets

if TYPE_CHECKING:
    from .connections import GuardedServer
    from .service import GatewayService

_HEADER_BYTES = 128 * 1024  # what a Jupyter server takes, and ours
_REFUSED_BODY = 256 * 1024 * 1024


class Door:
    """Binds, serves and closes."""

    def __init__(self, service: GatewayService) -> None:
        self._service = service
        self._server: GuardedServer | None = None
        self._sockets: list[socket.socket] = []
        self.port = 0
        self.secret = secrets.token_urlsafe(32)

    def bind(self) -> None:
        """Take a free port; whoever connects waits until :meth:`serve`."""
        self._sockets = bind_sockets(0, "127.0.0.1", family=socket.AF_INET)
        self.port = self._sockets[0].getsockname()[1]

    def serve(self) -> None:
        """Answer from now on."""
        from .connections import GuardedServer
        from .door_application import DoorApplication

        # Programs of all users of this machine may knock, and web pages too: without the secret they are strangers.
        self._server = GuardedServer(
            DoorApplication(self._service, self.secret),
            limits=self._service.gateway.limits,
            max_body_size=_REFUSED_BODY,
            max_header_size=_HEADER_BYTES,
            body_timeout=None,  # how long a guest's caller may take is the guest's business
        )
        self._server.add_sockets(self._sockets)

    def stop_listening(self) -> None:
        """Take no new connections."""
        if self._server is not None:
            self._server.stop()
        else:
            for each in self._sockets:
                each.close()
        self._sockets = []

    async def close(self) -> None:
        """Close the connections that are left: so the guests learn of it."""
        if self._server is not None:
            await self._server.close_all_connections()
            self._server = None
