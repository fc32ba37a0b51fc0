"""The second HTTP server: the node gateway and nothing of Jupyter, so the only thing ever opened to a network."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from typing import TYPE_CHECKING

from tornado.netutil import bind_sockets

from ..port import Port

if TYPE_CHECKING:
    from ..service import GatewayService

log = logging.getLogger("suzent_jupyter")

_PORTS_TRIED = 50
_BACKLOG = 1024  # connections the system keeps for us; a full queue costs the next one a second
_CHUNK_BYTES = 256 * 1024  # of a body, read in one go


class Listener(Port):
    """Binds, serves and stops.

    Parameters
    ----------
    service : GatewayService
        What it serves.
    host : str
        ``127.0.0.1``, or ``0.0.0.0`` for other devices.
    port : int
        The wanted port; 0 for any free one.
    exact : bool
        Take no other.
    """

    def __init__(self, service: GatewayService, host: str, port: int, *, exact: bool = False) -> None:
        super().__init__()
        self._service = service
        self._exact = exact
        self.host = host
        self._wanted = port
        self._tls: ssl.SSLContext | None = None
        #: Whether other machines reach it over IPv6 too.
        self.ipv6 = False

    def bind(self) -> None:
        """Take the port: on loopback the next free one if it is taken.

        Raises
        ------
        OSError
            When no port can be had; bound for other devices or exactly, when the wanted one can't.
        """
        one = self._exact or self._wanted == 0 or self.host != "127.0.0.1"
        last = self._wanted if one else self._wanted + _PORTS_TRIED
        port = self._wanted
        while True:
            try:
                self._sockets = bind_sockets(port, self.host, family=socket.AF_INET, backlog=_BACKLOG)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port >= min(last, 65535):
                    raise
                port += 1
        self.port = self._sockets[0].getsockname()[1]
        if self.host == "0.0.0.0":  # noqa: S104
            self._bind_ipv6()
        if self._wanted and self.port != self._wanted:
            log.warning("Port %d is taken; the gateway listens on port %d", self._wanted, self.port)

    def _bind_ipv6(self) -> None:
        """Take the same port over IPv6, where there is such a thing and it is free."""
        try:
            self._sockets += bind_sockets(self.port, "::", family=socket.AF_INET6, backlog=_BACKLOG)
            self.ipv6 = True
        except OSError as error:
            log.debug("Port %d is not bound over IPv6: %s", self.port, error)

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS; on a running listener, new handshakes get this context."""
        self._tls = context
        if self._server is not None:
            self._server.ssl_options = context

    def serve(self, beside: Listener | None = None) -> None:
        """Answer from now on; until then whoever connects waits.

        ``beside`` is a listener that serves already: application and limits are the same for both.
        """
        from .application import application
        from .connections import GuardedServer

        shared = beside._server if beside is not None else None
        self._server = GuardedServer(
            shared.request_callback if shared is not None else application(self._service),
            limits=self._service.gateway.limits,
            strangers=shared.strangers if shared is not None else None,
            ssl_options=self._tls,
            chunk_size=_CHUNK_BYTES,
        )
        self._server.add_sockets(self._sockets)
