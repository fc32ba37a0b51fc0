"""An approval covers what was shown. What a device declares later waits under a code of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

NEW = {"features": ["update"]}


def declare(*names: str) -> dict[str, Any]:
    return {"type": "update", "capabilities": [{"name": name} for name in names]}


async def waiting(http: Any) -> list[tuple[str, str, list[str]]]:
    entries = (await http.get("/nodes/pending")).json()["pending"]
    return [(each["pairing_code"], each["kind"], [cap["name"] for cap in each["capabilities"]]) for each in entries]


@sync
async def test_more_capabilities_wait_for_an_approval_of_their_own(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "camera.snap"))
        told = await device.recv("approved")
        assert (told["approved"], told["pending_approval"]) == (["echo"], ["camera.snap"])
        assert error_of(await invoke(http, "Pi", "camera.snap")) == (409, "pending_reapproval")
        assert error_of(await invoke(http, "Pi", "nothing")) == (404, "unknown_command")
        [(code, kind, commands)] = await waiting(http)
        assert (kind, commands) == ("capabilities", ["camera.snap"])
        [node] = (await http.get("/nodes")).json()["nodes"]
        assert [each["name"] for each in node["capabilities"]] == ["echo"]
        assert [each["name"] for each in node["pending_capabilities"]] == ["camera.snap"]
        await gateway.approve(code)
        told = await device.recv("approved")
        assert (told["approved"], told["pending_approval"]) == (["echo", "camera.snap"], [])
        device.answer(lambda command, params: command)
        assert (await invoke(http, "Pi", "camera.snap")).json()["result"] == "camera.snap"
        assert await waiting(http) == []
        assert error_of(await http.post(f"/nodes/pending/{code}/approve")) == (409, "code_used")


@sync
async def test_a_device_that_widens_while_it_waits_is_approved_for_what_was_shown(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        code = await device.code()
        await device.send(declare("echo", "shell.run"))
        await device.send({"type": "connect", "display_name": "Pi", "capabilities": [{"name": "shell.run"}]})
        [(_, _, shown)] = await waiting(http)
        assert shown == ["echo"]
        await gateway.approve(code)
        joined = await device.joined()
        assert (joined["approved"], joined["pending_approval"]) == (["echo"], [])
        assert error_of(await invoke(http, "Pi", "shell.run")) == (404, "unknown_command")


@sync
async def test_an_old_code_never_approves_newer_commands(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "one"))
        await device.recv("approved")
        [(first, _, _)] = await waiting(http)
        await device.send(declare("echo", "one", "two"))
        await device.recv("approved")
        [(second, _, commands)] = await waiting(http)
        assert (first != second, commands) == (True, ["one", "two"])
        assert error_of(await http.post(f"/nodes/pending/{first}/approve")) == (410, "code_gone")
        assert error_of(await invoke(http, "Pi", "one")) == (409, "pending_reapproval")


@sync
async def test_declaring_the_same_again_keeps_the_code(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "one"))
        await device.recv("approved")
        before = await waiting(http)
        await device.send(declare("one", "echo"))
        await device.recv("approved")
        assert await waiting(http) == before


@sync
async def test_commands_declared_while_others_are_approved_wait_on(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "one"))
        await device.recv("approved")
        [(code, _, _)] = await waiting(http)
        hub, go = gateway.service.gateway, threading.Event()
        gateway.call(lambda: hub.store.run(lambda connection: go.wait(20)))
        approval = asyncio.create_task(http.post(f"/nodes/pending/{code}/approve"))
        await until(lambda: hub.pairing._waiting[code].deciding)
        await device.send(declare("echo", "one", "two"))
        await device.recv("approved")
        go.set()
        assert (await approval).status_code == 200
        told = await device.recv("approved")
        assert (told["approved"], told["pending_approval"]) == (["echo", "one"], ["two"])
        [(_, _, commands)] = await waiting(http)
        assert commands == ["two"]
    await until(lambda: len(hub.pairing) == 0)  # a pending entry lives no longer than its socket


@sync
async def test_denied_commands_stay_refused(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "one"))
        await device.recv("approved")
        [(code, _, _)] = await waiting(http)
        assert (await http.post(f"/nodes/pending/{code}/deny")).status_code == 200
        assert await waiting(http) == []
        assert error_of(await invoke(http, "Pi", "one")) == (409, "pending_reapproval")
        device.answer()
        assert (await invoke(http, "Pi", "echo")).status_code == 200


@sync
async def test_commands_taken_back_wait_no_longer_and_come_back_approved(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("one"))
        told = await device.recv("approved")
        assert (told["approved"], told["pending_approval"]) == ([], ["one"])
        assert error_of(await invoke(http, "Pi", "echo")) == (404, "unknown_command")
        await device.send(declare("echo"))
        assert (await device.recv("approved"))["approved"] == ["echo"]
        assert await waiting(http) == []


@sync
async def test_a_device_that_comes_back_with_more_keeps_what_was_approved(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device:
        await gateway.pair(device)
    more = [{"name": "echo"}, {"name": "new"}]
    async with BareDevice(gateway.node_url, "Pi", more, device_token=device.token) as again, gateway.http() as http:
        joined = await again.joined()
        assert (joined["approved"], joined["pending_approval"]) == (["echo"], ["new"])
        again.answer()
        assert error_of(await invoke(http, "Pi", "new")) == (409, "pending_reapproval")
        [(code, _, _)] = await waiting(http)
        # An old device: it is not told, and the commands work all the same.
        await gateway.approve(code)
        assert (await invoke(http, "Pi", "new", {"a": 1})).json()["result"] == {"a": 1}
    async with BareDevice(gateway.node_url, "Pi", more, device_token=device.token) as third:
        assert (await third.joined())["approved"] == ["echo", "new"]


@sync
async def test_the_first_of_two_capabilities_of_one_name_counts(gateway: ThreadedGateway) -> None:
    twice = [
        {"name": "go", "description": "first", "params_schema": {"a": "int"}},
        {"name": "go", "description": "second", "params_schema": {"a": "str"}},
    ]
    async with BareDevice(gateway.node_url, "Pi", twice, **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        assert device.connected["warnings"] == ["a capability of the same name was left out"]
        [capability] = (await http.get("/nodes/Pi")).json()["capabilities"]
        assert (capability["description"], capability["params_schema"]) == ("first", {"a": "int"})
        assert error_of(await invoke(http, "Pi", "go", {"a": "x"})) == (422, "invalid_params")


@sync
async def test_a_code_that_expires_makes_room_for_a_new_one(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 0.5})
    async with BareDevice(gateway.node_url, "Pi", **NEW) as device, gateway.http() as http:
        await gateway.pair(device)
        await device.send(declare("echo", "one"))
        await device.recv("approved")
        [(first, _, _)] = await waiting(http)
        hub = gateway.service.gateway
        await until(lambda: first not in hub.pairing._waiting)
        [(second, _, commands)] = await waiting(http)
        assert (second != first, commands) == (True, ["one"])
        assert error_of(await http.post(f"/nodes/pending/{first}/approve")) == (410, "code_expired")
        assert (await http.get("/nodes")).json()["count"] == 1
