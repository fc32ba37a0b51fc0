"""The second HTTP server: the node gateway and nothing of Jupyter, so the only thing ever opened to a network."""

from __future__ import annotations

import errno
import logging
import socket
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from ..protocol.errors import SuzentError
from .auth import find_token
from .endpoints import invoke
from .handlers import LargeBodyHandler, NoRouteHandler, RouteHandler
from .routes import by_path
from .shortcut import InvokeDelegate
from .sockets import SocketHandler

if TYPE_CHECKING:
    from .service import GatewayService

log = logging.getLogger("suzent_jupyter")

_PORTS_TRIED = 50
_HEADER_BYTES = 64 * 1024
_SMALL_BODY = 1024 * 1024
_REFUSED_BODY = 256 * _SMALL_BODY  # read and dropped up to here, so that the client gets to read why


class ListenerApplication(Application):
    """Tornado's application, with ways of its own for requests whose body is large, and for calls.

    Parameters
    ----------
    service : GatewayService
        What it serves.
    """

    def __init__(self, service: GatewayService, rules: list[Any], **settings: Any) -> None:
        super().__init__(rules, **settings)
        self._service = service

    def get_handler_delegate(self, request: Any, target_class: Any, *args: Any, **kwargs: Any) -> Any:
        """Choose who handles a request, now that its headers are known."""
        if target_class is RouteHandler:
            size = request.headers.get("Content-Length", "0")
            if "Transfer-Encoding" in request.headers or not size.isdigit() or int(size) > _SMALL_BODY:
                target_class = LargeBodyHandler
            elif request.method == "POST" and (call := self._shortcut(request, *args, **kwargs)) is not None:
                return call
        return super().get_handler_delegate(request, target_class, *args, **kwargs)

    def _shortcut(
        self, request: Any, target_kwargs: Any = None, path_args: Any = None, path_kwargs: Any = None
    ) -> InvokeDelegate | None:
        route = target_kwargs["routes"].get("POST")
        if route is None or route.endpoint is not invoke or not self._service.gateway.ready.is_set():
            return None
        try:
            token, node = find_token(request.headers), path_kwargs["node"].decode()
        except (SuzentError, UnicodeDecodeError):
            return None
        return InvokeDelegate(self._service, request, token, node) if token is not None else None


def application(service: GatewayService) -> Application:
    """Return the listener's Tornado application: the route table at the root."""
    rules: list[Any] = []
    for routes in by_path().values():
        route = next(iter(routes.values()))
        handler = SocketHandler if "WS" in routes else RouteHandler
        rules.append((f"{route.pattern}/?", handler, {"service": service, "routes": routes}))
    return ListenerApplication(
        service,
        rules,
        default_handler_class=NoRouteHandler,
        default_handler_args={"service": service},
        log_function=lambda handler: None,
        websocket_max_message_size=service.gateway.limits.socket_bytes,
    )


class Listener:
    """Binds, serves and stops.

    Parameters
    ----------
    service : GatewayService
        What it serves.
    host : str
        ``127.0.0.1``, or ``0.0.0.0`` for other devices.
    port : int
        The wanted port; 0 for any free one.
    """

    def __init__(self, service: GatewayService, host: str, port: int) -> None:
        self._service = service
        self.host = host
        self._wanted = port
        self.port = 0
        self._server: HTTPServer | None = None
        self._sockets: list[socket.socket] = []

    def bind(self) -> None:
        """Take the port: on loopback the next free one if it is taken.

        Raises
        ------
        OSError
            When no port can be had; bound for other devices, when exactly the wanted one can't.
        """
        last = self._wanted if self._wanted == 0 or self.host != "127.0.0.1" else self._wanted + _PORTS_TRIED
        port = self._wanted
        while True:
            try:
                self._sockets = bind_sockets(port, self.host, family=socket.AF_INET)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port >= min(last, 65535):
                    raise
                port += 1
        self.port = self._sockets[0].getsockname()[1]
        if self._wanted and self.port != self._wanted:
            log.warning("Port %d is taken; the gateway listens on port %d", self._wanted, self.port)

    def serve(self) -> None:
        """Answer from now on."""
        self._server = HTTPServer(
            application(self._service),
            xheaders=False,
            max_body_size=_REFUSED_BODY,
            max_header_size=_HEADER_BYTES,
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
        """Close the connections that are left."""
        if self._server is not None:
            await self._server.close_all_connections()
            self._server = None
