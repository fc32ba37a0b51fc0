"""Two accounts on one gateway: full means full within one's own, and the other's things do not exist."""

from __future__ import annotations

from typing import Any

from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.grants import holder
from support.running import sync

from suzent_jupyter.gateway.devices import Device


@sync
async def test_the_others_nodes_devices_codes_and_trail_do_not_exist(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    async with (
        BareDevice(gateway.node_url, "Phone") as phone,
        BareDevice(gateway.node_url, "Waits") as waits,
        holder(gateway, bob_token) as bob,
        gateway.http() as ada,
    ):
        await gateway.pair(phone)
        code = await waits.code()
        phone.answer()
        await invoke(ada, "Phone")
        assert (await bob.get("/nodes")).json() == {"nodes": [], "count": 0}
        assert (await bob.get("/nodes/pending")).json() == {"pending": [], "count": 0}
        assert [each["display_name"] for each in (await bob.get("/nodes/devices")).json()["devices"]] == ["bob's token"]
        assert [each["action"] for each in (await bob.get("/audit")).json()["entries"]] == ["device.adopt"]
        for reference in ("Phone", phone.node_id, phone.node_id[:6]):
            assert error_of(await bob.get(f"/nodes/{reference}")) == (404, "node_not_found")
            assert error_of(await invoke(bob, reference)) == (404, "node_not_found")
        url = f"/nodes/devices/{phone.node_id}"
        assert error_of(await bob.post(f"{url}/revoke")) == (404, "device_unknown")
        assert error_of(await bob.post(f"{url}/status", json={"status": "paused"})) == (404, "device_unknown")
        for verb in ("approve", "deny"):
            assert error_of(await bob.post(f"/nodes/pending/{code}/{verb}")) == (404, "code_unknown")
        assert (await ada.get("/nodes/pending")).json()["count"] == 1
        assert "bob" not in (await ada.get("/nodes/devices")).text
        # Nor does how a code of ada's ended.
        await ada.post(f"/nodes/pending/{code}/deny")
        assert error_of(await bob.post(f"/nodes/pending/{code}/approve")) == (404, "code_unknown")


@sync
async def test_the_others_changes_are_not_told(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    topics = ["nodes", "pending", "devices", "audit", "events"]
    async with BareClient(gateway, bob_token) as bob, BareClient(gateway) as ada:
        for client in (bob, ada):
            await client.send(type="subscribe", topics=topics)
            for topic in topics:
                assert (await client.change(topic))["kind"] == "snapshot"
        async with BareDevice(gateway.node_url, "Phone") as phone:
            await gateway.pair(phone)
            phone.answer()
            await phone.send({"type": "event", "event": "motion", "data": {"n": 1}})
            await ada.change("events", "added")
        await ada.change("nodes", "removed")
        # The first thing bob hears is the answer to his own question.
        await bob.send(type="invoke", id=1, node="Phone", command="echo")
        heard = await bob.recv()
        assert (heard["type"], heard["code"]) == ("result", "node_not_found")


@sync
async def test_keys_and_calls_of_two_accounts_do_not_meet(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(org="lab")
    bob_token = gateway.token_of("bob", "lab")
    async with (
        BareDevice(gateway.node_url, "Microscope") as device,
        gateway.http() as ada,
        holder(gateway, bob_token) as bob,
    ):
        await gateway.pair(device)
        record = gateway.service.gateway.devices.by_id(device.node_id)
        assert record is not None
        record.sharing = "enterprise"
        device.answer(lambda command, params: params)
        assert (await bob.get("/nodes")).json()["count"] == 1
        await invoke(ada, "Microscope", params={"who": "ada"}, idempotency_key="k")
        answer = await invoke(bob, "Microscope", params={"who": "bob"}, idempotency_key="k")
        assert answer.json()["result"] == {"who": "bob"}
        # Shared to be used, not to be governed.
        assert error_of(await bob.post(f"/nodes/devices/{device.node_id}/revoke")) == (404, "device_unknown")
        actors = [each["actor"] for each in (await bob.get("/audit")).json()["entries"] if each["action"] == "invoke"]
        assert len(actors) == 1


@sync
async def test_names_are_ambiguous_only_among_what_one_sees(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    async with (
        BareDevice(gateway.node_url, "Phone") as adas,
        BareDevice(gateway.node_url, "Phone") as bobs,
        gateway.http() as ada,
        holder(gateway, bob_token) as bob,
    ):
        await gateway.pair(adas)
        await gateway.pair(bobs)
        record = gateway.service.gateway.devices.by_id(bobs.node_id)
        assert record is not None
        record.account = "bob"
        assert (await ada.get("/nodes/Phone")).json()["node_id"] == adas.node_id
        assert (await bob.get("/nodes/Phone")).json()["node_id"] == bobs.node_id


@sync
async def test_with_several_accounts_a_waiting_device_belongs_to_whoever_enters_its_code(
    gateway: ThreadedGateway,
) -> None:
    gateway.service.gateway.waiting_account = None
    bob_token = gateway.token_of("bob")
    async with (
        BareDevice(gateway.node_url, "Phone") as device,
        gateway.http() as ada,
        holder(gateway, bob_token) as bob,
    ):
        code = await device.code()
        for http in (ada, bob):
            assert (await http.get("/nodes/pending")).json()["count"] == 0
        assert (await bob.post(f"/nodes/pending/{code}/approve")).status_code == 200
        await device.joined()
        assert (await bob.get("/nodes")).json()["count"] == 1
        assert (await ada.get("/nodes")).json()["count"] == 0


@sync
async def test_id_prefixes_of_devices_are_unique_among_what_one_sees(gateway: ThreadedGateway) -> None:
    bob_token = gateway.token_of("bob")
    hub = gateway.service.gateway
    for account in ("ada", "bob"):
        device = Device(f"abcdef{account}", account.encode(), f"{account}'s phone", account=account)
        gateway.call(hub.devices.put, device)
    async with holder(gateway, bob_token) as bob:
        answer = await bob.post("/nodes/devices/abcdef/status", json={"status": "active"})
        assert answer.json() == {"success": True, "status": "active"}
        assert error_of(await bob.post("/nodes/devices/abcdefada/revoke")) == (404, "device_unknown")
