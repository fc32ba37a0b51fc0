"""REST over Tornado: one handler for every route of the table. This one is the listener's; Jupyter's adds its users."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from pydantic import BaseModel
from tornado import web

from ..gateway import Authority, Principal
from ..gateway.principals import NOBODY
from ..protocol.errors import SuzentError
from ..protocol.wire import encode_ascii
from .auth import find_token, principal_of_token
from .request import Request
from .routes import Route
from .service import GatewayService

log = logging.getLogger("suzent_jupyter")


class RouteHandler(web.RequestHandler):
    """Serves the methods of one path."""

    service: GatewayService
    routes: dict[str, Route]
    principal: Principal
    _request: Request | None = None
    _gone = False

    def initialize(self, service: GatewayService, routes: dict[str, Route]) -> None:
        """Take what the mount hands over."""
        self.service = service
        self.routes = routes

    def set_default_headers(self) -> None:
        """Answers are JSON, belong to one caller, and are never to be guessed at."""
        self.set_header("Content-Type", "application/json")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> Awaitable[None] | None:
        """Find out who asks, and whether they may."""
        route = self.route()
        self.service.check_running()
        principal = self.token_principal()
        if principal is None and route.authority is not Authority.NONE:
            return self._prepare_without_token(route)
        self.admit(route, principal or NOBODY)
        return None

    async def _prepare_without_token(self, route: Route) -> None:
        self.admit(route, await self.service.tokenless_principal(self.request))

    def route(self) -> Route:
        """Return the route of this request; ``method_not_allowed`` if the path has no such method."""
        route = self.routes.get(self.request.method or "")
        if route is None:
            methods = ", ".join(method for method in self.routes if method != "WS")
            self.set_header("Allow", methods)
            raise SuzentError("method_not_allowed", f"{self.request.method} is not for this URL; use {methods}.")
        return route

    def token_principal(self) -> Principal | None:
        """Return whom the token in the headers stands for; None if there is none of ours."""
        token = find_token(self.request.headers)
        return None if token is None else principal_of_token(self.service, self.request, token)

    def admit(self, route: Route, principal: Principal) -> None:
        """Let a caller in whose authority reaches this route and whose body is not too large."""
        if principal.authority < route.authority:
            raise SuzentError("forbidden", "This token's scope does not reach that URL.")
        limits = self.service.gateway.limits
        most = limits.invoke_body_bytes if route.large else limits.body_bytes
        if len(self.request.body) > most:
            raise SuzentError("too_large", f"The body takes {len(self.request.body):,} bytes; {most:,} is the most.")
        self.principal = principal

    async def _serve(self, **path: str) -> None:
        route = self.routes[self.request.method or ""]
        assert callable(route.endpoint)
        request = Request(
            self.service,
            self.principal,
            path,
            {name: values[-1].decode(errors="replace") for name, values in self.request.query_arguments.items()},
            self.request.body,
        )
        self._request = request
        try:
            answer = await route.endpoint(request)
        except asyncio.CancelledError:
            if self._gone:
                return
            raise SuzentError("cancelled", "The call was cancelled.") from None
        self.send_json(answer)

    def on_connection_close(self) -> None:
        """Give up what the caller no longer waits for: a call is cancelled on its device."""
        self._gone = True
        if self._request is not None and self._request.waits_for is not None:
            self._request.waits_for.cancel()

    def send_json(self, answer: BaseModel | dict[str, Any] | bytes) -> None:
        """Send an answer, ASCII-escaped."""
        if isinstance(answer, BaseModel):
            answer = answer.model_dump(mode="json")
        self.finish(answer if isinstance(answer, bytes) else encode_ascii(answer))

    async def get(self, **path: str) -> None:
        """Serve GET."""
        await self._serve(**path)

    async def post(self, **path: str) -> None:
        """Serve POST."""
        await self._serve(**path)

    async def delete(self, **path: str) -> None:
        """Serve DELETE."""
        await self._serve(**path)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log bugs, not refusals."""
        if not isinstance(value, SuzentError | web.HTTPError):
            log.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Answer with an error body."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        self.clear_body_headers()
        if isinstance(error, SuzentError):
            status_code = error.status
        elif isinstance(error, web.HTTPError):
            error = http_error(status_code, error.log_message or "")
        else:
            error = http_error(status_code, "")
        if self._headers_written:
            if not self._finished:
                self.finish()
            return
        self.set_status(status_code, None if status_code != 499 else "Client Closed Request")
        self.finish(encode_ascii(error.as_body()))

    def clear_body_headers(self) -> None:
        """Drop what a half-made answer has set; keep ``Allow``."""
        allow = self._headers.get("Allow")
        if not self._headers_written:
            self.clear()
            if allow:
                self.set_header("Allow", allow)


def http_error(status: int, message: str) -> SuzentError:
    """Return the error of this package that fits an HTTP status set by Tornado or Jupyter."""
    code = {
        400: "invalid_request",
        401: "unauthorized",
        403: "forbidden",
        404: "no_route",
        405: "method_not_allowed",
        413: "too_large",
    }.get(status, "internal")
    text = {"internal": "The gateway failed on this request.", "no_route": "There is nothing at this URL."}
    return SuzentError(code, text.get(code) or message or "Refused.")


class NoRouteHandler(RouteHandler):
    """Everything else on the listener: 404 for whoever asks, with no word about who may."""

    def initialize(self, service: GatewayService) -> None:  # type: ignore[override]
        """Take what the listener hands over."""
        self.service = service
        self.routes = {}

    def prepare(self) -> None:
        """Refuse."""
        raise SuzentError("no_route", "There is nothing at this URL.")
