"""What the gateway says of its addresses is true, and what it offers as a link leads in."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from support import qr
from support.device import BareDevice
from support.external import external_address
from support.gateways import JupyterServer, ThreadedGateway
from support.running import sync

from suzent_jupyter.discovery import LocalAddress
from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.pairing_link import PairingLink
from suzent_jupyter.server.addresses import Bound, Place, places
from suzent_jupyter.server.config import SuzentTraits

StartJupyter = Callable[..., JupyterServer]
PIN = "A" * 43
LAN = LocalAddress("LAN", "192.168.1.10", "lan")
LAN6 = LocalAddress("LAN IPv6", "2001:db8::5", "lan")
TAILNET = LocalAddress("Tailscale (MagicDNS)", "lab.tail1234.ts.net", "tailscale")
HERE = Place("This machine", "local", "127.0.0.1", "ws://127.0.0.1:25314/ws/node", "http://127.0.0.1:25314")
HUB = "https://hub.example/user/ada/suzent"
PUBLIC = Place("Jupyter server", "public", "hub.example", "wss://hub.example/user/ada/suzent/ws/node", HUB)


def bound(**changes: Any) -> Bound:
    facts = {
        "port": 25314,
        "tls_port": None,
        "pin": "",
        "for_others": True,
        "plaintext_for_others": True,
        "public_first": False,
    }
    return Bound(**{**facts, **changes})


def test_each_address_as_a_device_can_use_it() -> None:
    assert places(bound(), [LAN, LAN6, TAILNET], "") == [
        Place("LAN", "lan", "192.168.1.10", "ws://192.168.1.10:25314/ws/node", "http://192.168.1.10:25314"),
        Place("LAN IPv6", "lan", "[2001:db8::5]", "ws://[2001:db8::5]:25314/ws/node", "http://[2001:db8::5]:25314"),
        Place(
            "Tailscale (MagicDNS)",
            "tailscale",
            "lab.tail1234.ts.net",
            "ws://lab.tail1234.ts.net:25314/ws/node",
            "http://lab.tail1234.ts.net:25314",
        ),
        HERE,
    ]


def test_links_are_encrypted_where_they_can_be_and_sockets_where_they_must() -> None:
    both = places(bound(tls_port=25315, pin=PIN), [LAN], "")[0]
    assert (both.socket_url, both.base_url) == ("ws://192.168.1.10:25314/ws/node", "https://192.168.1.10:25315")
    only = places(bound(tls_port=25315, pin=PIN, plaintext_for_others=False), [LAN6], "")[0]
    assert (only.socket_url, only.base_url, only.pin) == (
        "wss://[2001:db8::5]:25315/ws/node",
        "https://[2001:db8::5]:25315",
        PIN,
    )


def test_on_loopback_only_this_machine() -> None:
    closed = bound(for_others=False, plaintext_for_others=False)
    assert places(closed, [LAN, TAILNET], "") == [HERE]
    assert places(closed, [LAN], "http://localhost:8888/suzent") == [HERE]
    assert places(closed, [], HUB) == [PUBLIC, HERE]


def test_the_public_url_comes_first_where_the_network_is_a_hubs() -> None:
    assert [place.kind for place in places(bound(), [LAN], HUB)] == ["lan", "public", "local"]
    assert [place.kind for place in places(bound(public_first=True), [LAN], HUB)] == ["public", "lan", "local"]


def test_without_a_listener_the_jupyter_server_is_the_way_in() -> None:
    nothing = bound(port=None, for_others=False, plaintext_for_others=False)
    assert places(nothing, [LAN], "") == []
    [place] = places(nothing, [LAN], "http://[::1]:8888/suzent")
    assert (place.kind, place.host, place.socket_url) == ("local", "[::1]", "ws://[::1]:8888/suzent/ws/node")


@sync
async def test_bound_to_loopback_no_code_is_offered_that_a_phone_could_not_use(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        config = (await http.get("/nodes/config")).json()
        [address] = config["addresses"]
        assert (address["label"], address["kind"], address["qr"]) == ("This machine", "local", None)
        assert (config["gateway_url"], config["lan_host"]) == (gateway.node_url, None)
        assert (config["binding_active"], config["tls_port"], config["pin"]) == (False, None, "")
        assert (config["problem"], config["warnings"]) == ("", [])
        link = PairingLink.parse(address["pairing_link"])
        assert link.socket_url == gateway.node_url
        async with BareDevice(link.socket_url, ticket=link.ticket) as device:
            assert (await device.recv("pending"))["invited"] is True


@sync
async def test_bound_for_others_every_address_leads_in(make_gateway: Any, caplog: Any) -> None:
    host = external_address()
    if host is None:
        pytest.skip("this machine has no address but loopback")
    with caplog.at_level(logging.WARNING):
        gateway = make_gateway(settings=Settings(node_lan_bind=True))
    async with gateway.http() as http:
        config = (await http.get("/nodes/config")).json()
        invited = (await http.post("/nodes/invite", json={})).json()
    assert (config["binding_active"], config["restart_required"]) == (True, False)
    assert caplog.text.count("plain ws://") == 1
    assert [text for text in config["warnings"] if "plain ws://" in text] == config["warnings"] != []
    best = config["addresses"][0]
    assert (config["lan_host"], config["gateway_url"]) == (best["host"], best["gateway_url"])
    assert config["addresses"][-1]["kind"] == "local"
    by_host = {each["host"]: each for each in config["addresses"]}
    assert by_host[host]["gateway_url"] == f"ws://{host}:{config['port']}/ws/node"
    for each in [*config["addresses"][:-1], *invited["links"][:-1]]:
        qr.assert_says(qr.content(each["qr"]), each["pairing_link"])
    assert config["addresses"][-1]["qr"] is None
    link = PairingLink.parse(by_host[host]["pairing_link"])
    async with BareDevice(link.socket_url, ticket=link.ticket) as device:
        assert (await device.recv("pending"))["invited"] is True


def test_a_code_of_another_link_is_told_apart() -> None:
    from suzent_jupyter.server.qr import qr_data_uri

    png = qr.content(qr_data_uri("https://192.168.1.10:25315/node#join=one"))
    qr.assert_says(png, "https://192.168.1.10:25315/node#join=one")
    with pytest.raises(AssertionError):
        qr.assert_says(png, "https://192.168.1.10:25315/node#join=two")


@sync
async def test_addresses_that_can_not_be_read_harm_nothing(
    make_gateway: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def broken() -> list[LocalAddress]:
        raise OSError("no interfaces")

    monkeypatch.setattr("suzent_jupyter.discovery.reachable_addresses", broken)
    gateway = make_gateway(settings=Settings(node_lan_bind=True))
    async with gateway.http() as http:
        for _ in range(3):
            config = (await http.get("/nodes/config")).json()
            assert [each["kind"] for each in config["addresses"]] == ["local"]
            assert any("no address others could use" in text for text in config["warnings"])
    assert caplog.text.count("addresses can't be read") == 1  # and is not asked again at once


@sync
async def test_on_a_hub_whose_address_is_unknown_it_says_how_to_make_it_known(
    make_gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINDER_REPO_URL", "x")
    gateway = make_gateway()
    async with gateway.http() as http:
        [warning] = (await http.post("/nodes/invite", json={})).json()["warnings"]
        assert "open it in a browser" in warning
        gateway.service.public_url = HUB
        invited = (await http.post("/nodes/invite", json={})).json()
    assert invited["warnings"] == []
    assert invited["links"][0]["pairing_link"].startswith(f"{HUB}/node#join={invited['ticket']}&id=")


@sync
async def test_a_changed_binding_waits_for_the_restart_whatever_was_remembered(
    make_gateway: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def state(gateway: ThreadedGateway) -> tuple[bool, bool, bool]:
        async with gateway.http() as http:
            config = (await http.get("/nodes/config")).json()
        return config["node_lan_bind"], config["binding_active"], config["restart_required"]

    first = make_gateway(tmp_path / "data")
    async with first.http() as http:
        await http.post("/nodes/config", json={"node_lan_bind": True})
    assert await state(first) == (True, False, True)
    first.stop()
    # The command line beats the store: nothing waits.
    fixed = make_gateway(tmp_path / "data", settings=Settings(fixed=frozenset(["node_lan_bind"])))
    assert await state(fixed) == (False, False, False)
    async with fixed.http() as http:
        assert (await http.post("/nodes/config", json={"node_lan_bind": True})).status_code == 422
    assert await state(fixed) == (False, False, False)
    fixed.stop()
    # The store could not be read in time: what is bound counts, not what was wanted.
    with monkeypatch.context() as patch:
        patch.setattr("suzent_jupyter.server.host.peek_setting", lambda *_: None)
        late = make_gateway(tmp_path / "data")
    assert await state(late) == (True, False, True)
    late.stop()
    again = make_gateway(tmp_path / "data")
    assert await state(again) == (True, True, False)
    async with again.http() as http:
        await http.post("/nodes/config", json={"node_lan_bind": False})
        assert await state(again) == (False, True, True)
        await http.post("/nodes/config", json={"node_lan_bind": True})
    assert await state(again) == (True, True, False)


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [("JUPYTERHUB_API_TOKEN", True), ("BINDER_REPO_URL", True), ("BINDERY", False)],
)
def test_tickets_are_required_under_hub_and_binder(
    monkeypatch: pytest.MonkeyPatch, variable: str, wanted: bool
) -> None:
    monkeypatch.setenv(variable, "x")
    traits = SuzentTraits()
    assert traits.require_ticket is wanted
    assert traits.service_config().require_ticket is wanted
    assert SuzentTraits(require_ticket=not wanted).service_config().require_ticket is not wanted


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        yield taken.getsockname()[1]


@sync
async def test_a_taken_port_is_said_and_jupyter_starts(start_jupyter: StartJupyter, taken_port: int) -> None:
    server = start_jupyter("--SuzentApp.node_lan_bind=True", listener_port=taken_port)
    async with httpx.AsyncClient(headers=server.jupyter_headers) as http:
        assert (await http.get(f"{server.root_url}api/status")).status_code == 200
        config = (await http.get(f"{server.mount}/nodes/config")).json()
        assert f"can't listen on port {taken_port}" in config["problem"]
        assert "listener_port" in config["problem"]
        assert (config["node_lan_bind"], config["binding_active"], config["port"]) == (True, False, None)
        assert config["warnings"] == []
        # What is left is the Jupyter server itself; headers of a proxy nobody trusts change nothing.
        forged = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}
        config = (await http.get(f"{server.mount}/nodes/config", headers=forged)).json()
        [address] = config["addresses"]
        assert (address["kind"], address["qr"]) == ("local", None)
        link = PairingLink.parse(address["pairing_link"])
        assert link.base_url == server.mount
        async with BareDevice(link.socket_url, ticket=link.ticket) as device:
            assert (await device.recv("pending"))["invited"] is True


@sync
async def test_behind_a_hub_the_public_url_is_the_address(start_jupyter: StartJupyter) -> None:
    server = start_jupyter(
        "--ServerApp.allow_remote_access=True", "--ServerApp.trust_xheaders=True", base_url="/user/a@b/"
    )
    public = {"Host": "hub.example", "X-Forwarded-Proto": "https"}
    root = "https://hub.example/user/a%40b/suzent"
    if "%40" not in server.mount:
        root = root.replace("%40", "@")
    async with httpx.AsyncClient(headers=server.jupyter_headers) as http, server.http() as kernel:
        config = (await http.get(f"{server.mount}/nodes/config", headers=public)).json()
        best = config["addresses"][0]
        assert (best["kind"], best["host"]) == ("public", "hub.example")
        assert best["gateway_url"] == config["gateway_url"] == f"wss{root.removeprefix('https')}/ws/node"
        qr.assert_says(qr.content(best["qr"]), best["pairing_link"])
        assert best["pairing_link"].startswith(f"{root}/node#join=")
        async with BareDevice(
            f"{server.mount.replace('http', 'ws', 1)}/ws/node", ticket=PairingLink.parse(best["pairing_link"]).ticket
        ) as device:
            assert (await device.recv("pending"))["invited"] is True

        async def seen_by_kernel() -> list[str]:
            links = (await kernel.post("/nodes/invite", json={})).json()["links"]
            return [each["pairing_link"].partition("/node#")[0] for each in links if each["kind"] == "public"]

        # A kernel learns it from its user's browser, and from nobody else.
        assert await seen_by_kernel() == []
        for stranger in ({}, {"Cookie": "a=b"}, {**server.jupyter_headers}):
            async with httpx.AsyncClient(headers=stranger) as other:
                await other.get(f"{server.root_url}api/sessions", headers={**public, "Host": "evil.example"})
                await other.get(f"{server.root_url}api", headers={**public, "Host": "evil.example"})
        assert await seen_by_kernel() == []
        browser = {**public, **server.jupyter_headers, "Cookie": "a=b"}
        assert (await http.get(f"{server.root_url}api/sessions", headers=browser)).status_code == 200
        assert await seen_by_kernel() == [root]
        at_home = {**browser, "Host": "localhost:8888"}
        assert (await http.get(f"{server.root_url}api/sessions", headers=at_home)).status_code == 200
        assert await seen_by_kernel() == [root]
        # Also a program that reaches the mount on loopback gets the address others can use.
        links = (await http.get(f"{server.mount}/nodes/config")).json()["addresses"]
        assert [each["kind"] for each in links] == ["public", "local"]


@sync
async def test_who_may_only_look_gets_no_ticket(start_jupyter: StartJupyter, tmp_path: Any) -> None:
    (tmp_path / "reader.py").write_text(
        "from jupyter_server.auth import Authorizer\n"
        "class Reader(Authorizer):\n"
        "    def is_authorized(self, handler, user, action, resource):\n"
        "        return action == 'read'\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    server = start_jupyter("--ServerApp.authorizer_class=reader.Reader", PYTHONPATH=path)
    async with httpx.AsyncClient(headers=server.jupyter_headers) as http, server.http() as kernel:
        config = (await http.get(f"{server.mount}/nodes/config")).json()
        assert {PairingLink.parse(each["pairing_link"]).ticket for each in config["addresses"]} == {""}
        assert config["ticket_expires_at"] == ""
        assert (await http.post(f"{server.mount}/nodes/invite", json={})).status_code == 403
        assert (await kernel.get("/nodes/config")).json()["ticket_expires_at"]
