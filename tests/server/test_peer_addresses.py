"""Peers at other addresses than the plain listener's: behind TLS with a pinned key, and on a Jupyter server's mount."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.gateways import JupyterServer
from support.running import sync
from support.two import Make, ask, control, get, peers, post

from suzent_jupyter.protocol.pairing_link import PairingLink
from suzent_jupyter.server.addresses import Bound
from suzent_jupyter.server.peering import reached_at as module
from suzent_jupyter.server.peering.reached_at import OwnUrl, reached_at


@sync
async def test_by_pairing_link_whose_key_is_pinned(make_gateway: Make) -> None:
    one = make_gateway()
    other = await asyncio.to_thread(make_gateway, tls="auto", tls_port=0)
    base = f"https://127.0.0.1:{other.service.tls_port}"
    unknown = await ask(one, "POST", "/nodes/control", json={"base_url": base})
    assert (unknown.status_code, unknown.json()["code"]) == (502, "peer_unreachable")
    assert "pairing link" in unknown.json()["hint"]
    wrong = await ask(one, "POST", "/nodes/control", json={"base_url": str(PairingLink(base, pin="A" * 43))})
    assert wrong.json()["code"] == "peer_unreachable" and "another key" in wrong.json()["error"]
    link = await control(one, other, address=str(PairingLink(base, ticket="t", pin=other.service.pin)))
    peer = await link.peer()
    assert (peer["base_url"], peer["outbound_status"]) == (base, "ready")
    await asyncio.to_thread(one.stop)
    again = await asyncio.to_thread(make_gateway, one.config.data_dir)
    assert [each["outbound_status"] for each in await peers(again)] == ["ready"]


@sync
async def test_on_the_mount_of_a_jupyter_server(
    make_gateway: Make, start_jupyter: Callable[..., JupyterServer]
) -> None:
    one = make_gateway()
    server = await asyncio.to_thread(start_jupyter, base_url="/user/ada/")
    asked = await post(one, "/nodes/control", {"base_url": server.mount, "name": "Hub"})
    async with server.http() as http:
        approved = await http.post(f"/nodes/grants/{asked['request_id']}/approve", json={})
        assert approved.status_code == 200, approved.text
    status = await get(one, f"/nodes/control-status?request_id={asked['request_id']}")
    assert status["status"] == "approved"
    (peer,) = await peers(one)
    assert (peer["base_url"], peer["outbound_status"]) == (server.mount.rstrip("/"), "ready")
    reverse = await ask(one, "POST", "/nodes/peers/Hub/reverse", json={"enabled": True})
    assert reverse.status_code == 200, reverse.text
    async with server.http() as http:
        (theirs,) = (await http.get("/nodes/peers")).json()["peers"]
        assert (theirs["base_url"], theirs["outbound_status"]) == (one.url, "ready")


@sync
async def test_a_jupyter_server_without_gateway(
    make_gateway: Make, start_jupyter: Callable[..., JupyterServer]
) -> None:
    one = make_gateway()
    server = await asyncio.to_thread(start_jupyter)
    answer = await ask(one, "POST", "/nodes/control", json={"base_url": server.mount.removesuffix("suzent")})
    assert (answer.status_code, answer.json()["code"]) == (502, "bad_peer_answer"), answer.text
    assert "/suzent" in answer.json()["hint"]


OFF = {"for_others": False, "plaintext_for_others": False}
SECURE = {"tls_port": 25315, "pin": "p"}


def bound(**changes: Any) -> Bound:
    return Bound(
        **{
            "port": 25314, "tls_port": None, "pin": "", "for_others": True, "plaintext_for_others": True,
            "public_first": False, **changes,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "changes", "public", "expected"),
    [
        ("127.0.0.1", {}, "", OwnUrl("http://127.0.0.1:25314")),
        ("127.0.0.1", {"port": None, "for_others": False}, "http://127.0.0.1:8888/suzent", OwnUrl("http://127.0.0.1:8888/suzent")),
        ("192.168.1.7", {}, "", OwnUrl("http://192.168.1.7:25314")),
        ("100.64.1.2", {}, "", OwnUrl("http://100.64.1.2:25314")),
        ("192.168.1.7", SECURE, "", OwnUrl("http://192.168.1.7:25314")),
        ("192.168.1.7", SECURE | {"plaintext_for_others": False}, "", OwnUrl("https://192.168.1.7:25315", "p")),
        ("192.168.1.7", OFF, "", OwnUrl("")),
        ("192.168.1.7", OFF, "https://hub.example/suzent", OwnUrl("https://hub.example/suzent")),
        ("192.168.1.7", OFF, "http://localhost:8888/suzent", OwnUrl("")),
        ("2001:db8::7", {"ipv6": True}, "", OwnUrl("http://[2001:db8::7]:25314")),
        ("2001:db8::7", {}, "", OwnUrl("")),
        ("", {}, "", OwnUrl("")),
    ],
)  # fmt: skip
@sync
async def test_the_address_a_peer_reaches_us_at(
    monkeypatch: pytest.MonkeyPatch, source: str, changes: dict[str, Any], public: str, expected: OwnUrl
) -> None:
    monkeypatch.setattr(module, "_source", lambda _url: source)
    assert await reached_at("http://peer.example:25314", bound(**changes), public) == expected


@sync
async def test_the_way_to_this_machine_is_loopback() -> None:
    assert await reached_at("http://127.0.0.1:1", bound(), "") == OwnUrl("http://127.0.0.1:25314")
    assert await reached_at("http://nowhere.invalid:1", bound(), "") == OwnUrl("")
