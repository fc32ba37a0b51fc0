"""From what a request carries to who it is. Jupyter's own users are recognised elsewhere (:mod:`.jupyter`)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from tornado.httputil import HTTPHeaders, HTTPServerRequest

from ..gateway import Authority, Principal
from ..gateway.tokens import TOKEN_PREFIX, mint_token
from ..protocol.errors import SuzentError

if TYPE_CHECKING:
    from .service import GatewayService

# Spelled as `HTTPHeaders` spells the names it iterates over.
_FORWARDING = frozenset(["Forwarded", "X-Real-Ip", "X-Scheme"])


def is_forwarding(name: str) -> bool:
    """Tell whether a header of this name is a proxy's, however it is spelled."""
    name = name.title()
    return name in _FORWARDING or name.startswith("X-Forwarded-")


def has_forwarding_headers(headers: Mapping[str, str]) -> bool:
    """Tell whether a proxy stands between: then the peer address says nothing about the sender."""
    return any(name in _FORWARDING or name.startswith("X-Forwarded-") for name in headers)


def has_browser_headers(headers: Mapping[str, str]) -> bool:
    """Tell whether a web page may have caused the request."""
    return any(name == "Origin" or name.startswith("Sec-Fetch-") for name in headers)


def peer_address(request: HTTPServerRequest) -> str:
    """Return the address at the other end of the socket itself, whatever headers say; ``""`` for Unix sockets.

    Of a request that a guest forwards: at the other end of the guest's.
    """
    forwarded: str | None = getattr(request, "suzent_peer", None)  # set by the door alone, see :mod:`.single.door`
    if forwarded is not None:
        return forwarded
    address = getattr(getattr(request.connection, "context", None), "address", None)
    return str(address[0]) if isinstance(address, tuple) and address else ""


def client_address(request: HTTPServerRequest) -> tuple[str, bool]:
    """Return who sent a request, and whether many share that address: loopback, as of a proxy on this machine.

    Tornado takes the address from headers only where the server was told that a proxy sets them
    (``ServerApp.trust_xheaders``); the listener never is.
    """
    address = str(request.remote_ip or "")
    if not peer_address(request) and address == "0.0.0.0":  # noqa: S104  # Tornado's word for a Unix socket
        address = ""
    return address, is_loopback(address)


@lru_cache(maxsize=256)
def is_loopback(address: str) -> bool:
    """Tell whether an address is this machine's; a Unix socket's (``""``) is."""
    if not address:
        return True
    try:
        parsed = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def presented(headers: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Give what a request carries in the place of a token, of whatever form, and whether it is a Basic password."""
    scheme, _, value = headers.get("Authorization", "").strip().partition(" ")
    scheme = scheme.casefold()
    if scheme in ("bearer", "token"):
        yield value.strip(), False
    yield headers.get("X-Suzent-Token", "").strip(), False
    if scheme == "basic":
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            yield base64.b64decode(value.strip(), validate=True).decode().partition(":")[2], True


def find_token(headers: HTTPHeaders) -> str | None:
    """Return the Suzent token a request carries, from ``Authorization: Bearer``, ``X-Suzent-Token`` or Basic.

    Raises
    ------
    SuzentError
        ``unauthorized`` for Basic from a browser: a page must never hold a token this way.
    """
    for token, is_password in presented(headers):
        if token.startswith(TOKEN_PREFIX):
            if is_password and has_browser_headers(headers):
                raise SuzentError("unauthorized", "Basic authentication is not taken from web pages.")
            return token
    return None


class KernelToken:
    """The token in the kernels' environment: made at start, never written to the store, dead with the server.

    Of several servers with one gateway it is the same, and dead with the last of them.
    """

    def __init__(self, account: str, org: str, value: str | None = None) -> None:
        self.value = value or mint_token()
        self._principal = Principal(Authority.FULL, account, org, "", "kernel")

    def principal(self, token: str) -> Principal | None:
        """Return the kernels' principal if this is their token."""
        matches = hmac.compare_digest(token.encode("utf-8", "replace"), self.value.encode())
        return self._principal if matches else None


def principal_of_token(service: GatewayService, request: HTTPServerRequest, token: str) -> Principal:
    """Return whom a token stands for.

    Raises
    ------
    SuzentError
        ``unauthorized`` for unknown, revoked, paused and expired tokens, and for the kernel token from another machine;
        ``too_many_attempts`` after too many unknown ones.
    """
    principal = service.kernel_token.principal(token)
    if principal is not None:
        if is_loopback(peer_address(request)) and not has_forwarding_headers(request.headers):
            take_note(request)
            return principal
        raise SuzentError("unauthorized", "The kernels' token is good on this machine only.", hint=_FOR_OTHER_MACHINES)
    principal = service.gateway.authenticate(token)
    if principal is None:
        if service.gateway.devices.by_token(token) is None:  # whoever is paused asks again and again, and may
            service.bad_tokens.count(*client_address(request))
        raise SuzentError("unauthorized", "This token is unknown, revoked, paused or expired.")
    take_note(request)
    return principal


async def held_principal_of_token(service: GatewayService, request: HTTPServerRequest, token: str) -> Principal:
    """Return the same, and keep the refusal of a bad token too many back for a moment."""
    try:
        return principal_of_token(service, request, token)
    except SuzentError as error:
        if error.code == "too_many_attempts":
            await hold_back(service, error)
        raise


async def hold_back(service: GatewayService, error: SuzentError) -> NoReturn:
    """Refuse after a moment, so that a flood comes no faster."""
    await asyncio.sleep(service.gateway.limits.bad_token_delay)
    raise error


def take_note(request: HTTPServerRequest) -> None:
    """Take note that a request's connection is no stranger's; see :class:`~.connections.Strangers`."""
    strangers = getattr(getattr(request.connection, "context", None), "suzent_strangers", None)
    if strangers is not None:
        strangers.forget(request.connection.context)  # type: ignore[union-attr]


_FOR_OTHER_MACHINES = "Make a token for other machines: `%suzent host-token NAME`."
