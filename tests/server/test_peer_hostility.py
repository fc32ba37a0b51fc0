"""Peers that answer anything but what they should, through the routes; and proofs that can't be borrowed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.hostile_peer import HostilePeer, Reply, answer, endless, hang, raw
from support.running import sync
from support.two import Make, ask, control, get, peers, post

from suzent_jupyter.protocol.peers import grant_proof

LIMITS = {"peer_timeout": 1.0, "callback_timeout": 0.6}
TOKEN = "szt_" + "t" * 43


def body(value: Any, status: str = "200 OK") -> Reply:
    return answer(json.dumps(value).encode(), status)


@pytest.fixture
def one(make_gateway: Make) -> ThreadedGateway:
    return make_gateway(limits=LIMITS)


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (answer(b"<html>"), 502, "bad_peer_answer"),
        (answer(b"", "302 Found", "Location: http://127.0.0.1:8888/"), 502, "bad_peer_answer"),
        (hang, 502, "peer_unreachable"),
        (endless(1024 * 1024 * 1024), 502, "bad_peer_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), 502, "bad_peer_answer"),
        (body({"request_id": None}), 502, "bad_peer_answer"),
        (body({"request_id": "x" * 10_000}), 502, "bad_peer_answer"),
        (body({"request_id": "a\nb"}), 502, "bad_peer_answer"),
        (body({"error": "Too many <b>requests</b>"}, "429 Too Many Requests"), 502, "peer_refused"),
    ],
)
@sync
async def test_asking_for_control(one: ThreadedGateway, reply: Reply, status: int, code: str) -> None:
    async with HostilePeer(reply) as peer:
        refused = await ask(one, "POST", "/nodes/control", json={"base_url": peer.url})
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
        assert "not found" not in refused.json()["error"]
    assert (await get(one, "/nodes/peers"))["requests"] == []


class Played(HostilePeer):
    """A server that grants control at once; what it says of the token is for the test to change."""

    def __init__(self, token: Any = TOKEN) -> None:
        super().__init__(self._route)
        self.token = token
        self.whoami: Reply = body({"ok": True, "peer_id": "d1"})
        self.other: Reply = body({})

    async def _route(self, writer: asyncio.StreamWriter) -> None:
        path = self.requests[-1].split(b" ")[1]
        if path == b"/nodes/grant-request":
            await body({"request_id": "r/1 ?", "status": "pending"})(writer)
        elif path == b"/nodes/grant-status/r%2F1%20%3F":
            await body({"status": "approved", "token": self.token, "node_identity": f"suzent-{self.port}"})(writer)
        elif path == b"/channels/suzent/whoami":
            await self.whoami(writer)
        else:
            await self.other(writer)


@asynccontextmanager
async def played(one: ThreadedGateway, name: str = "Lab") -> AsyncIterator[Played]:
    async with Played() as peer:
        await post(one, "/nodes/control", {"base_url": peer.url, "name": name})
        status = await get(one, f"/nodes/control-status?request_id=r/1%20%3F&base_url={peer.url}")
        assert status["status"] == "approved"
        yield peer


@pytest.mark.parametrize("token", [None, "", 7, "szt_ x", "szt_\r\nHost: x", "szt_" + "x" * 5000, "szt_ü"])
@sync
async def test_a_token_that_is_none(one: ThreadedGateway, token: Any) -> None:
    async with Played(token) as peer:
        await post(one, "/nodes/control", {"base_url": peer.url})
        status = await get(one, "/nodes/control-status?request_id=r/1%20%3F")
        assert status["status"] == "expired" and await peers(one) == []


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (body({"ok": True, "peer_id": None}), "revoked"),
        (body({}, "401 Unauthorized"), "revoked"),
        (body({}, "403 Forbidden"), "revoked"),
        (body({}, "503 Service Unavailable"), "offline"),
        (answer(b"<html>"), "offline"),
        (answer(b"", "302 Found", "Location: /login"), "offline"),
        (hang, "offline"),
        (body({"ok": True, "peer_id": "d2"}), "ready"),
    ],
)
@sync
async def test_how_it_is(one: ThreadedGateway, reply: Reply, status: str) -> None:
    async with played(one) as peer:
        peer.whoami = reply
        (seen,) = await peers(one)
        assert (seen["outbound_status"], seen["online"]) == (status, status != "offline")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(b"<html>"), "bad_peer_answer"),
        (body({"error": "x"}, "401 Unauthorized"), "peer_revoked"),
        (body({"error": "Node not found"}, "404 Not Found"), "peer_refused"),
        (body({"error": "busy", "code": "node_busy"}, "429 Too Many Requests"), "node_busy"),
        (hang, "deadline"),
        (answer(b'{"success": true, "result": NaN}'), "bad_peer_answer"),
    ],
)
@sync
async def test_calling_a_command(
    one: ThreadedGateway, reply: Reply, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("suzent_jupyter.server.peering.peering._MARGIN", 0.2)
    async with played(one) as peer:
        peer.other = reply
        refused = await ask(one, "POST", "/nodes/peers/Lab/invoke", json={"command": "x", "timeout": 0.3})
        assert refused.json()["code"] == code, refused.text
        assert "not found" not in refused.json()["error"] and TOKEN not in refused.text
        asked = peer.requests[-1].split(b"\r\n\r\n", 1)
        assert f"Authorization: Bearer {TOKEN}".encode() in asked[0]
        assert json.loads(asked[1]) == {"command": "x", "params": {}, "timeout": 0.3}


@sync
async def test_its_capabilities_are_cleaned(one: ThreadedGateway) -> None:
    nodes = [
        {
            "display_name": "\x1b[31mCam\u202e",
            "capabilities": [{"name": "a\nb"}, {"name": "ok", "params_schema": 7}, 5],
        },
        "nonsense",
        {"capabilities": "x"},
    ]
    async with played(one) as peer:
        peer.other = body({"nodes": nodes})
        found = await get(one, "/nodes/peers/Lab/capabilities")
        assert all(each["node"] == "Cam" and each["name"].isprintable() for each in found["capabilities"])
        assert "ok" in [each["name"] for each in found["capabilities"]]


@sync
async def test_silent_peers_are_asked_side_by_side_and_not_again_at_once(one: ThreadedGateway) -> None:
    async with played(one, "A") as a, played(one, "B") as b, played(one, "C") as c:
        silent = (a, b, c)
        await peers(one)
        for peer in silent:
            peer.whoami = hang
            peer.requests.clear()
        begun = asyncio.get_running_loop().time()
        assert [each["outbound_status"] for each in await peers(one)] == ["offline"] * 3
        assert asyncio.get_running_loop().time() - begun < 3 * LIMITS["callback_timeout"]
        await peers(one, refresh=False)
        assert [len(peer.requests) for peer in silent] == [1, 1, 1]


@sync
async def test_it_stops_in_time_while_a_peer_hangs(make_gateway: Make) -> None:
    gateway = make_gateway()
    async with played(gateway) as peer:
        peer.whoami = peer.other = hang
        waiting = asyncio.create_task(ask(gateway, "POST", "/nodes/peers/Lab/invoke", json={"command": "x"}))
        async with asyncio.timeout(10):
            while not peer.requests[-1].startswith(b"POST /nodes/peer-invoke"):
                await asyncio.sleep(0.02)
        begun = asyncio.get_running_loop().time()
        await asyncio.to_thread(gateway.stop)
        assert asyncio.get_running_loop().time() - begun < 4
        waiting.cancel()
        await asyncio.wait([waiting])


@sync
async def test_a_caller_who_hangs_up_ends_the_call(one: ThreadedGateway) -> None:
    gone = asyncio.Event()

    async def wait(writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)
        finally:
            gone.set()

    async with played(one) as peer:
        peer.other = wait
        call = asyncio.create_task(ask(one, "POST", "/nodes/peers/Lab/invoke", json={"command": "x"}))
        async with asyncio.timeout(10):
            while not peer.requests[-1].startswith(b"POST /nodes/peer-invoke"):
                await asyncio.sleep(0.02)
            call.cancel()
            await gone.wait()


async def proof(gateway: ThreadedGateway, device_id: str, base_url: str, nonce: str) -> str:
    async with gateway.http(headers={}) as http:
        found = await http.post(
            "/channels/suzent/prove", json={"device_id": device_id, "nonce": nonce, "base_url": base_url}
        )
        assert found.status_code == 200, found.text
        return str(found.json()["proof"])


@sync
async def test_a_proof_is_for_ones_own_grants_and_addresses(one: ThreadedGateway, make_gateway: Make) -> None:
    other = make_gateway()
    link = await control(one, other)
    device = other.service.gateway.devices.by_id(link.device_id)
    assert device is not None
    nonce = secrets.token_urlsafe(24)
    right = await proof(other, link.device_id, other.url, nonce)
    assert right == grant_proof(device.digest, nonce, other.url)
    for device_id, address in (
        ("unknown", other.url),
        (link.device_id, one.url),
        (link.device_id, "http://10.1.1.1:25314"),
        (link.device_id, "http://evil.example:25314"),
        (link.device_id, "nonsense"),
    ):
        wrong = await proof(other, device_id, address, nonce)
        assert wrong != grant_proof(device.digest, nonce, address) and len(wrong) == len(right)
    # Of a token that is no grant nothing is proved.
    full = await post(other, "/nodes/host-token", {})
    host = other.service.gateway.devices.by_id(full["device_id"])
    assert host is not None
    assert await proof(other, full["device_id"], other.url, nonce) != grant_proof(host.digest, nonce, other.url)
