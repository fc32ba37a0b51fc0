"""What each route must demand, written down a second time: a route without an entry here fails the tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
import websockets

from suzent_jupyter.gateway.devices import Device

from .gateways import ThreadedGateway

EXPECTED: dict[tuple[str, str], str] = {
    ("WS", "/ws/node"): "none",
    ("WS", "/ws/client"): "full",
    ("WS", "/ws/gateway"): "none",
    ("POST", "/route"): "full",
    ("POST", "/nodes/{node}/scope"): "full",
    ("GET", "/node"): "none",
    ("GET", "/nodes"): "agent",
    ("GET", "/nodes/{node}"): "full",
    ("POST", "/nodes/{node}/invoke"): "full",
    ("GET", "/nodes/pending"): "full",
    ("POST", "/nodes/pending/{code}/approve"): "full",
    ("POST", "/nodes/pending/{code}/deny"): "full",
    ("GET", "/nodes/devices"): "full",
    ("POST", "/nodes/devices/{id}/revoke"): "full",
    ("POST", "/nodes/devices/{id}/status"): "full",
    ("POST", "/nodes/host-token"): "full",
    ("GET", "/nodes/config"): "full",
    ("POST", "/nodes/config"): "full",
    ("GET", "/nodes/discover"): "full",
    ("POST", "/nodes/connect"): "full",
    ("POST", "/nodes/connect/stop"): "full",
    ("POST", "/nodes/invite"): "full",
    ("GET", "/nodes/connections"): "full",
    ("POST", "/nodes/grant-request"): "none",
    ("GET", "/nodes/grant-status/{id}"): "none",
    ("GET", "/nodes/grants"): "full",
    ("POST", "/nodes/grants/{id}/approve"): "full",
    ("POST", "/nodes/grants/{id}/deny"): "full",
    ("GET", "/nodes/unauthorized"): "full",
    ("POST", "/nodes/control"): "full",
    ("GET", "/nodes/control-status"): "full",
    ("GET", "/nodes/peers"): "full",
    ("GET", "/nodes/peers/{id}/capabilities"): "full",
    ("POST", "/nodes/peers/{id}/invoke"): "full",
    ("POST", "/nodes/peers/{id}/trigger"): "full",
    ("POST", "/nodes/peers/{id}/stop"): "full",
    ("POST", "/nodes/peers/{id}/mode"): "full",
    ("POST", "/nodes/peers/{id}/reverse"): "full",
    ("POST", "/nodes/peers/{id}/remove"): "full",
    ("GET", "/nodes/peers/{id}/files/{file}"): "full",
    ("POST", "/nodes/peer-offer"): "agent",
    ("POST", "/nodes/peer-invoke"): "agent",
    ("GET", "/nodes/peer-files/{file}"): "none",
    ("POST", "/chat"): "agent",
    ("POST", "/chat/stop"): "agent",
    ("POST", "/channels/suzent/inbound"): "agent",
    ("POST", "/channels/suzent/inbox"): "agent",
    ("GET", "/channels/suzent/session"): "agent",
    ("POST", "/channels/suzent/stop"): "agent",
    ("GET", "/channels/suzent/whoami"): "agent",
    ("POST", "/channels/suzent/grant-changed"): "none",
    ("POST", "/channels/suzent/prove"): "none",
    ("GET", "/conversations"): "full",
    ("GET", "/conversations/{id}"): "full",
    ("GET", "/permissions"): "full",
    ("POST", "/permissions/{id}"): "full",
    ("GET", "/memory"): "full",
    ("POST", "/memory"): "full",
    ("DELETE", "/memory"): "full",
    ("POST", "/artifacts"): "full",
    ("GET", "/artifacts/{id}"): "none",
    ("GET", "/audit"): "full",
    ("GET", "/openapi.json"): "full",
}

#: Jupyter's authorizer is asked for `execute` here, for `read` at every other GET, for `write` at the rest.
EXECUTABLE = {
    ("POST", "/route"),
    ("WS", "/ws/client"),
    ("POST", "/nodes/{node}/invoke"),
    ("POST", "/nodes/peers/{id}/invoke"),
    ("POST", "/nodes/peers/{id}/trigger"),
    ("POST", "/nodes/peers/{id}/stop"),
    ("POST", "/nodes/peer-invoke"),
    ("POST", "/permissions/{id}"),
    ("POST", "/artifacts"),
    ("POST", "/chat"),
    ("POST", "/chat/stop"),
    ("POST", "/channels/suzent/inbound"),
    ("POST", "/channels/suzent/inbox"),
    ("POST", "/channels/suzent/stop"),
}

#: What a Jupyter user who may only look may do.
READABLE = {key for key, authority in EXPECTED.items() if key[0] == "GET" or authority == "none"}

RANK = {"none": 0, "node": 1, "agent": 2, "full": 3}


@dataclass
class Tokens:
    """One token of each kind."""

    node: str
    agent: str
    full: str
    paused: str
    paused_agent: str
    revoked: str


async def make_tokens(gateway: ThreadedGateway) -> Tokens:
    hub = gateway.service.gateway

    async def make(scope: str) -> tuple[Device, str]:
        return await hub.credentials.adopt(Device("", b"", scope, scope=scope, account=gateway.config.account))

    async def work() -> Tokens:
        principal = gateway.service.kernel_token._principal
        (paused, paused_token), (revoked, revoked_token) = await make("full"), await make("full")
        agent, agent_token = await make("agent")
        for device in (paused, agent):
            await hub.credentials.set_status(principal, device.device_id, "paused")
        await hub.credentials.revoke(principal, revoked.device_id)
        scopes = [(await make(scope))[1] for scope in ("node", "agent", "full")]
        return Tokens(*scopes, paused_token, agent_token, revoked_token)

    return await asyncio.to_thread(gateway.run, work())


def filled(path: str) -> str:
    path = f"{path}?timeout=0.01" if path == "/nodes/discover" else path  # no question leaves within that time
    return (
        path.replace("{node}", "nobody")
        .replace("{code}", "ZZZZZZ")
        .replace("{id}", "no-device")
        .replace("{file}", "no-file")
    )


async def ask(http: httpx.AsyncClient, base: str, method: str, path: str, headers: dict[str, str]) -> int:
    """Return 401 or 403 if a request is refused for who asks, else 200."""
    url = base + filled(path)
    if method == "WS":
        try:
            async with websockets.connect(url.replace("http", "ws", 1), additional_headers=headers):
                return 200
        except websockets.InvalidStatus as refused:
            status = refused.response.status_code
            assert "WWW-Authenticate" not in refused.response.headers
    else:
        answer = await http.request(method, url, headers=headers)
        assert "WWW-Authenticate" not in answer.headers, url
        status = answer.status_code
        if status in (401, 403):
            body = answer.json()
            assert body["code"] in (("unauthorized",) if status == 401 else ("forbidden", "forbidden_host")), (
                url,
                body,
            )
            assert "Set-Cookie" not in answer.headers or "szt_" not in answer.headers["Set-Cookie"]
        if status >= 400:
            assert set(answer.json()) >= {"error", "code", "hint", "retryable"}, (url, answer.text)
    assert status != 429, url
    return status if status in (401, 403) else 200


def wanted(authority: str | None, least: str) -> int:
    """Return what a caller of an authority gets where ``least`` is demanded; None: nobody we know."""
    if least == "none":
        return 200
    if authority is None:
        return 401
    return 200 if RANK[authority] >= RANK[least] else 403
