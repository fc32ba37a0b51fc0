"""The mount under a Jupyter server: cookies, XSRF and origins. Who may call what: test_boundary.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import websockets
from support.calls import error_of, store_loaded
from support.gateways import JupyterServer

StartJupyter = Callable[..., JupyterServer]


def test_cookies_and_origins(start_jupyter: StartJupyter) -> None:
    server = start_jupyter()

    async def work() -> None:
        await store_loaded(server)
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
