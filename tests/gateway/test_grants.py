"""Control grants: asked for, approved, served once, superseded, expired, and held to what they cover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.calls import error_of, store_loaded
from support.client import BareClient
from support.device import BareDevice
from support.gateways import Process, ThreadedGateway
from support.grants import ask, asks, departures, device_of, granted, holder, status, stranger
from support.running import sync, until

from suzent_jupyter.gateway.pairing import ALPHABET

MakeGateway = Callable[..., ThreadedGateway]


async def waiting(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = (await http.get("/nodes/grants")).json()
    assert answer["count"] == len(answer["grants"])
    return list(answer["grants"])


@sync
async def test_the_token_is_served_once(gateway: ThreadedGateway) -> None:
    asked = await ask(gateway)
    assert (asked["status"], len(asked["code"]), set(asked["code"]) <= set(ALPHABET)) == ("pending", 6, True)
    assert len(asked["request_id"]) >= 32
    assert await status(gateway, asked["request_id"]) == {"status": "pending", "token": None, "node_identity": None}
    async with gateway.http() as http:
        [shown] = await waiting(http)
        assert shown["requested_at"] < shown["expires_at"] == asked["expires_at"]
        assert shown == {
            "request_id": asked["request_id"],
            "code": asked["code"],
            "controller_name": "Lab",
            "controller_host": "127.0.0.1",
            "controller_addr": "http://192.0.2.7:25314",
            "controller_identity": "id-of-lab",
            "requested_at": shown["requested_at"],
            "expires_at": shown["expires_at"],
            "replaces": None,
        }
        approved = await http.post(f"/nodes/grants/{asked['request_id']}/approve")  # Suzent sends no body
        assert approved.json()["success"] is True
        assert "Lab" in approved.json()["message"]
        assert await waiting(http) == []
        first = await status(gateway, asked["request_id"])
        identity = gateway.service.gateway.identity
        assert first == {"status": "approved", "token": first["token"], "node_identity": identity}
        assert first["token"].startswith("szt_")
        assert await status(gateway, asked["request_id"]) == {
            "status": "approved", "token": None, "node_identity": None,
        }  # fmt: skip
        device = await device_of(gateway, approved.json()["device_id"])
        assert device is not None
        expected = {
            "scope": "agent", "platform": "peer", "status": "active", "display_name": "Lab", "covers": "both",
            "callback_url": "http://192.0.2.7:25314", "node_identity": "id-of-lab", "expires_at": "", "commands": [],
            "unattended_tools": False, "trigger_count": 0,
        }  # fmt: skip
        assert device.items() >= expected.items()
        entries = (await http.get("/audit")).json()["entries"]
        [row] = [each for each in entries if each["action"] == "grant.approve"]
        assert (row["node_id"], row["node"], row["detail"]["remote"]) == (device["device_id"], "Lab", "127.0.0.1")
        assert first["token"] not in str(entries)
    async with holder(gateway, first["token"]) as http:
        assert (await http.get("/channels/suzent/whoami")).json() == {"ok": True, "peer_id": device["device_id"]}
        assert (await http.get("/nodes")).json() == {"nodes": [], "count": 0}
        assert error_of(await http.get("/nodes/devices")) == (403, "forbidden")


@sync
async def test_each_end_of_a_request_is_an_answer_of_its_own(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"grant_request_ttl": 0.8})
    async with gateway.http() as http:

        async def both(reference: str) -> set[tuple[int, str]]:
            return {error_of(await http.post(f"/nodes/grants/{reference}/{verb}")) for verb in ("approve", "deny")}

        assert await both("ZZZZZZ") == await both("x" * 32) == {(404, "request_unknown")}
        denied, approved, late = [await ask(gateway, identity=name) for name in ("one", "two", "three")]
        answer = (await http.post(f"/nodes/grants/{denied['code'].lower()}/deny")).json()  # as it is typed
        assert (answer["success"], "Lab" in answer["message"]) == (True, True)
        assert (await status(gateway, denied["request_id"]))["status"] == "denied"
        assert (await http.post(f"/nodes/grants/{approved['code']}/approve")).status_code == 200
        for each in (denied, approved):
            assert await both(each["request_id"]) == await both(each["code"]) == {(409, "request_decided")}

        async with BareClient(gateway) as client:
            await client.send(type="subscribe", topics=["grants"])
            [shown] = (await client.change("grants", "snapshot"))["item"]
            assert shown["request_id"] == late["request_id"]
            gone = (await client.change("grants", "removed"))["item"]  # by itself
            assert gone["request_id"] == late["request_id"]
        assert await waiting(http) == []
        assert await both(late["request_id"]) == await both(late["code"]) == {(410, "request_expired")}
        async with stranger(gateway) as other:
            for each in (late, denied, approved):  # the last with a token that nobody has fetched
                answer = await other.get(f"/nodes/grant-status/{each['request_id']}")
                assert error_of(answer) == (404, "request_unknown")
            assert error_of(await other.get(f"/nodes/grant-status/{late['code']}")) == (404, "request_unknown")
        # How a decided one ended is remembered longer.
        for each in (denied, approved):
            assert await both(each["code"]) == {(409, "request_decided")}


@sync
async def test_a_code_does_not_fetch_a_token(gateway: ThreadedGateway) -> None:
    asked = await ask(gateway)
    async with gateway.http() as http, stranger(gateway) as other:
        await http.post(f"/nodes/grants/{asked['code']}/approve")
        for guess in (asked["code"], asked["request_id"][:-1], asked["request_id"].swapcase(), "%00", "..%2f"):
            answer = await other.get(f"/nodes/grant-status/{guess}")
            assert error_of(answer) == (404, "request_unknown"), guess
    assert (await status(gateway, asked["request_id"]))["token"]


@sync
async def test_a_flood_fills_the_queue_and_no_more(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"grant_requests": 3})
    async with gateway.http() as http, stranger(gateway) as other:
        asked = [await ask(gateway, identity=f"id {number}") for number in range(3)]
        answer = await other.post("/nodes/grant-request", json=asks(identity="one more"))
        assert error_of(answer) == (429, "too_many_requests")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert len(await waiting(http)) == 3
        # Whoever asks again takes their own place, and needs no other.
        again = await ask(gateway, identity="id 1")
        assert [each["request_id"] for each in await waiting(http)] == [
            asked[0]["request_id"], asked[2]["request_id"], again["request_id"],
        ]  # fmt: skip
        assert (await status(gateway, asked[1]["request_id"]))["status"] == "expired"
        answer = await http.post(f"/nodes/grants/{asked[1]['code']}/approve")
        assert error_of(answer) == (410, "request_expired")
        # A decided one frees its place at once.
        await http.post(f"/nodes/grants/{asked[0]['code']}/deny")
        assert (await other.post("/nodes/grant-request", json=asks(identity="a"))).status_code == 200
        await http.post(f"/nodes/grants/{asked[2]['code']}/approve")
        assert (await other.post("/nodes/grant-request", json=asks(identity="b"))).status_code == 200
        assert error_of(await other.post("/nodes/grant-request", json=asks(identity="c")))[0] == 429


@sync
async def test_addresses_are_counted_where_they_are_known(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"grant_requests_per_address": 2})
    grants = gateway.service.gateway.grants

    def ask_from(host: str, number: int) -> str:
        body = asks(identity=f"{host} {number}")
        try:
            gateway.call(lambda: grants.ask(body, host, limited=True))
        except Exception as error:
            return str(getattr(error, "code", error))
        return "waits"

    def work() -> None:
        for host in ("192.0.2.1", "192.0.2.2"):
            assert [ask_from(host, number) for number in range(3)] == ["waits", "waits", "too_many_requests"]
        # All of one IPv6 site is one address.
        hosts = ("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1")
        assert [ask_from(host, 0) for host in hosts] == ["waits", "waits", "too_many_requests", "waits"]

    await asyncio.to_thread(work)
    for number in range(4):  # loopback, where many may share an address
        await ask(gateway, identity=f"local {number}")


@sync
async def test_only_the_same_place_replaces_a_waiting_request(gateway: ThreadedGateway) -> None:
    grants = gateway.service.gateway.grants
    first = await ask(gateway)
    await asyncio.to_thread(gateway.call, lambda: grants.ask(asks(), "192.0.2.66", limited=True))
    await ask(gateway, addr="http://192.0.2.8:25314")
    nameless = [await ask(gateway, addr="", identity="") for _ in range(2)]
    async with gateway.http() as http:
        shown = await waiting(http)
        assert len(shown) == 5
        assert shown[0]["request_id"] == first["request_id"]
        assert {each["request_id"] for each in nameless} <= {each["request_id"] for each in shown}


@sync
async def test_codes_are_unique_among_all_that_waits(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"pairing_code_length": 1, "grant_requests": 20})
    asked = [(await ask(gateway, identity=f"{number}"))["code"] for number in range(20)]
    async with BareDevice(gateway.node_url) as one, BareDevice(gateway.node_url) as two:
        codes = [*asked, await one.code(), await two.code()]
        assert len(set(codes)) == 22
        async with gateway.http() as http:
            await http.post(f"/nodes/grants/{codes[0]}/deny")
        codes.append((await ask(gateway, identity="once more"))["code"])
        assert len(set(codes)) == 23


@sync
async def test_a_grant_takes_the_place_of_the_same_holders(gateway: ThreadedGateway) -> None:
    heard = departures(gateway)
    first, first_token = await granted(gateway, name="Lab")
    renamed = await ask(gateway, name="Renamed", addr="http://198.51.100.9:1")
    async with gateway.http() as http, BareClient(gateway) as client:
        [shown] = await waiting(http)
        assert shown["replaces"] == "Lab"
        await client.send(type="subscribe", topics=["devices"])
        await client.change("devices", "snapshot")
        answer = (await http.post(f"/nodes/grants/{renamed['code']}/approve")).json()
        second = answer["device_id"]
        assert second != first  # a claimed identity inherits nothing
        assert (await client.change("devices", "added"))["item"]["device_id"] == second
        assert (await client.change("devices", "removed"))["item"]["device_id"] == first
        assert heard == [(first, "revoked")]
        assert await device_of(gateway, first) is None
        entries = (await http.get("/audit")).json()["entries"]
        [row] = [each for each in entries if each["action"] == "grant.replace"]
        assert (row["node_id"], row["detail"]) == (first, {"replaced_by": second})
    async with holder(gateway, first_token) as http:
        assert error_of(await http.get("/channels/suzent/whoami")) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [
        (("http://192.0.2.7:1", "a"), ("http://192.0.2.8:1", "a"), True),
        (("http://192.0.2.7:1", ""), ("ws://192.0.2.7:1/ws/node", ""), True),
        (("http://192.0.2.7:1", ""), ("http://192.0.2.7:1/", "a"), True),
        (("http://192.0.2.7:1", "a"), ("http://192.0.2.7:1", "b"), False),
        (("http://192.0.2.7:1", ""), ("http://192.0.2.7:2", ""), False),
        (("", ""), ("", ""), False),
        (("javascript:1", ""), ("javascript:1", ""), False),
    ],
)
@sync
async def test_by_identity_then_by_address_never_by_name(
    gateway: ThreadedGateway, old: tuple[str, str], new: tuple[str, str], replaced: bool
) -> None:
    first, _ = await granted(gateway, addr=old[0], identity=old[1])
    await granted(gateway, addr=new[0], identity=new[1])
    assert (await device_of(gateway, first) is None) == replaced


@sync
async def test_the_identity_of_a_node_or_of_anothers_grant_replaces_neither(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    async with BareDevice(gateway.node_url, "Phone", node_identity="shared") as device:
        await gateway.pair(device)
        gateway.token_of(gateway.config.account)
        mine, _ = await granted(gateway, identity="shared", addr="")
        gateway.service.gateway.waiting_account = None
        asked = await ask(gateway, identity="shared", addr="")
        async with holder(gateway, bob_token) as bob, gateway.http() as ada:
            # A request that belongs to nobody yet is shown to nobody, and found by its code alone.
            assert await waiting(bob) == await waiting(ada) == []
            bobs = (await bob.post(f"/nodes/grants/{asked['code']}/approve")).json()["device_id"]
            assert error_of(await ada.post(f"/nodes/grants/{asked['code']}/approve")) == (404, "request_unknown")
            assert {each["scope"] for each in (await bob.get("/nodes/devices")).json()["devices"]} == {"full", "agent"}
            assert (await ada.get("/nodes/Phone")).json()["node_id"] == device.node_id
        assert await device_of(gateway, mine) is not None
        assert await device_of(gateway, bobs) is None  # ada's list
    token = (await status(gateway, asked["request_id"]))["token"]
    async with holder(gateway, token) as http:
        assert (await http.get("/nodes")).json()["count"] == 0


@sync
async def test_requests_are_the_accounts_alone(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    async with BareClient(gateway, bob_token) as client, holder(gateway, bob_token) as bob, gateway.http() as ada:
        await client.send(type="subscribe", topics=["grants"])
        assert (await client.change("grants"))["item"] == []
        asked = await ask(gateway)
        assert await waiting(bob) == []
        for verb in ("approve", "deny"):
            for reference in (asked["code"], asked["request_id"]):
                assert error_of(await bob.post(f"/nodes/grants/{reference}/{verb}")) == (404, "request_unknown")
        assert len(await waiting(ada)) == 1
        await ada.post(f"/nodes/grants/{asked['code']}/deny")
        assert error_of(await bob.post(f"/nodes/grants/{asked['code']}/deny")) == (404, "request_unknown")
        await client.send(type="invoke", id=1, node="Phone", command="echo")
        assert (await client.recv())["type"] == "result"  # the first thing bob hears


@sync
async def test_subscribers_hear_of_requests(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client, gateway.http() as http:
        await client.send(type="subscribe", topics=["grants"])
        assert (await client.change("grants", "snapshot"))["item"] == []
        for verb in ("approve", "deny"):
            asked = await ask(gateway)
            assert (await client.change("grants", "added"))["item"] == (await waiting(http))[0]
            await http.post(f"/nodes/grants/{asked['code']}/{verb}")
            assert (await client.change("grants", "removed"))["item"]["code"] == asked["code"]


@sync
async def test_a_grant_ends_by_itself(gateway: ThreadedGateway) -> None:
    heard = departures(gateway)
    lasting, _ = await granted(gateway, {"expires_in": 3600}, identity="lasting")
    async with BareClient(gateway) as client:
        await client.send(type="subscribe", topics=["devices"])
        await client.change("devices", "snapshot")
        short, token = await granted(gateway, {"expires_in": 0.6}, identity="short")
        while (await client.change("devices", "changed"))["item"]["device_id"] != short:
            pass
    await until(lambda: heard == [(short, "revoked")])
    async with holder(gateway, token) as http:
        for method, path in (("GET", "/channels/suzent/whoami"), ("GET", "/nodes"), ("POST", "/nodes/peer-invoke")):
            assert error_of(await http.request(method, path)) == (401, "unauthorized")
    shown = await device_of(gateway, short)
    assert shown is not None
    assert (shown["status"], shown["expires_at"] != "") == ("active", True)
    # Neither resuming it nor looking again wakes it, or ends it twice.
    async with gateway.http() as http:
        for state in ("paused", "active"):
            await http.post(f"/nodes/devices/{short}/status", json={"status": state})
    await asyncio.to_thread(gateway.call, gateway.service.gateway.credentials._expiry.look)
    assert heard == [(short, "revoked"), (short, "paused")]
    async with holder(gateway, token) as http:
        assert error_of(await http.get("/nodes")) == (401, "unauthorized")
    assert await device_of(gateway, lasting) is not None


@sync
async def test_a_paused_grant_is_none_until_it_is_resumed(gateway: ThreadedGateway) -> None:
    device_id, token = await granted(gateway)
    async with gateway.http() as operator, holder(gateway, token) as http:
        url = f"/nodes/devices/{device_id}/status"
        await operator.post(url, json={"status": "paused"})
        assert error_of(await http.get("/channels/suzent/whoami")) == (401, "unauthorized")
        await operator.post(url, json={"status": "active"})
        assert (await http.get("/channels/suzent/whoami")).status_code == 200
        await operator.post(f"/nodes/devices/{device_id}/revoke")
        assert error_of(await http.get("/channels/suzent/whoami")) == (401, "unauthorized")


@sync
async def test_a_grant_revoked_before_it_was_fetched_is_not_given_out(gateway: ThreadedGateway) -> None:
    asked = await ask(gateway)
    async with gateway.http() as http:
        device_id = (await http.post(f"/nodes/grants/{asked['code']}/approve")).json()["device_id"]
        await http.post(f"/nodes/devices/{device_id}/revoke")
    assert await status(gateway, asked["request_id"]) == {"status": "denied", "token": None, "node_identity": None}


@pytest.mark.parametrize(
    "terms",
    [
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": True},
        {"expires_in": "60"},
        {"expires_in": 10 * 366 * 24 * 3600},
        {"covers": "all"},
        {"commands": ["x"] * 65},
        {"commands": ["x" * 129]},
        {"commands": [""]},
        {"commands": ["  "]},
        {"commands": ["camera.*\n"]},
        {"commands": "camera.*"},
        {"unattended_tools": "yes"},
        {"scope": "full"},
    ],
)
@sync
async def test_terms_that_make_no_sense_grant_nothing(gateway: ThreadedGateway, terms: dict[str, Any]) -> None:
    asked = await ask(gateway)
    async with gateway.http() as http:
        answer = await http.post(f"/nodes/grants/{asked['code']}/approve", json=terms)
        assert error_of(answer) == (422, "invalid_request")
        assert f"`{next(iter(terms))}" in answer.json()["error"]
        assert len(await waiting(http)) == 1
    assert (await status(gateway, asked["request_id"]))["status"] == "pending"


CAPABILITIES = [{"name": name} for name in ("camera.snap", "camera.record", "speaker.speak")]


async def peer_invoke(http: httpx.AsyncClient, command: str, **fields: Any) -> httpx.Response:
    return await http.post("/nodes/peer-invoke", json={"command": command, "params": {}, **fields})


@sync
async def test_commands_that_are_not_covered_are_refused_and_not_shown(gateway: ThreadedGateway) -> None:
    terms = {"commands": ["camera.*"], "unattended_tools": True}
    _, token = await granted(gateway, terms, identity="camera")
    _, agents = await granted(gateway, {"covers": "agent"}, identity="agent")
    _, devices = await granted(gateway, {"covers": "devices"}, identity="devices")
    async with (
        BareDevice(gateway.node_url, "Pi", CAPABILITIES) as device,
        BareDevice(gateway.node_url, "Speaker", CAPABILITIES[2:]) as speaker,
    ):
        for each in (device, speaker):
            await gateway.pair(each)
            each.answer(lambda command, params: command)
        async with holder(gateway, token) as http:
            [node] = (await http.get("/nodes")).json()["nodes"]
            assert (node["display_name"], node["remote"]) == ("Pi", "")
            assert [each["name"] for each in node["capabilities"]] == ["camera.snap", "camera.record"]
            assert (await peer_invoke(http, "camera.snap")).json()["result"] == "camera.snap"
            answer = await peer_invoke(http, "camera.zoom", node="Pi")
            assert error_of(answer) == (404, "unknown_command")
            assert "speaker" not in answer.text
            for fields in ({}, {"node": "Pi"}, {"node": "Speaker"}, {"node": "nobody"}):
                assert error_of(await peer_invoke(http, "speaker.speak", **fields)) == (403, "not_granted")
        async with holder(gateway, agents) as http:
            assert (await http.get("/nodes")).json() == {"nodes": [], "count": 0}
            assert error_of(await peer_invoke(http, "camera.snap")) == (403, "not_granted")
        async with holder(gateway, devices) as http:
            assert (await http.get("/nodes")).json()["count"] == 2
            assert (await peer_invoke(http, "speaker.speak", node="Speaker")).json()["success"] is True
        async with gateway.http() as http:
            [node, _] = (await http.get("/nodes")).json()["nodes"]
            assert (len(node["capabilities"]), node["remote"]) == (3, "127.0.0.1")
            calls = [each for each in (await http.get("/audit")).json()["entries"] if each["action"] == "invoke"]
            assert [each["outcome"] for each in calls] == [
                "ok", *["not_granted"] * 5, "unknown_command", "ok",
            ]  # fmt: skip
            assert "speaker.speak" in {each["command"] for each in calls}


@sync
async def test_a_grant_for_devices_does_not_drive_the_agent(gateway: ThreadedGateway) -> None:
    from suzent_jupyter.gateway.granting.coverage import require_agent
    from suzent_jupyter.protocol.errors import SuzentError

    hub = gateway.service.gateway
    for covers in ("both", "agent", "devices"):
        _, token = await granted(gateway, {"covers": covers}, identity=covers)
        principal = hub.authenticate(token)
        assert principal is not None
        if covers == "devices":
            with pytest.raises(SuzentError, match="does not cover the agent") as refused:
                require_agent(principal)
            assert refused.value.code == "not_granted"
        else:
            require_agent(principal)
    require_agent(gateway.service.kernel_token._principal)


@sync
async def test_uses_are_counted_and_kept(make_gateway: MakeGateway, tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path / "kept")
    device_id, token = await granted(gateway)
    async with BareDevice(gateway.node_url) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        device.answer()
        await client.send(type="subscribe", topics=["devices"])
        await client.change("devices", "snapshot")
        async with holder(gateway, token) as http:
            for _ in range(3):
                assert (await peer_invoke(http, "echo")).json()["success"] is True
            await http.get("/channels/suzent/whoami")  # is no use of it
        used = await device_of(gateway, device_id)  # at once
        assert used is not None
        assert used["trigger_count"] == 3
        assert used["last_triggered_at"] >= used["approved_at"]
        counts = [0]
        while counts[-1] != 3:
            item = (await client.change("devices", "changed"))["item"]
            if item["device_id"] == device_id:
                counts.append(item["trigger_count"])
        assert len(counts) <= 4
        async with gateway.http() as http:  # a caller that holds no grant counts nowhere
            await peer_invoke(http, "echo")
    gateway.stop()
    again = make_gateway(tmp_path / "kept")
    kept = await device_of(again, device_id)
    assert kept is not None
    assert (kept["trigger_count"], kept["last_triggered_at"]) == (3, used["last_triggered_at"])


@sync
async def test_a_store_that_can_not_be_written_leaves_the_request_waiting(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "suzent.db").write_bytes(b"this is no database " * 500)
    gateway = make_gateway(tmp_path / "spoilt")
    asked = await ask(gateway)
    async with gateway.http() as http:
        for _ in range(2):
            answer = await http.post(f"/nodes/grants/{asked['code']}/approve")
            assert error_of(answer) == (503, "store_unreadable")
            assert len(await waiting(http)) == 1
            assert (await status(gateway, asked["request_id"]))["status"] == "pending"
        assert (await http.post(f"/nodes/grants/{asked['code']}/deny")).status_code == 200


@sync
async def test_one_answer_at_a_time(gateway: ThreadedGateway) -> None:
    asked = await ask(gateway)
    async with gateway.http() as http:
        url = f"/nodes/grants/{asked['code']}"
        answers = await asyncio.gather(*[http.post(f"{url}/{verb}") for verb in ("approve", "approve", "deny")])
        assert sorted(each.status_code for each in answers) == [200, 409, 409]
        grants = [each for each in (await http.get("/nodes/devices")).json()["devices"] if each["scope"] == "agent"]
    assert len(grants) == sum(each.json().get("device_id") is not None for each in answers)


@sync
async def test_another_process_narrows_a_grant(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one, two = (make_gateway(tmp_path / "shared", single=False, limits={"store_poll": 0.05}) for _ in range(2))
    device_id, token = await granted(one)
    heard = departures(two)
    await until(lambda: two.service.gateway.devices.by_id(device_id))
    principal = two.service.gateway.authenticate(token)
    assert principal is not None
    assert principal.grant is not None
    assert principal.grant.allows("echo")
    hub = one.service.gateway
    device = hub.devices.by_id(device_id)
    assert device is not None

    async def narrow() -> None:
        from suzent_jupyter.gateway.audit import Row
        from suzent_jupyter.gateway.clock import now_text

        changes = {"covers": "devices", "commands": ["camera.*"], "expires_at": now_text(2)}
        await hub.credentials.change(device, changes, Row("ada", "user", "grant.change"))

    await asyncio.to_thread(one.run, narrow())

    def followed() -> bool:
        now = two.service.gateway.authenticate(token)
        grant = now.grant if now is not None else None
        return grant is not None and (grant.agent, grant.commands) == (False, ("camera.*",))

    await until(followed)
    await until(lambda: heard == [(device_id, "revoked")])
    assert two.service.gateway.authenticate(token) is None
    # Approved in the one, used in the other: both say so.
    other_id, other_token = await granted(one, identity="other")
    await until(lambda: two.service.gateway.authenticate(other_token))
    async with holder(two, other_token) as http:
        assert error_of(await peer_invoke(http, "echo")) == (404, "unknown_command")
    await until(lambda: (found := hub.devices.by_id(other_id)) and found.trigger_count == 1)
    # Asked again in the one, ended in the other.
    await granted(one, identity="other")
    await until(lambda: two.service.gateway.authenticate(other_token) is None)


@pytest.fixture(scope="module")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Any:
    gateway = ThreadedGateway(tmp_path_factory.mktemp("hostile"), limits={"grant_requests": 100_000})
    yield gateway
    gateway.stop()


ANYTHING = st.one_of(
    st.text(), st.none(), st.integers(), st.lists(st.text(max_size=3), max_size=3), st.text("\x1b[\u202e\u2028\ud800<&")
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=ANYTHING, addr=ANYTHING, identity=ANYTHING)
def test_hostile_requests_are_made_harmless(
    shared_gateway: ThreadedGateway, name: Any, addr: Any, identity: Any
) -> None:
    body = {"controller_name": name, "controller_addr": addr, "controller_identity": identity}
    grants = shared_gateway.service.gateway.grants
    principal = shared_gateway.service.kernel_token._principal
    asked = shared_gateway.call(lambda: grants.ask(body, "192.0.2.1", limited=False))
    shown = shared_gateway.call(lambda: grants.waiting(principal)[-1])
    assert shown.code == asked.code
    for text, most in ((shown.controller_name, 64), (shown.controller_identity, 128)):
        assert len(text) <= most
        assert text.isprintable() or not set(text) & set("\x1b\n\u202e\u2028")
    assert shown.controller_name
    assert shown.controller_addr == "" or shown.controller_addr.startswith(("http://", "https://"))
    shared_gateway.run(grants.deny(principal, asked.code))


def test_an_approved_grant_survives_the_end_of_its_gateway(start_process: Callable[..., Process]) -> None:
    gateway = start_process()

    async def approve() -> tuple[str, str, str]:
        first, _ = await granted(gateway)
        device_id, token = await granted(gateway, {"covers": "agent", "commands": ["camera.*"], "expires_in": 3600})
        return first, device_id, token

    first, device_id, token = asyncio.run(approve())
    gateway.kill()
    again = start_process()

    async def look() -> None:
        await store_loaded(again)
        kept = await device_of(again, device_id)
        assert kept is not None
        assert (kept["covers"], kept["commands"], kept["expires_at"] != "") == ("agent", ["camera.*"], True)
        assert await device_of(again, first) is None
        async with holder(again, token) as http:
            assert (await http.get("/channels/suzent/whoami")).json()["peer_id"] == device_id
            assert error_of(await peer_invoke(http, "camera.snap")) == (403, "not_granted")

    asyncio.run(look())
