"""The listener's Tornado application: the route table at the root, and nothing of Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.web import Application

from ...protocol.errors import SuzentError
from ..auth import find_token
from ..endpoints import invoke
from ..handlers import LargeBodyHandler, NoRouteHandler, RouteHandler, needs_stream
from ..routes import mounted
from ..sockets import SocketHandler
from .body_time import in_time
from .shortcut import InvokeDelegate

if TYPE_CHECKING:
    from ..service import GatewayService


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

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        """Choose by URL; refuse a request whose head is too large."""
        limits = self._service.gateway.limits
        error = None
        if len(request.uri) > limits.url_bytes:
            error = SuzentError("url_too_long", f"The URL takes {len(request.uri):,} bytes.")
        elif (size := sum(map(len, request.headers.values()))) > limits.header_bytes:
            error = SuzentError("headers_too_large", f"The headers take {size:,} bytes.")
        if error is None:
            return in_time(request, super().find_handler(request, **kwargs), limits.body_timeout)
        return super().get_handler_delegate(request, RefusingHandler, {"service": self._service, "error": error})

    def get_handler_delegate(self, request: Any, target_class: Any, *args: Any, **kwargs: Any) -> Any:
        """Choose who handles a request, now that its headers are known."""
        if target_class is RouteHandler:
            if needs_stream(self._service, request):
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


class RefusingHandler(NoRouteHandler):
    """Answers whatever is asked with one error."""

    def initialize(self, service: GatewayService, error: SuzentError) -> None:  # type: ignore[override]
        """Take the error."""
        super().initialize(service)
        self._error = error

    def prepare(self) -> None:
        """Refuse."""
        raise self._error


def application(service: GatewayService) -> Application:
    """Return the listener's Tornado application: the route table at the root."""
    rules = [
        (pattern, handler, {"service": service, "routes": routes})
        for pattern, handler, routes in mounted(RouteHandler, SocketHandler)
    ]
    return ListenerApplication(
        service,
        rules,
        default_handler_class=NoRouteHandler,
        default_handler_args={"service": service},
        log_function=lambda handler: None,
        websocket_max_message_size=service.gateway.limits.socket_bytes,
    )
