"""The mount under a Jupyter server: the same routes, with Jupyter's users, authorizer, XSRF and origin rules."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Literal

from jupyter_core.utils import ensure_async
from jupyter_server.auth import User
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.call_context import CallContext
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web

from ..gateway import Authority, Principal
from ..gateway.principals import NOBODY
from ..protocol.errors import SuzentError
from .auth import find_token, held_principal_of_token
from .handlers import LargeBodyHandler, RouteHandler
from .public_url import public_url
from .routes import Route
from .sockets import SocketHandler

if TYPE_CHECKING:
    from .service import GatewayService

AUTH_RESOURCE = "suzent"


async def find_jupyter_caller(handler: Any, route: Route) -> tuple[Literal["nobody", "token", "user"], str | None]:
    """Return who asks, and their Suzent token: our own token first, then Jupyter's user.

    Our token is looked for before Jupyter's identity provider is asked, since Jupyter and JupyterHub read
    ``Authorization`` as theirs; and it exempts from XSRF, which only a cookie needs. What it is worth is not looked at.

    Raises
    ------
    SuzentError
        ``unauthorized`` or ``forbidden``.
    """
    # Whatever comes along: a device may show a token that is dead by now.
    nobody = route.authority is Authority.NONE and not route.recognises
    token = None if nobody else find_token(handler.request.headers)
    if nobody or token is not None:
        CallContext.set(CallContext.JUPYTER_HANDLER, handler)
        if not handler.check_host():
            raise SuzentError("forbidden", "This server does not answer to that host name.")
        if token is None:
            return "nobody", None
        handler.current_user = handler._jupyter_current_user = User(username="token")
        return "token", token
    if route.recognises and not handler.check_host():
        raise SuzentError("forbidden", "This server does not answer to that host name.")
    try:
        await JupyterHandler.prepare(handler, _redirect_to_login=False)
    except web.HTTPError as error:
        # Jupyter checks XSRF also of those it does not know; that they are unknown says more.
        if getattr(handler, "_jupyter_current_user", NOBODY) is not None:
            raise SuzentError("forbidden", error.log_message or "The server refused this request.") from None
    user = handler.current_user
    if user is None and route.recognises:
        return "nobody", None
    if user is None:
        raise SuzentError("unauthorized", "Log in to the Jupyter server, or send a token.")
    if not await ensure_async(handler.authorizer.is_authorized(handler, user, route.action, AUTH_RESOURCE)):
        if route.recognises:
            return "nobody", None
        raise SuzentError("forbidden", f"The server's authorizer does not let this user {route.action} devices.")
    return "user", None


async def jupyter_principal(handler: Any, service: GatewayService, route: Route) -> Principal:
    """Return who asks; ``unauthorized`` or ``forbidden``."""
    service.check_running()
    gateway = service.gateway
    await gateway.ready.wait()
    kind, token = await find_jupyter_caller(handler, route)
    if kind == "nobody":
        return NOBODY
    if token is None:
        account, org = service.accounts.of(handler.current_user, handler.identity_provider, handler)
        return Principal(Authority.FULL, account, org, "", "user")
    principal = await held_principal_of_token(service, handler.request, token)
    handler.current_user = handler._jupyter_current_user = User(username=principal.actor)
    return principal


async def user_may_write(handler: Any) -> bool:
    """Ask the authorizer whether the user of an authorised request may also change things."""
    return bool(
        await ensure_async(handler.authorizer.is_authorized(handler, handler.current_user, "write", AUTH_RESOURCE))
    )


class JupyterRouteHandler(RouteHandler, JupyterHandler):
    """REST on the Jupyter mount. :meth:`prepare` authenticates every method, hence the decorator on each."""

    auth_resource = AUTH_RESOURCE

    def set_default_headers(self) -> None:
        """Set Jupyter's headers and ours."""
        JupyterHandler.set_default_headers(self)
        RouteHandler.set_default_headers(self)

    def prepare(self) -> Awaitable[None]:  # type: ignore[override]
        """Find out who asks, and whether they may."""
        return self._prepare()

    async def _prepare(self) -> None:
        route = self.route()
        self._admit(await jupyter_principal(self, self.service, route), route.authority)
        self.mount_url = public_url(self)

    async def may_write(self) -> bool:
        """Whether the caller may change things: a token of full authority may, a user if the authorizer says so."""
        return self.principal.actor != "user" or await user_may_write(self)

    @allow_unauthenticated
    async def get(self, **path: str) -> None:
        """Serve GET."""
        await self._serve(**path)

    @allow_unauthenticated
    async def post(self, **path: str) -> None:
        """Serve POST."""
        await self._serve(**path)

    @allow_unauthenticated
    async def delete(self, **path: str) -> None:
        """Serve DELETE."""
        await self._serve(**path)


class JupyterLargeBodyHandler(LargeBodyHandler, JupyterRouteHandler):  # type: ignore[misc]
    """Requests with large bodies: who asks is known before a byte of it is kept."""


class JupyterSocketHandler(SocketHandler, JupyterHandler):
    """Sockets on the Jupyter mount."""

    auth_resource = AUTH_RESOURCE

    def set_default_headers(self) -> None:
        """Set Jupyter's headers."""
        JupyterHandler.set_default_headers(self)

    def prepare(self) -> Awaitable[None]:  # type: ignore[override]
        """Find out who asks, before the handshake is answered."""
        return self._prepare()

    async def _prepare(self) -> None:
        self.check_upgrade()
        route = self.socket_route
        try:
            principal = await jupyter_principal(self, self.service, route)
        except SuzentError as error:
            if not route.recognises or error.code != "unauthorized":
                raise
            principal = NOBODY
        if route.recognises and principal.authority < Authority.FULL:
            principal = NOBODY
        self._admit(principal, route.authority)

    def check_origin(self, origin: str | None = None) -> bool:
        """Apply Jupyter's rule: same host, or what the server's configuration allows; none at all is a program."""
        if self.socket_route.authority is Authority.NONE and self.allow_origin == "*":
            # `*` is meant for pages that show a token; such a socket needs none, so it would be open to every page.
            origin = origin if origin is not None else self.get_origin()
            return origin is None or SocketHandler.check_origin(self, origin)
        return bool(WebSocketMixin.check_origin(self, origin))

    def skip_check_origin(self) -> bool:
        """Ask also those who hold a token: a page of another origin is not the program the token was made for."""
        return False

    @allow_unauthenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Answer the handshake."""
        await SocketHandler.get(self, *args, **kwargs)
