"""The routes of control grants over real HTTP: strangers' bodies, refused attempts, and calls of peers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.authority import ask as ask_route
from support.calls import error_of
from support.device import BareDevice
from support.external import external_address
from support.gateways import Addresses, JupyterServer, ThreadedGateway
from support.grants import ask, asks, granted, holder, stranger
from support.running import sync, until

from suzent_jupyter.gateway.granting.unauthorized import WATCHED
from suzent_jupyter.gateway.settings import Settings

EXTERNAL = external_address()
MakeGateway = Callable[..., ThreadedGateway]


async def count(gateway: Addresses) -> int:
    async with gateway.http() as http:
        return int((await http.get("/nodes/grants")).json()["count"])


@sync
async def test_pages_do_not_ask_for_control(gateway: ThreadedGateway) -> None:
    async with stranger(gateway) as http:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": gateway.url},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        ):
            answer = await http.post("/nodes/grant-request", content=json.dumps(asks()), headers=headers)
            assert error_of(answer) == (403, "forbidden"), headers
        answer = await http.post("/nodes/grant-request", json=asks(), headers={"Host": "evil.example"})
        assert answer.status_code == 200  # a program's, whatever it calls us
    assert await count(gateway) == 1


@sync
async def test_bodies_of_strangers(gateway: ThreadedGateway) -> None:
    async with stranger(gateway) as http, gateway.http() as operator:
        for name in ("x" * 65_536, "\x1b" * 20_000):
            answer = await http.post("/nodes/grant-request", json={"controller_name": name})
            assert error_of(answer) == (413, "too_large")
        for content, expected in (
            (b"{", (400, "bad_json")),
            (b"[1]", (422, "invalid_request")),
            (b'"text"', (422, "invalid_request")),
            (b'{"controller_name": "\\ud800"}', (400, "bad_json")),
        ):
            assert error_of(await http.post("/nodes/grant-request", content=content)) == expected
        assert await count(gateway) == 0
        shown = []
        for body in (
            {},
            {"controller_name": None, "controller_addr": 5, "controller_identity": ["a"]},
            {"controller_name": "\u202e evil\x1b[31m\n name", "controller_identity": "a" * 500},
            {"controller_name": "n" * 60_000, "controller_addr": "http://user:secret@Host.Example:1/base/?q=1#f"},
            {"controller_addr": "wss://[2001:DB8::1]:25315/ws/node"},
            {"controller_addr": "javascript:alert(1)"},
            {"controller_addr": "http://host:99999"},
            {"controller_addr": "http://a b"},
            {"controller_addr": "192.0.2.7:25314"},
            {"controller_addr": "http://h\\@evil"},
            {"controller_addr": "http://" + "h" * 5000},
        ):
            assert (await http.post("/nodes/grant-request", json=body)).status_code == 200
            shown.append((await operator.get("/nodes/grants")).json()["grants"][-1])
    assert [each["controller_name"] for each in shown[:4]] == ["unknown", "unknown", "evil name", "n" * 64]
    assert [each["controller_identity"] for each in shown[:3]] == ["", "", "a" * 128]
    assert [each["controller_addr"] for each in shown] == [
        "", "", "", "http://host.example:1/base", "https://[2001:db8::1]:25315", *[""] * 6,
    ]  # fmt: skip


@sync
async def test_who_asks_is_told_by_the_connection(make_gateway: MakeGateway) -> None:
    if EXTERNAL is None:
        pytest.skip("this machine has no address but loopback")
    lan = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    gateway = make_gateway(settings=lan, limits={"grant_requests_per_address": 2})
    forged = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7"}
    away = gateway.url.replace("127.0.0.1", EXTERNAL)
    async with httpx.AsyncClient(base_url=away, headers=forged) as http:
        answers = [await http.post("/nodes/grant-request", json=asks(identity=f"{number}")) for number in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert "Retry-After" in answers[2].headers
        again = await http.post("/nodes/grant-request", json=asks(identity="1"))
        assert again.status_code == 200
    for number in range(3):
        await ask(gateway, identity=f"local {number}")
    async with gateway.http() as http:
        hosts = [each["controller_host"] for each in (await http.get("/nodes/grants")).json()["grants"]]
    assert hosts == [EXTERNAL, EXTERNAL, *["127.0.0.1"] * 3]


@sync
async def test_switched_off(gateway: ThreadedGateway) -> None:
    _, token = await granted(gateway)
    async with gateway.http() as operator, stranger(gateway) as http, holder(gateway, token) as peer:
        await operator.post("/nodes/config", json={"nodes_enabled": False})
        assert error_of(await http.post("/nodes/grant-request", json=asks())) == (503, "nodes_disabled")
        answer = await peer.post("/nodes/peer-invoke", json={"command": "echo"})
        assert error_of(answer) == (503, "nodes_disabled")


@sync
async def test_an_operator_sees_requests_in_the_log(gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "suzent_jupyter"):
        for _ in range(3):  # asked again is not said again
            asked = await ask(gateway, name="Lab\n\x1b[2Jforged line")
    lines = [record.getMessage() for record in caplog.records if "asks for control" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("'Lab forged line' at 127.0.0.1 asks for control")
    assert asked["request_id"] not in caplog.text


# -- refused attempts --


async def attempts(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = (await http.get("/nodes/unauthorized")).json()
    assert answer["count"] == len(answer["attempts"])
    return list(answer["attempts"])


METHODS = {path: "GET" if path.endswith("/session") else "POST" for path in WATCHED}


@sync
async def test_refused_attempts_are_listed(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"unauthorized_rows": 12})
    device_id, token = await granted(gateway)
    async with gateway.http() as operator, stranger(gateway) as http:
        for path, method in sorted(METHODS.items()):
            answer = await http.request(method, path, json={"from_id": f"me at {path}"})
            assert error_of(answer) == (401, "unauthorized")
        listed = await attempts(operator)
        assert [each["path"] for each in listed] == sorted(METHODS, reverse=True)
        assert all(each["claimed_id"] == f"me at {each['path']}" for each in listed)
        assert {each["host"] for each in listed} == {"127.0.0.1"}
        assert sorted(each["at"] for each in listed) == [each["at"] for each in reversed(listed)]

        await operator.post(f"/nodes/devices/{device_id}/status", json={"status": "paused"})
        bad = {"Authorization": f"Bearer {token}"}, {"X-Suzent-Token": "szt_forged"}, {"Authorization": "Bearer x"}
        for headers in bad:
            assert (await http.post("/chat", json={}, headers=headers)).status_code == 401
        assert [each["path"] for each in (await attempts(operator))[:4]] == ["/chat"] * 3 + [listed[0]["path"]]
        # Asking whether a token is still good is no attempt, and neither is anything else.
        await http.get("/channels/suzent/whoami", headers=bad[0])
        await http.get("/nodes")
        await http.get("/chat")
        await http.post("/channels/suzent/grant-changed", json={})
        assert len(await attempts(operator)) == len(METHODS) + 3
        # What is claimed is text of a stranger's; what is no small object claims nothing.
        for body, claimed in (
            ({"from_id": "\x1b[31m<b>\u202e" + "x" * 500}, "<b>" + "x" * 125),
            ({"from_id": 5}, ""),
            (["from_id"], ""),
            ({"from_id": "me", "content": "x" * 40_000}, ""),
            ({"from_id": "me", "content": "x" * 2_000_000}, ""),
        ):
            assert (await http.post("/channels/suzent/inbound", json=body)).status_code == 401
            assert (await attempts(operator))[0]["claimed_id"] == claimed
        assert len(await attempts(operator)) == 12


@sync
async def test_refused_attempts_are_the_owners_to_see(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    _, token = await granted(gateway, {"covers": "devices"})
    async with stranger(gateway) as http, holder(gateway, bob_token) as bob, holder(gateway, token) as peer:
        await http.post("/channels/suzent/inbox", content=b"no JSON")
        assert await attempts(bob) == []
        assert error_of(await peer.get("/nodes/unauthorized")) == (403, "forbidden")
        assert error_of(await http.get("/nodes/unauthorized")) == (401, "unauthorized")
        # A grant that does not reach there is known, and so no such attempt.
        assert (await peer.post("/nodes/peer-invoke", json={"command": "echo"})).status_code == 404
    async with gateway.http() as operator:
        [attempt] = await attempts(operator)
        assert (attempt["path"], attempt["claimed_id"]) == ("/channels/suzent/inbox", "")
        assert [each["action"] for each in (await operator.get("/audit")).json()["entries"]] == ["grant.approve"]


def test_on_both_mounts_of_a_jupyter_server_and_its_guest(start_jupyter: Callable[..., JupyterServer]) -> None:
    host = start_jupyter(base_url="/a%40b/")
    guest = start_jupyter(base_url="/user/ada/")

    async def work() -> None:
        headers = {"Authorization": f"token {host.jupyter_token}"}
        async with (
            httpx.AsyncClient(base_url=host.mount, headers=headers) as operator,
            httpx.AsyncClient() as http,
        ):
            expected = []
            for base in (host.url, host.mount, guest.mount):
                for token in ({}, {"Authorization": "Bearer szt_forged"}):
                    body = {"from_id": "me", "content": "hello"}
                    answer = await http.post(f"{base}/channels/suzent/inbound", json=body, headers=token)
                    assert error_of(answer) == (401, "unauthorized"), base
                    expected.append(("/channels/suzent/inbound", "127.0.0.1"))
                for path in ("/nodes", "/channels/suzent/whoami"):
                    assert await ask_route(http, base, "GET", path, {}) == 401
                assert await ask_route(http, base, "POST", "/nodes/grant-request", {"Origin": "http://evil"}) == 403
                # Asked on one mount, approved on another, fetched on this one.
                asked = (await http.post(f"{base}/nodes/grant-request", json=asks(identity=base))).json()
                assert (await operator.post(f"/nodes/grants/{asked['code']}/approve")).status_code == 200
                url = f"{base}/nodes/grant-status/{asked['request_id']}"
                tokens = [(await http.get(url)).json()["token"] for _ in range(2)]
                assert tokens[1] is None
                answer = await http.get(f"{base}/channels/suzent/whoami", headers={"X-Suzent-Token": tokens[0]})
                assert answer.json()["ok"] is True
            listed = await attempts(operator)
            assert [(each["path"], each["host"]) for each in listed] == expected
            assert [each["claimed_id"] for each in listed][2:] == ["me"] * 4

    asyncio.run(work())
    log = host.log.read_text() + guest.log.read_text()
    assert "Traceback" not in log, log


# -- calls of peers --


@sync
async def test_a_peer_calls_what_some_node_offers(gateway: ThreadedGateway) -> None:
    _, token = await granted(gateway)
    async with (
        BareDevice(gateway.node_url, "First", [{"name": "echo"}], features=["update"]) as first,
        BareDevice(gateway.node_url, "Second", [{"name": "echo"}, {"name": "fail"}]) as second,
        gateway.http() as operator,
        holder(gateway, token) as http,
    ):

        def play(name: str, command: str, params: dict[str, Any]) -> Any:
            if command == "fail":
                raise RuntimeError("out of film")
            return [name, params]

        for device, name in ((first, "First"), (second, "Second")):
            await gateway.pair(device)
            device.answer(lambda command, params, name=name: play(name, command, params))

        async def call(**body: Any) -> httpx.Response:
            return await http.post("/nodes/peer-invoke", json=body)

        answer = await call(command=" echo ", params={"text": "hi"}, timeout=5)
        assert answer.json() == {"success": True, "result": ["First", {"text": "hi"}], "error": None}
        assert (await call(command="echo")).json()["result"] == ["First", {}]
        assert (await call(command="echo", params=None, timeout=None)).json()["result"] == ["First", {}]
        assert (await call(command="echo", node="second")).json()["result"] == ["Second", {}]
        failed = await call(command="fail")
        assert (failed.status_code, failed.json()) == (
            200, {"success": False, "result": None, "error": "out of film"},
        )  # fmt: skip

        url = f"/nodes/devices/{first.node_id}/status"
        await operator.post(url, json={"status": "paused"})
        assert (await call(command="echo")).json()["result"] == ["Second", {}]
        assert error_of(await call(command="echo", node="First")) == (409, "paused")
        await operator.post(url, json={"status": "active"})
        # New commands are nobody's before the operator has seen them.
        await first.send({"type": "update", "capabilities": [{"name": "echo"}, {"name": "new"}]})
        await until_pending(operator)
        answer = await call(command="new")
        assert error_of(answer) == (404, "unknown_command")
        assert answer.json()["error"] == "No local node provides 'new'."

        for body, expected in (
            ({}, (422, "invalid_request")),
            ({"command": ""}, (422, "invalid_request")),
            ({"command": 5}, (422, "invalid_request")),
            ({"command": "echo", "params": [1]}, (422, "invalid_request")),
            ({"command": "echo", "timeout": -1}, (422, "invalid_timeout")),
            ({"command": "echo", "node": "nobody"}, (404, "node_not_found")),
            ({"command": "nothing"}, (404, "unknown_command")),
        ):
            assert error_of(await call(**body)) == expected, body
        entries = (await operator.get("/audit")).json()["entries"]
        actors = {each["actor"] for each in entries if each["action"] == "invoke"}
        assert all(actor.startswith("token:") for actor in actors)


async def until_pending(operator: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        while not (await operator.get("/nodes/pending")).json()["count"]:
            await asyncio.sleep(0.01)


@sync
async def test_a_peers_large_call_and_one_it_gives_up(gateway: ThreadedGateway) -> None:
    _, token = await granted(gateway)
    async with (
        BareDevice(gateway.node_url, "Pi", [{"name": "echo"}, {"name": "wait"}], features=["cancel"]) as device,
        holder(gateway, token) as http,
    ):
        await gateway.pair(device)
        body = {"command": "echo", "params": {"data": "ü" * 2_000_000}}
        call = asyncio.create_task(http.post("/nodes/peer-invoke", json=body))
        frame = await device.recv("invoke")
        assert frame["params"] == body["params"]
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": body})
        assert (await call).json()["result"] == body
        too_large = b'{"command":"echo","params":{"data":"' + b"x" * 27_000_000 + b'"}}'
        assert error_of(await http.post("/nodes/peer-invoke", content=too_large)) == (413, "too_large")

        call = asyncio.create_task(http.post("/nodes/peer-invoke", json={"command": "wait"}))
        frame = await device.recv("invoke")
        call.cancel()
        assert (await device.recv("cancel"))["request_id"] == frame["request_id"]
        answer = await http.post("/nodes/peer-invoke", json={"command": "wait", "timeout": 0.05})
        assert error_of(answer) == (504, "deadline")
        hub = gateway.service.gateway
        await until(lambda: not hub.registry.by_id(device.node_id).calls)  # type: ignore[union-attr]


@pytest.mark.parametrize("action", ["revoke", "pause"])
@sync
async def test_calls_end_with_the_grant_they_were_made_with(gateway: ThreadedGateway, action: str) -> None:
    device_id, token = await granted(gateway)
    async with (
        BareDevice(gateway.node_url, "Pi", [{"name": "camera.record"}], features=["cancel"]) as device,
        holder(gateway, token) as http,
        gateway.http() as operator,
    ):
        await gateway.pair(device)
        own = asyncio.create_task(operator.post("/nodes/Pi/invoke", json={"command": "camera.record"}))
        kept = await device.recv("invoke")
        call = asyncio.create_task(http.post("/nodes/peer-invoke", json={"command": "camera.record"}))
        frame = await device.recv("invoke")
        if action == "revoke":
            await operator.post(f"/nodes/devices/{device_id}/revoke")
        else:
            await operator.post(f"/nodes/devices/{device_id}/status", json={"status": "paused"})
        assert error_of(await call) == (401, "unauthorized")
        assert (await device.recv("cancel"))["request_id"] == frame["request_id"]
        for each in (frame, kept):
            await device.send({"type": "result", "request_id": each["request_id"], "success": True, "result": 1})
        assert (await own).json()["result"] == 1
        outcomes = [row["outcome"] for row in (await operator.get("/audit")).json()["entries"]]
        assert "late" in outcomes and "unauthorized" in outcomes


@sync
async def test_who_a_token_is(gateway: ThreadedGateway) -> None:
    device_id, token = await granted(gateway)
    async with gateway.http() as operator, holder(gateway, token) as peer:
        assert (await operator.get("/channels/suzent/whoami")).json() == {"ok": True, "peer_id": None}
        assert (await peer.get("/channels/suzent/whoami")).json() == {"ok": True, "peer_id": device_id}
        host = (await operator.post("/nodes/host-token", json={})).json()
    async with holder(gateway, host["token"]) as http:
        assert (await http.get("/channels/suzent/whoami")).json()["peer_id"] == host["device_id"]
