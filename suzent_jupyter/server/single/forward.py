"""The Jupyter mount of a guest: Jupyter's users, authorizer, XSRF and origins are asked here, the rest is forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.iostream import StreamClosedError

from ...gateway.granting.unauthorized import WATCHED
from ...protocol.errors import SuzentError
from ..auth import peer_address
from ..jupyter import JupyterRouteHandler, JupyterSocketHandler, find_jupyter_caller, user_may_write
from ..routes import Route
from ..streamed import let_through
from .forwarded import ForwardedCaller
from .guest import answer_headers, gone, splice

if TYPE_CHECKING:
    import httpx

    from ..service import GatewayService


async def forwarded_caller(handler: Any, route: Route, root: str) -> ForwardedCaller:
    """Return who asks; ``unauthorized`` or ``forbidden`` as on the gateway's own mount."""
    kind: Literal["nobody", "token", "user"] = "nobody"
    try:
        kind, _ = await find_jupyter_caller(handler, route)
    except SuzentError as error:
        # Refused by the gateway then, where the operator sees it.
        if error.code != "unauthorized" or route.path not in WATCHED:
            raise
    may_write = kind != "user" or await user_may_write(handler)
    account = org = ""
    if kind == "user":
        account, org = handler.service.accounts.of(handler.current_user, handler.identity_provider, handler)
    request = handler.request
    peer, remote = peer_address(request), str(request.remote_ip or "")
    return ForwardedCaller(kind, peer, remote, request.protocol, root, may_write, account, org)


@web.stream_request_body
class ForwardHandler(JupyterRouteHandler):
    """Forwards a request, its body and its answer as they come.

    A refused request's body is read to its end and dropped, since a client that still sends does not read an answer.
    """

    def initialize(self, service: GatewayService, routes: dict[str, Route], root: str) -> None:  # type: ignore[override]
        """Take what the mount hands over; ``root`` is where it is mounted."""
        super().initialize(service, routes)
        self._root = root
        self._refusal: SuzentError | None = None
        self._answer: asyncio.Task[httpx.Response] | None = None
        self._relay: asyncio.Task[None] | None = None
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def _prepare(self) -> None:
        try:
            route = self.route()
            self.service.check_running()
            caller = await forwarded_caller(self, route, self._root)
            guest = self.service.guest
            if guest is None:
                raise gone()
        except SuzentError as error:
            self._refusal = error
            return
        if route.streamed:
            let_through(self.request, int(self.service.artifact_bytes))
        headers = self.request.headers
        has_body = headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers
        path = (self.request.uri or "")[len(self._root) :]
        self._answer = asyncio.create_task(guest.send(self.request, path, caller, self._body() if has_body else None))
        self._answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())

    async def _body(self) -> AsyncIterator[bytes]:
        while chunk := await self._chunks.get():
            yield chunk

    async def data_received(self, chunk: bytes) -> None:
        """Pass a part of the body on; the caller sends no faster than the gateway takes it."""
        await self._pass_on(chunk)

    async def _pass_on(self, chunk: bytes) -> None:
        if self._answer is None or self._answer.done():
            return
        passing = asyncio.ensure_future(self._chunks.put(chunk))
        await asyncio.wait([passing, self._answer], return_when=asyncio.FIRST_COMPLETED)
        passing.cancel()

    async def _serve(self, **_path: str) -> None:
        if self._refusal is not None:
            raise self._refusal
        assert self._answer is not None
        await self._pass_on(b"")
        self._relay = asyncio.ensure_future(self._relay_answer(self._answer))
        try:
            await self._relay
        except asyncio.CancelledError:
            if not self._gone:
                raise

    async def _relay_answer(self, answer: asyncio.Task[httpx.Response]) -> None:
        import httpx

        response = await answer
        stream: Any = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.set_nodelay(True)  # a small event must not wait until the one before it is acknowledged
        try:
            self.set_status(response.status_code, response.reason_phrase or None)
            for name, value in answer_headers(response.headers.multi_items()):
                self.set_header(name, value)
            async for chunk in response.aiter_raw():
                self.write(chunk)
                await self.flush()
            self.finish()
        except StreamClosedError:
            pass
        except httpx.TransportError:
            if not self._headers_written:
                raise gone() from None
            self._break_off()
        finally:
            await response.aclose()

    def _break_off(self) -> None:
        """End an answer of which a part is missing, so that nobody takes it for whole."""
        self._finished = True
        stream: Any = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()

    def on_connection_close(self) -> None:
        """Give up at the gateway what the caller no longer waits for."""
        self._gone = True
        for task in (self._relay, self._answer):
            if task is not None:
                task.cancel()
        if self._answer is not None:
            self._answer.add_done_callback(_drop)
        super().on_connection_close()
        web.RequestHandler.on_connection_close(self)


def _drop(answer: asyncio.Task[httpx.Response]) -> None:
    """Let go of an answer nobody waits for."""
    if not answer.cancelled() and answer.exception() is None:
        asyncio.ensure_future(answer.result().aclose())  # noqa: RUF006 - it only closes


class ForwardSocketHandler(JupyterSocketHandler):
    """Forwards a WebSocket: its handshake as it is, then its bytes."""

    def initialize(self, service: GatewayService, routes: dict[str, Route], root: str) -> None:  # type: ignore[override]
        """Take what the mount hands over; ``root`` is where it is mounted."""
        super().initialize(service, routes)
        self._root = root

    async def _prepare(self) -> None:
        self.check_upgrade()
        self.service.check_running()
        self._caller = await forwarded_caller(self, self.socket_route, self._root)

    @allow_unauthenticated
    async def get(self, *_args: Any, **_kwargs: Any) -> None:
        """Answer the handshake with the gateway's answer."""
        origin = self.request.headers.get("Origin")
        if origin is not None and not self.check_origin(origin):
            raise SuzentError("forbidden", "Cross origin websockets are not allowed.")
        guest = self.service.guest
        if guest is None:
            raise gone()
        path = (self.request.uri or "")[len(self._root) :]
        status, headers, body, upstream = await guest.open_socket(self.request, path, self._caller)
        if status != 101:
            self.set_status(status)
            for name, value in answer_headers(headers.get_all()):
                self.set_header(name, value)
            self.finish(body)
            return
        try:
            self.clear_header("Content-Type")
            self.set_status(101)
            self.set_header("Upgrade", "websocket")
            self.set_header("Connection", "Upgrade")
            for name, value in headers.get_all():
                if name.casefold().startswith("sec-websocket-"):
                    self.set_header(name, value)
            self.finish()
            stream = self.detach()
            stream.set_nodelay(True)
        except BaseException:
            upstream.close()
            raise
        await splice(stream, upstream)
