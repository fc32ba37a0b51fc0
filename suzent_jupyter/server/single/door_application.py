"""The route table behind the guests' door, for those who show the secret.

A guest has found out who the caller is, by its own Jupyter server's rules, and says so; here alone that is believed.
What a token is worth is looked up here, with the caller's address instead of the guest's.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, RequestHandler, stream_request_body

from ...gateway import Authority, Principal
from ...gateway.principals import NOBODY
from ...protocol.errors import SuzentError
from ..auth import find_token, held_principal_of_token, take_note
from ..handlers import Caller, LargeBodyHandler
from ..public_url import mount_url
from ..refusal import refuse
from ..routes import mounted
from ..sockets import SocketHandler
from .forwarded import CALLER_HEADER, LINE_PATH, SECRET_HEADER, ForwardedCaller

if TYPE_CHECKING:
    from ..service import GatewayService


class DoorCaller(Caller):
    """Takes the guest's word for who asks."""

    @property
    def caller(self) -> ForwardedCaller:
        """What the guest says."""
        said: ForwardedCaller = self.request.suzent_caller  # type: ignore[attr-defined]
        return said

    async def find_caller(self, least: Authority) -> None:
        """Set :attr:`principal`; refuse with ``unauthorized`` or ``forbidden``."""
        self.service.check_running()
        await self.service.gateway.ready.wait()
        caller = self.caller
        if least is Authority.NONE:
            self.principal = NOBODY
        elif caller.kind == "user":
            self._admit(Principal(Authority.FULL, caller.account, caller.org, "", "user"), least)
        else:
            token = find_token(self.request.headers)
            if token is None:
                raise SuzentError("unauthorized", "This needs a token.")
            self._admit(await held_principal_of_token(self.service, self.request, token), least)

    def check_host_name(self) -> None:
        """Leave it to the guest, whose server knows its names."""


class DoorHandler(DoorCaller, LargeBodyHandler):
    """REST for guests."""

    async def find_caller(self, least: Authority) -> None:
        """Find out who asks, and where the guest's mount is for them."""
        await super().find_caller(least)
        self.mount_url = mount_url(self.request, self.caller.root)

    async def may_write(self) -> bool:
        """Whether the caller may also change things, as the guest found out."""
        return self.caller.may_write


class DoorSocketHandler(DoorCaller, SocketHandler):
    """Sockets for guests."""

    def shows_who_asks(self) -> bool:
        """Tell whether the guest knows who asks, or a token came along."""
        return self.caller.kind != "nobody"

    def check_origin(self, origin: str) -> bool:
        """Leave it to the guest, whose server knows what origins it allows."""
        return True


class LineHandler(RequestHandler):
    """Answers and then says nothing more until one of both ends."""

    async def get(self) -> None:
        """Hold the line."""
        self._ended = asyncio.get_running_loop().create_future()
        self.write(b"{}\n")
        await self.flush()
        await self._ended

    def on_connection_close(self) -> None:
        """End."""
        if not self._ended.done():
            self._ended.set_result(None)


@stream_request_body
class RefusedHandler(RequestHandler):
    """Whoever does not show the secret gets nothing, wherever they knock."""

    def prepare(self) -> None:
        """Refuse."""
        self.set_header("Connection", "close")  # as Tornado does with an answer given before the body was read
        refuse(self, SuzentError("unauthorized", "This port is for this gateway's other servers."))

    def data_received(self, chunk: bytes) -> None:
        """Keep nothing of a body."""


class DoorApplication(Application):
    """The route table behind the secret."""

    def __init__(self, service: GatewayService, secret: str) -> None:
        rules: list[Any] = [(LINE_PATH, LineHandler)]
        for pattern, handler, routes in mounted(DoorHandler, DoorSocketHandler):
            rules.append((pattern, handler, {"service": service, "routes": routes}))
        super().__init__(
            rules,
            default_handler_class=RefusedHandler,
            log_function=lambda handler: None,
            websocket_max_message_size=service.gateway.limits.socket_bytes,
        )
        self._secret = secret.encode()

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Look at the secret before anything else, then see the request as its caller sent it."""
        shown = request.headers.get(SECRET_HEADER, "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, self._secret):
            return self.get_handler_delegate(request, RefusedHandler)
        take_note(request)
        if request.path == LINE_PATH:
            return super().find_handler(request, **kwargs)
        try:
            caller = ForwardedCaller.decode(request.headers.get(CALLER_HEADER, ""))
        except ValueError:
            return self.get_handler_delegate(request, RefusedHandler)
        delegate = super().find_handler(request, **kwargs)
        for name in (SECRET_HEADER, CALLER_HEADER):
            request.headers.pop(name, None)
        request.suzent_caller = caller  # type: ignore[attr-defined]
        request.suzent_peer = caller.peer  # type: ignore[attr-defined]
        request.remote_ip = caller.remote
        request.protocol = caller.scheme
        request.uri, request.path = caller.root + (request.uri or ""), caller.root + request.path
        return delegate
