"""The place under the Jupyter server where the routes are mounted, held while the gateway is still being loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tornado import httputil
from tornado.routing import PathMatches, Rule, RuleRouter
from tornado.web import Application, RequestHandler

from ..protocol.errors import SuzentError
from .refusal import refuse

if TYPE_CHECKING:
    from .service import GatewayService

#: The module of the handlers; it brings everything with it and is loaded off the event loop.
HANDLERS = "suzent_jupyter.server.jupyter"
FORWARDERS = "suzent_jupyter.server.single.forward"


class Mount(RuleRouter):
    """Routes ``{base_url}suzent/…`` to the handlers of the route table, and says 503 until the gateway runs.

    So the handlers and all they need are loaded after the server answers, and not before.

    Parameters
    ----------
    application : tornado.web.Application
        Jupyter's.
    base_url : str
        Jupyter's, with a slash at its end.
    service : GatewayService
        What is mounted.
    """

    def __init__(self, application: Application, base_url: str, service: GatewayService) -> None:
        super().__init__()
        self._application = application
        self._plain_root = f"{base_url}suzent"
        self._root = re.escape(self._plain_root)
        self._service = service
        self._forwards: bool | None = None
        # Not by add_handlers: Jupyter's looks for the methods of a handler, and there is none yet.
        application.default_router.rules.insert(0, Rule(PathMatches(f"{self._root}/.*"), self))

    def find_handler(self, request: httputil.HTTPServerRequest, **kwargs: Any) -> httputil.HTTPMessageDelegate | None:
        """Return who handles a request; None for URLs that are not in the table."""
        if not self._service.running:
            return self._application.get_handler_delegate(request, StartingHandler)
        forwards = self._service.guest is not None
        if forwards != self._forwards:
            self._forwards = forwards
            self.rules = []
            self.add_rules(self._forwarding() if forwards else self._serving())
        return super().find_handler(request, **kwargs)

    def _serving(self) -> list[Rule]:
        from .jupyter import JupyterRouteHandler, JupyterSocketHandler

        return self._rules_of(JupyterRouteHandler, JupyterSocketHandler, {})

    def _forwarding(self) -> list[Rule]:
        from .single.forward import ForwardHandler, ForwardSocketHandler

        return self._rules_of(ForwardHandler, ForwardSocketHandler, {"root": self._plain_root})

    def _rules_of(self, plain: type[RequestHandler], socket: type[RequestHandler], more: dict[str, Any]) -> list[Rule]:
        from .routes import mounted

        return [
            Rule(PathMatches(self._root + pattern), handler, {"service": self._service, "routes": routes, **more})
            for pattern, handler, routes in mounted(plain, socket)
        ]

    def get_target_delegate(
        self, target: Any, request: httputil.HTTPServerRequest, **target_params: Any
    ) -> httputil.HTTPMessageDelegate | None:
        """Return the delegate of a handler class."""
        from .handlers import needs_stream
        from .jupyter import JupyterLargeBodyHandler, JupyterRouteHandler

        if target is JupyterRouteHandler and needs_stream(self._service, request):
            target = JupyterLargeBodyHandler
        return self._application.get_handler_delegate(request, target, **target_params)


class StartingHandler(RequestHandler):
    """Asks whoever comes while the gateway starts or stops to try again."""

    def check_xsrf_cookie(self) -> None:
        """Ask everybody: nothing is done here, and who is asked to come again must not be told they are forbidden."""

    def prepare(self) -> None:
        """Answer."""
        refuse(self, SuzentError("stopping", "The gateway is starting or stopping."))
