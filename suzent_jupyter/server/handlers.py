"""REST over Tornado: one handler for every route of the table. This one is the listener's; Jupyter's adds its users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from pydantic import BaseModel
from tornado import web
from tornado.httputil import HTTPServerRequest

from ..gateway import Authority, Principal
from ..gateway.failures import internal, told
from ..gateway.granting.unauthorized import WATCHED
from ..gateway.principals import NOBODY
from ..protocol.errors import SuzentError
from ..protocol.wire import encode_ascii
from .auth import (
    client_address,
    find_token,
    has_browser_headers,
    held_principal_of_token,
    hold_back,
    principal_of_token,
    take_note,
)
from .refusal import refuse
from .request import Answer, Page, Request
from .routes import Route
from .service import GatewayService
from .stream import Stream, send_stream
from .streamed import BodyPieces, let_through


class Caller(web.RequestHandler):
    """Finds out who asks, on the listener: by token, or as a trusted local program."""

    service: GatewayService
    principal: Principal = NOBODY

    def find_caller(self, least: Authority) -> Awaitable[None] | None:
        """Set :attr:`principal`; refuse with ``unauthorized`` or ``forbidden``. Nobody is asked where anyone may come.

        Returns an awaitable only where that takes time, since every small call passes here.
        """
        self.service.check_running()
        if has_browser_headers(self.request.headers):
            self.check_host_name()
        if least is Authority.NONE:
            return None
        if self.service.gateway.ready.is_set() and (token := find_token(self.request.headers)) is not None:
            try:
                self._admit(principal_of_token(self.service, self.request, token), least)
            except SuzentError as error:
                if error.code != "too_many_attempts":
                    raise
                return hold_back(self.service, error)
            return None
        return self._find_slowly(least)

    async def _find_slowly(self, least: Authority) -> None:
        await self.service.gateway.ready.wait()
        token = find_token(self.request.headers)
        if token is not None:
            self._admit(await held_principal_of_token(self.service, self.request, token), least)
        else:
            self._admit(await self.service.tokenless_principal(self.request), least)

    def check_host_name(self) -> None:
        """Refuse a web page's request under a name that is not ours; TLS has checked the name already."""
        if self.request.protocol != "https":
            self.service.host_names.check(self.request.host)

    def _admit(self, principal: Principal, least: Authority) -> None:
        if principal.authority < least:
            raise SuzentError("forbidden", "This token's scope does not reach that URL.")
        self.principal = principal


class RouteHandler(Caller):
    """Serves the methods of one path."""

    routes: dict[str, Route]
    mount_url = ""
    may_write: Callable[[], Awaitable[bool]] | None = None
    _request: Request | None = None
    _gone = False
    _streaming: asyncio.Future[None] | None = None

    def initialize(self, service: GatewayService, routes: dict[str, Route]) -> None:
        """Take what the mount hands over."""
        self.service = service
        self.routes = routes

    def set_default_headers(self) -> None:
        """Answers are JSON."""
        self.set_header("Content-Type", "application/json")

    def prepare(self) -> Awaitable[None] | None:
        """Find out who asks, and whether they may."""
        route = self.route()
        if route.page:
            self.check_host_name()
        return self.find_caller(route.authority)

    def route(self) -> Route:
        """Return the route of this request; ``method_not_allowed`` if the path has no such method."""
        route = self.routes.get(self.request.method or "")
        if route is None:
            methods = ", ".join(method for method in self.routes if method != "WS")
            self.set_header("Allow", methods)
            raise SuzentError("method_not_allowed", f"{self.request.method} is not for this URL; use {methods}.")
        return route

    def body(self, route: Route) -> bytes:
        """Return the request's body; ``too_large`` if it is."""
        most = self.most_bytes(route)
        if len(self.request.body) > most:
            raise too_large(len(self.request.body), most)
        return self.request.body

    def most_bytes(self, route: Route) -> int:
        """Return how large the body of this route may be."""
        limits = self.service.gateway.limits
        if route.authority is Authority.NONE:
            return int(limits.stranger_body_bytes)
        if route.streamed:
            return int(limits.artifact_bytes)
        return int(limits.invoke_body_bytes if route.large else limits.body_bytes)

    async def _serve(self, **path: str) -> None:
        route = self.route()
        body = self.body(route)  # or why it was refused before it was read
        await self._answer_with(route, body, path)

    async def _answer_with(
        self, route: Route, body: bytes, path: dict[str, str], pieces: AsyncIterator[bytes] | None = None
    ) -> None:
        assert callable(route.endpoint)
        if route.owner and self.principal.account != self.service.gateway.account:
            raise SuzentError("not_owner", "Only the owner of this gateway may do this.")
        request = Request(
            self.service,
            self.principal,
            path,
            {name: values[-1].decode(errors="replace") for name, values in self.request.query_arguments.items()},
            body,
            scheme=self.request.protocol,
            host=self.request.host,
            place=self.request.path,
            mount_url=self.mount_url,
            may_write=self.may_write,
            headers=self.request.headers,
            remote=client_address(self.request)[0],
            sender=self,
            pieces=pieces,
        )
        self._request = request
        try:
            answer = await route.endpoint(request)
        except asyncio.CancelledError:
            if self._gone:
                return
            raise SuzentError("cancelled", "The call was cancelled.") from None
        if isinstance(answer, Page):
            self.send_page(answer)
        elif isinstance(answer, Stream):
            await self._send_stream(answer)
        elif isinstance(answer, Answer):
            self.set_status(answer.status)
            self.send_json(answer.body)
        else:
            self.send_json(answer)

    async def _send_stream(self, answer: Stream) -> None:
        principal = self.principal
        holder = answer.holder or (principal.credential_id if principal.authority < Authority.FULL else "")
        with self.service.streams.held(holder) as may:
            if not may:
                await answer.close()
                raise SuzentError("too_many_requests", "So many answers are being sent to this grant already.")
            valid = partial(self.service.gateway.still_speaks, principal)
            self._streaming = asyncio.ensure_future(send_stream(self, answer, valid))
            try:
                await self._streaming
            except asyncio.CancelledError:
                if not self._gone:
                    raise

    async def principal_of(self, token: str) -> Principal:
        """Return whom a token stands for."""
        return await held_principal_of_token(self.service, self.request, token)

    def take_note(self) -> None:
        """Take note that this connection is no stranger's."""
        take_note(self.request)

    def on_connection_close(self) -> None:
        """Give up what the caller no longer waits for: a call is cancelled on its device."""
        self._gone = True
        super().on_connection_close()  # Tornado's ends the wait for a body that is streamed
        if self._streaming is not None:
            self._streaming.cancel()
        if self._request is not None and self._request.waits_for is not None:
            self._request.waits_for.cancel()

    def send_page(self, page: Page) -> None:
        """Send a page under its own headers, which replace all of the server's of the same names."""
        self.set_header("Content-Type", page.media_type)
        for name, value in page.headers.items():
            self.set_header(name, value)
        self.finish(page.content)

    def send_json(self, answer: BaseModel | dict[str, Any] | bytes) -> None:
        """Send an answer, ASCII-escaped."""
        if isinstance(answer, bytes):
            self.finish(answer)  # of a call: each further header would cost it some percent
            return
        # What belongs to one caller is kept by nobody, and never to be guessed at.
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.finish(encode_ascii(answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer))

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
            internal(f"{self.request.method} {self.request.path}", value)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Answer with an error body."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        self.clear_body_headers()
        if isinstance(error, SuzentError):
            status_code = error.status
            self._remember_refusal(error)
        elif isinstance(error, web.HTTPError):
            error = http_error(status_code, error.log_message or "")
        else:
            error = told()  # the log has it
        if self._headers_written:
            if not self._finished:
                self.finish()
            return
        refuse(self, error, status_code, None if status_code != 499 else "Client Closed Request")

    def _remember_refusal(self, error: SuzentError) -> None:
        """Let the operator see who tries to drive the agent without a valid token."""
        route = self.routes.get(self.request.method or "")
        if error.status == 401 and route is not None and route.path in WATCHED and self.service.serving:
            host, _ = client_address(self.request)
            self.service.gateway.unauthorized.record(host, route.path, self.request.body or b"")

    def clear_body_headers(self) -> None:
        """Drop what a half-made answer has set; keep ``Allow``."""
        allow = self._headers.get("Allow")
        if not self._headers_written:
            self.clear()
            if allow:
                self.set_header("Allow", allow)


def too_large(size: int, most: int) -> SuzentError:
    """Return the refusal of a body."""
    return SuzentError("too_large", f"The body takes {size:,} bytes; {most:,} is the most.")


def http_error(status: int, message: str) -> SuzentError:
    """Return the error of this package that fits an HTTP status set by Tornado or Jupyter."""
    code = {
        400: "invalid_request",
        401: "unauthorized",
        403: "forbidden",
        404: "no_route",
        405: "method_not_allowed",
        413: "too_large",
        414: "url_too_long",
        431: "headers_too_large",
    }.get(status)
    if code is None:
        return told()
    text = "There is nothing at this URL." if code == "no_route" else message
    return SuzentError(code, text or "Refused.")


@web.stream_request_body
class LargeBodyHandler(RouteHandler):
    """Serves requests with large bodies: who asks is known before a byte of it is kept.

    A refused body is read to its end and dropped, since a client that still sends does not read an answer. A file is
    taken by its endpoint as it comes.
    """

    def initialize(self, service: GatewayService, routes: dict[str, Route]) -> None:
        """Take what the mount hands over."""
        super().initialize(service, routes)
        self._pieces: BodyPieces | None = None
        self._taking: asyncio.Task[None] | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._refusal: SuzentError | None = None

    async def prepare(self) -> None:
        """Find out who asks, and whether they may."""
        try:
            found = super().prepare()
            if found is not None:
                await found
            size, route = self.request.headers.get("Content-Length", "0"), self.route()
            announced = int(size) if size.isdigit() else 0
            self._count(announced)
            if route.streamed:
                let_through(self.request, max(announced, self.most_bytes(route)))
            if route.streamed and self._refusal is None:
                self._pieces = BodyPieces()
                self._taking = asyncio.ensure_future(self._answer_with(route, b"", {}, self._pieces))
                self._taking.add_done_callback(lambda taking: taking.cancelled() or taking.exception())
        except SuzentError as error:
            self._refusal = error

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Take a part of the body."""
        self._size += len(chunk)
        self._count(self._size)
        if self._taking is not None:
            assert self._pieces is not None
            return self._pieces.put(chunk, self._taking)
        if self._refusal is None:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()
        return None

    async def _serve(self, **path: str) -> None:
        if self._taking is None:
            await super()._serve(**path)
            return
        assert self._pieces is not None
        await self._pieces.put(b"", self._taking)
        await self._taking

    def on_connection_close(self) -> None:
        """Give up a file that does not come to its end."""
        super().on_connection_close()
        if self._taking is not None and not self._taking.done():
            self._taking.cancel()

    def _count(self, size: int) -> None:
        if self._refusal is None and size > (most := self.most_bytes(self.route())):
            self._refusal = too_large(size, most)

    def body(self, route: Route) -> bytes:
        """Return the request's body, or refuse."""
        if self._refusal is not None:
            raise self._refusal
        return b"".join(self._chunks)


def needs_stream(service: GatewayService, request: HTTPServerRequest) -> bool:
    """Tell whether a request's body is too large to be kept before its sender is known.

    A token makes its sender known at once. What is larger than most bodies may be is streamed for everybody.
    """
    size = request.headers.get("Content-Length", "0")
    if "Transfer-Encoding" in request.headers or not size.isdigit():
        return True
    if int(size) <= service.gateway.limits.stranger_body_bytes:
        return False
    if int(size) > service.gateway.limits.body_bytes or not service.gateway.ready.is_set():
        return True
    try:
        token = find_token(request.headers)
        return token is None or not principal_of_token(service, request, token)
    except SuzentError:
        return True


class NoRouteHandler(RouteHandler):
    """Everything else on the listener: 404 for whoever asks, with no word about who may."""

    def initialize(self, service: GatewayService) -> None:  # type: ignore[override]
        """Take what the listener hands over."""
        self.service = service
        self.routes = {}

    def prepare(self) -> None:
        """Refuse."""
        raise SuzentError("no_route", "There is nothing at this URL.")
