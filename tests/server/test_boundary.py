"""Every route, on both mounts, for every kind of caller: who gets in, who is unknown, who is known and may not."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from jupyter_server.serverapp import ServerApp, ServerWebApplication
from support.authority import EXECUTABLE, EXPECTED, READABLE, Tokens, ask, make_tokens, wanted
from support.calls import store_loaded
from support.gateways import JupyterServer, ThreadedGateway, jupyter_dirs
from tornado.web import RequestHandler

from suzent_jupyter.server import jupyter
from suzent_jupyter.server.mount import Mount
from suzent_jupyter.server.routes import ROUTES

#: Users of the Jupyter server by token, and what its authorizer lets each of them do with our resource.
USERS = {"reader": ["read"], "caller": ["read", "execute"], "writer": ["read", "execute", "write"], "stranger": []}

#: Anyone may call these, but no web page.
BETWEEN_GATEWAYS = ("/nodes/grant-request", "/channels/suzent/grant-changed", "/channels/suzent/prove")

PLUGINS = f"""
from jupyter_server.auth import Authorizer, User
from jupyter_server.auth.identity import IdentityProvider

USERS = {USERS!r}

class Tokens(IdentityProvider):
    def get_user(self, handler):
        token = self.get_token(handler)
        handler._token_authenticated = token in USERS
        return User(username=token) if token in USERS else None

class Roles(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource == "suzent" and action in USERS[user.username]
"""


@dataclass
class Running:
    """A gateway's mount, and tokens of each kind."""

    base: str
    listener: str
    kernel: str
    tokens: Tokens
    trust: str


@contextmanager
def directories(root: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in jupyter_dirs(root).items():
            patch.setenv(name, value)
        patch.delenv("SUZENT_BASE_URL", raising=False)
        yield


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A listener that trusts nobody."""
    root = tmp_path_factory.mktemp("alone")
    with directories(root):
        gateway = ThreadedGateway(root / "data", limits={"bad_tokens_shared": 100_000, "grant_requests": 100_000})
        tokens = asyncio.run(make_tokens(gateway))
        yield Running(gateway.url, gateway.url, gateway.token, tokens, "never")
        gateway.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A Jupyter server with users of its own, whose listener trusts local programs."""
    root = tmp_path_factory.mktemp("server")
    with directories(root):
        gateway = ThreadedGateway(root / "data" / "suzent")
        tokens = asyncio.run(make_tokens(gateway))
        gateway.stop()
    (root / "plugins.py").write_text(PLUGINS)
    server = JupyterServer(
        root,
        "--SuzentApp.account=ada",
        "--SuzentApp.trust_loopback=auto",
        "--SuzentApp.bad_tokens_shared=100000",
        "--SuzentApp.grant_requests=100000",
        "--ServerApp.identity_provider_class=plugins.Tokens",
        "--ServerApp.authorizer_class=plugins.Roles",
        base_url="/user/ada/",
        PYTHONPATH=os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
    )
    asyncio.run(store_loaded(server))
    yield Running(server.mount, server.url, server.token, tokens, "auto")
    server.stop()


#: Caller → field of its token, or the headers it sends; and the authority it has, None being unknown.
CALLERS: dict[str, tuple[str | dict[str, str], str | None]] = {
    "nobody": ({}, None),
    "nobody from a page": ({"Origin": "http://127.0.0.1"}, None),
    "nobody through a proxy": ({"X-Forwarded-For": "127.0.0.1"}, None),
    "nobody by another name": ({"Host": "evil.example"}, None),
    "forged": ({"Authorization": "Bearer szt_" + "x" * 43}, None),
    "forged header": ({"X-Suzent-Token": "szt_forged"}, None),
    "node": ("node", "node"),
    "agent": ("agent", "agent"),
    "paused agent": ("paused_agent", None),
    "full": ("full", "full"),
    "paused": ("paused", None),
    "revoked": ("revoked", None),
    "kernel": ("kernel", "full"),
}
WAYS = {
    "bearer": lambda token: {"Authorization": f"Bearer {token}"},
    "header": lambda token: {"X-Suzent-Token": token},
    "basic": lambda token: {"Authorization": httpx.BasicAuth("suzent", token)._auth_header},
}


@pytest.mark.parametrize("mount", ["listener, never", "listener, auto", "jupyter, auto"])
@pytest.mark.parametrize("caller", CALLERS)
def test_callers_with_our_tokens_and_without(request: pytest.FixtureRequest, mount: str, caller: str) -> None:
    running: Running = request.getfixturevalue("alone" if mount == "listener, never" else "server")
    base = running.base if mount.startswith("jupyter") else running.listener
    sent, authority = CALLERS[caller]
    if caller == "nobody" and mount == "listener, auto":
        authority = "full"
    if isinstance(sent, str):
        token = running.kernel if sent == "kernel" else getattr(running.tokens, sent)
        ways = {name: way(token) for name, way in WAYS.items()}
    else:
        ways = {"as it is": sent}
    foreign = caller == "nobody by another name"

    async def work() -> None:
        for name, headers in ways.items():
            async with httpx.AsyncClient() as http:  # Jupyter gives its users a cookie; the next caller has none
                for (method, path), least in EXPECTED.items():
                    if method == "WS" and ("Host" in headers or "Origin" in headers):
                        continue  # whose handshake: see the browser's tests
                    got = await ask(http, base, method, path, headers)
                    expected = wanted(authority, least)
                    if foreign and (mount.startswith("jupyter") or path == "/node") and least == "none":
                        expected = 403  # Jupyter answers to no other name, and the listener serves no page under one
                    if "Origin" in headers and path in BETWEEN_GATEWAYS:
                        expected = 403  # gateways speak to each other here, not pages
                    assert got == expected, (name, method, path)

    asyncio.run(work())


@pytest.mark.parametrize("user", [*USERS, "unknown"])
def test_jupyter_users(server: Running, user: str) -> None:
    headers = {"Authorization": f"token {user}"}
    actions = USERS.get(user)

    async def work() -> None:
        async with httpx.AsyncClient() as http:
            for (method, path), least in EXPECTED.items():
                action = "execute" if (method, path) in EXECUTABLE else "read" if method == "GET" else "write"
                if least == "none":
                    expected = 200
                elif actions is None:
                    expected = 401
                else:
                    expected = 200 if action in actions else 403
                    assert action != "read" or (method, path) in READABLE
                assert await ask(http, server.base, method, path, headers) == expected, (method, path)
                # On the listener, which knows nothing of Jupyter, they are nobody.
                expected = 200  # for it trusts local programs
                assert await ask(http, server.listener, method, path, headers) == expected, (method, path)

    asyncio.run(work())


def test_every_route_has_an_entry() -> None:
    assert {(route.method, route.path): route.authority.name.lower() for route in ROUTES} == EXPECTED


HANDLERS = [
    handler
    for _, handler in inspect.getmembers(jupyter, inspect.isclass)
    if issubclass(handler, RequestHandler) and handler.__module__ == jupyter.__name__
]


@pytest.mark.parametrize("handler", HANDLERS)
def test_every_method_of_every_handler_says_how_it_authenticates(handler: type[RequestHandler]) -> None:
    assert ServerWebApplication._check_handler_auth(None, "/suzent", handler) == []  # type: ignore[arg-type]


def test_a_forgotten_decorator_would_be_found() -> None:
    class Forgetful(jupyter.JupyterRouteHandler):
        async def get(self, **path: str) -> None:
            """Serve GET."""

    assert len(ServerWebApplication._check_handler_auth(None, "/suzent", Forgetful)) == 1  # type: ignore[arg-type]


@pytest.mark.filterwarnings("error::jupyter_server.utils.JupyterServerAuthWarning")
def test_a_server_that_lets_nobody_in_unasked_has_nothing_to_warn_of(
    jp_configurable_serverapp: Callable[..., ServerApp],
) -> None:
    app = jp_configurable_serverapp(
        config={
            "ServerApp": {
                "allow_unauthenticated_access": False,
                "reraise_server_extension_failures": True,
                "jpserver_extensions": {"suzent_jupyter": True},
            },
            "SuzentApp": {"listener_enabled": False},
        }
    )
    mounts = [rule.target for rule in app.web_app.default_router.rules if isinstance(rule.target, Mount)]
    assert len(mounts) == 1
