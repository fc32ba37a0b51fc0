"""The mount under a Jupyter server: tokens of ours, Jupyter's users, its authorizer, XSRF and origins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import websockets
from jupyter_server.serverapp import ServerWebApplication
from support.authority import EXPECTED, READABLE, Tokens, ask, make_tokens, wanted
from support.calls import error_of, store_loaded
from support.gateways import JupyterServer, ThreadedGateway

from suzent_jupyter.server.jupyter import JupyterRouteHandler, JupyterSocketHandler

StartJupyter = Callable[..., JupyterServer]
MakeGateway = Callable[..., ThreadedGateway]

READ_ONLY = """
from jupyter_server.auth import Authorizer

class ReadOnly(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return action == "read" and resource == "suzent"
"""


@pytest.mark.parametrize("handler", [JupyterRouteHandler, JupyterSocketHandler])
def test_every_method_of_every_handler_says_how_it_authenticates(handler: type) -> None:
    assert ServerWebApplication._check_handler_auth(None, "/suzent", handler) == []  # type: ignore[arg-type]


def tokens_in(make_gateway: MakeGateway, root: Path) -> Tokens:
    """Make tokens in the store a Jupyter server below ``root`` will open."""
    gateway = make_gateway(root / "data" / "suzent", account="root")
    tokens = asyncio.run(make_tokens(gateway))
    gateway.stop()
    return tokens


def test_the_matrix(start_jupyter: StartJupyter, make_gateway: MakeGateway, tmp_path: Path) -> None:
    tokens = tokens_in(make_gateway, tmp_path / "server")
    server = start_jupyter("--SuzentApp.account=root", "--SuzentApp.trust_loopback=auto")
    callers: list[tuple[str, dict[str, str], str | None]] = [
        ("nobody: never trusted here", {}, None),
        ("forged", {"Authorization": "Bearer szt_forged"}, None),
        ("node", {"Authorization": f"Bearer {tokens.node}"}, "node"),
        ("agent", {"X-Suzent-Token": tokens.agent}, "agent"),
        ("full", {"Authorization": f"token {tokens.full}"}, "full"),
        ("paused", {"Authorization": f"Bearer {tokens.paused}"}, None),
        ("revoked", {"Authorization": f"Bearer {tokens.revoked}"}, None),
        ("kernel", server.headers, "full"),
        ("jupyter user", server.jupyter_headers, "full"),
        ("not a jupyter user", {"Authorization": "token wrong"}, None),
    ]

    async def work() -> None:
        await store_loaded(server)
        async with httpx.AsyncClient() as http:
            listed = await http.get(f"{server.mount}/nodes/devices", headers=server.headers)
            assert listed.json()["count"] == 4
        for name, headers, authority in callers:
            async with httpx.AsyncClient() as http:  # Jupyter gives its users a cookie; the next caller has none
                for (method, path), least in EXPECTED.items():
                    got = await ask(http, server.mount, method, path, headers)
                    assert got == wanted(authority, least), (name, method, path)
        await cookies_and_origins(server)

    asyncio.run(work())


async def cookies_and_origins(server: JupyterServer) -> None:
    url = f"{server.mount}/nodes/host-token"
    async with httpx.AsyncClient() as browser:
        base = server.mount.removesuffix("suzent")
        await browser.get(f"{base}login")
        await browser.get(f"{base}api/status?token={server.jupyter_token}")
        assert any(name.startswith("username") for name in browser.cookies), dict(browser.cookies)
        assert (await browser.get(f"{server.mount}/nodes")).status_code == 200
        assert error_of(await browser.post(url, json={})) == (403, "forbidden")
        xsrf = browser.cookies["_xsrf"]
        assert (await browser.post(url, json={}, headers={"X-XSRFToken": xsrf})).status_code == 200
        assert (await browser.post(f"{url}?_xsrf={xsrf}", json={})).status_code == 200
        assert error_of(await browser.post(url, json={}, headers={"X-XSRFToken": "2|wrong|wrong|1"})) == (
            403,
            "forbidden",
        )
        # A token of ours exempts, whatever cookie comes along; a forged one does not fall back to the cookie.
        assert (await browser.post(url, json={}, headers=server.headers)).status_code == 200
        forged = {"Authorization": "Bearer szt_forged"}
        assert error_of(await browser.post(url, json={}, headers=forged)) == (401, "unauthorized")
        assert error_of(await browser.get(f"{server.mount}/nodes", headers=forged)) == (401, "unauthorized")
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    for path in ("/ws/client", "/ws/node"):
        socket = f"{server.mount.replace('http', 'ws', 1)}{path}"
        for headers, status in (
            ({"Cookie": cookie, "Origin": "https://evil.example"}, 403),
            ({**server.headers, "Origin": "https://evil.example"}, 403),
            ({**server.jupyter_headers, "Origin": "https://evil.example"}, 403),
            ({"Cookie": cookie, "Origin": server.mount.removesuffix("/suzent")}, 101),
            ({**server.headers}, 101),
            ({**server.jupyter_headers}, 101),
        ):
            try:
                async with websockets.connect(socket, additional_headers=headers):
                    got = 101
            except websockets.InvalidStatus as refused:
                got = refused.response.status_code
            assert got == status, (path, headers)


def test_a_user_who_may_only_look(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "read_only.py").write_text(READ_ONLY)
    server = start_jupyter("--ServerApp.authorizer_class=read_only.ReadOnly", PYTHONPATH=str(tmp_path / "server"))

    async def work() -> None:
        async with httpx.AsyncClient() as http:
            for method, path in EXPECTED:
                got = await ask(http, server.mount, method, path, server.jupyter_headers)
                assert got == (200 if (method, path) in READABLE else 403), (method, path)
            # Our own tokens are not Jupyter's users.
            assert await ask(http, server.mount, "POST", "/nodes/host-token", server.headers) == 200

    asyncio.run(work())
