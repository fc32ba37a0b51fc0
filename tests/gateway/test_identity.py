"""One device, one id, one connection: reconnecting, replacing, pairing again."""

from __future__ import annotations

import asyncio
from typing import Any

from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


@sync
async def test_a_node_id_is_for_life_and_the_device_id(make_gateway: Any, tmp_path: Any) -> None:
    first: ThreadedGateway = make_gateway(tmp_path / "data")
    async with BareDevice(first.node_url) as device:
        await first.pair(device)
        async with first.http() as http:
            [listed] = (await http.get("/nodes/devices")).json()["devices"]
            assert (listed["device_id"], listed["connected"]) == (device.node_id, True)
    async with BareDevice(first.node_url, "Renamed", device_token=device.token) as again:
        assert (await again.joined())["node_id"] == device.node_id
    first.stop()
    second: ThreadedGateway = make_gateway(tmp_path / "data")
    async with BareDevice(second.node_url, device_token=device.token) as later:
        assert (await later.joined())["node_id"] == device.node_id
        assert later.connected["device_token"] == ""


@sync
async def test_a_second_connection_takes_the_place_of_the_first(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as old, gateway.http() as http:
        await gateway.pair(old)
        async with BareDevice(gateway.node_url, device_token=old.token) as new:
            await new.joined()
            assert (await old.closed())[0] == 4001
            new.answer(lambda command, params: "new")
            # The old socket's close is over, and the new session stands.
            assert (await http.get("/nodes")).json()["count"] == 1
            assert (await invoke(http, "MyPhone")).json()["result"] == "new"
            assert (await http.get("/nodes/devices")).json()["devices"][0]["connected"] is True
        await until(lambda: len(gateway.service.gateway.registry) == 0)


@sync
async def test_the_late_close_of_a_replaced_socket_removes_nothing(gateway: ThreadedGateway) -> None:
    """The old connection dies without a word: its close reaches the gateway after the new one connected."""
    old = BareDevice(gateway.node_url)
    await old.__aenter__()
    await gateway.pair(old)
    async with BareDevice(gateway.node_url, device_token=old.token) as new, gateway.http() as http:
        await new.joined()
        new.answer()
        old.ws.transport.abort()
        for _ in range(3):
            assert (await invoke(http, "MyPhone", params={"a": 1})).json()["result"] == {"a": 1}
        assert (await http.get("/nodes/MyPhone")).json()["node_id"] == old.node_id


@sync
async def test_calls_of_a_replaced_connection_fail_at_once(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as old, gateway.http() as http:
        await gateway.pair(old)
        call = asyncio.create_task(invoke(http, "MyPhone"))
        await old.recv("invoke")
        async with BareDevice(gateway.node_url, device_token=old.token) as new:
            await new.joined()
            assert error_of(await asyncio.wait_for(call, 1)) == (502, "node_disconnected")


@sync
async def test_the_fourth_replacement_within_a_minute_is_refused(gateway: ThreadedGateway) -> None:
    devices = [BareDevice(gateway.node_url)]
    await devices[0].__aenter__()
    await gateway.pair(devices[0])
    token = devices[0].token
    for number in range(3):
        newer = BareDevice(gateway.node_url, device_token=token)
        await newer.__aenter__()
        await newer.joined()
        assert (await devices[number].closed())[0] == 4001
        devices.append(newer)
    async with BareDevice(gateway.node_url, device_token=token) as fourth:
        code, reason = await fourth.closed()
        assert code == 1013
        assert "twice" in reason
    async with BareDevice(gateway.node_url, device_token=token, features=[]) as fifth:
        assert (await fifth.recv("error"))["code"] == "token_shared"
    # The live one stays.
    devices[-1].answer()
    async with gateway.http() as http:
        assert (await invoke(http, "MyPhone", params={"a": 1})).json()["result"] == {"a": 1}
    await devices[-1].__aexit__()


@sync
async def test_reconnecting_after_a_close_is_no_replacement(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device:
        await gateway.pair(device)
    for _ in range(6):
        await until(lambda: len(gateway.service.gateway.registry) == 0)
        async with BareDevice(gateway.node_url, device_token=device.token) as again:
            await again.joined()


@sync
async def test_pairing_the_same_installation_again_leaves_no_ghost(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        ids, tokens = set(), set()
        for _ in range(5):
            async with BareDevice(gateway.node_url, "Laptop", node_identity="laptop-1") as device:
                await gateway.pair(device)
                ids.add(device.node_id)
                tokens.add(device.token)
            await until(lambda: len(gateway.service.gateway.registry) == 0)
        assert (len(ids), len(tokens)) == (1, 5)
        devices = (await http.get("/nodes/devices")).json()
        assert [each["node_identity"] for each in devices["devices"]] == ["laptop-1"]
    # Of the five tokens only the newest is good.
    for token in tokens:
        async with BareDevice(gateway.node_url, device_token=token) as again:
            frame = await again.recv()
            assert frame["type"] == ("connected" if token == device.token else "pending")


@sync
async def test_the_operator_sees_whom_a_pairing_would_replace_and_the_old_connection_ends(
    gateway: ThreadedGateway,
) -> None:
    async with BareDevice(gateway.node_url, node_identity="phone-1") as old, gateway.http() as http:
        await gateway.pair(old)
        async with BareDevice(gateway.node_url, "Phone again", node_identity="phone-1") as new:
            code = await new.code()
            [entry] = (await http.get("/nodes/pending")).json()["pending"]
            assert entry["replaces"] == old.node_id
            assert (await http.get("/nodes")).json()["count"] == 1
            await gateway.approve(code)
            assert (await new.joined())["node_id"] == old.node_id
            assert (await old.closed())[0] == 4001
            [node] = (await http.get("/nodes")).json()["nodes"]
            assert node["display_name"] == "Phone again"


@sync
async def test_two_pairings_of_one_installation_at_once_leave_one_device(gateway: ThreadedGateway) -> None:
    async with (
        BareDevice(gateway.node_url, "One", node_identity="same") as one,
        BareDevice(gateway.node_url, "Two", node_identity="same") as two,
        gateway.http() as http,
    ):
        codes = [await one.code(), await two.code()]
        await asyncio.gather(*(gateway.approve(code) for code in codes))
        assert (await http.get("/nodes/devices")).json()["count"] == 1
        await until(lambda: len(gateway.service.gateway.registry) == 1)


@sync
async def test_devices_of_one_name_are_two_devices(gateway: ThreadedGateway) -> None:
    async with (
        BareDevice(gateway.node_url, "Twin") as one,
        BareDevice(gateway.node_url, "twin") as two,
        gateway.http() as http,
    ):
        await gateway.pair(one)
        await gateway.pair(two)
        two.answer(lambda command, params: "two")
        answer = await invoke(http, "TWIN")
        assert error_of(answer) == (409, "node_ambiguous")
        assert answer.json()["ids"] == sorted([one.node_id, two.node_id])
        assert (await invoke(http, two.node_id)).json()["result"] == "two"
        await one.ws.close()
        await until(lambda: len(gateway.service.gateway.registry) == 1)
        assert (await invoke(http, "twin")).json()["result"] == "two"
        connected = {
            each["device_id"]: each["connected"] for each in (await http.get("/nodes/devices")).json()["devices"]
        }
        assert connected == {one.node_id: False, two.node_id: True}
