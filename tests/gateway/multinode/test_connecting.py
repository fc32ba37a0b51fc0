"""Challenge, JWT, pairing and everything after it on ``/ws/gateway``, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.keyed import Key, KeyedNode, admit, answering, multinode_url
from support.running import sync, until


def traces(gateway: ThreadedGateway) -> tuple[int, ...]:
    hub = gateway.service.gateway
    return (len(hub.sockets), len(hub.pairing), len(hub.registry), len(hub.sessions), len(hub._clients))


@sync
async def test_an_unknown_key_waits_is_approved_called_and_comes_back_silently(gateway: ThreadedGateway) -> None:
    url, key = multinode_url(gateway), Key()
    async with KeyedNode(url, "LabPC", key, tags=["lab"], description="Measures.") as node, gateway.http() as http:
        assert node.challenge["aud"] == gateway.service.gateway.identity
        code = await node.code()
        entry = (await http.get("/nodes/pending")).json()["pending"][0]
        assert entry["pairing_code"] == code
        assert (entry["display_name"], entry["platform"], entry["description"]) == ("LabPC", "test", "Measures.")
        await gateway.approve(code)
        await node.joined()
        assert node.hello["account"] == "ada"
        assert node.hello["org"] == ""
        assert node.hello["protocol"] == 1
        assert node.hello["policy"] == {
            "tick_interval_ms": 30_000,
            "max_payload": 25 * 2**20,
            "run_ttl_ms": 600_000,
            "delta_throttle_ms": 150,
        }
        assert node.hello["approved"] == ["echo"]
        task = answering(node)
        assert (await invoke(http, "LabPC", params={"a": [1, "ü"]})).json()["result"] == {"a": [1, "ü"]}
        task.cancel()
        device = (await http.get("/nodes/devices")).json()["devices"][0]
        assert device["device_id"] == node.node_id
        assert device["token_hint"] == f"key {key.kid[:10]}…"
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))
    async with KeyedNode(url, "LabPC", key) as again:
        await again.joined()
        assert again.node_id == node.node_id
    stored = gateway.service.gateway.devices.by_key(key.public)
    assert stored is not None
    assert stored.public_key == key.kid
    assert gateway.service.gateway.authenticate("") is None


@sync
async def test_what_a_node_would_be_is_shown_and_its_wish_gives_it_nothing(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway), agent=True, scope="enterprise") as node, gateway.http() as http:
        code = await node.code()
        entry = (await http.get("/nodes/pending")).json()["pending"][0]
        assert [each["name"] for each in entry["capabilities"]] == ["echo", "agent.run"]
        assert entry["wanted_scope"] == "enterprise"
        await gateway.approve(code)
        await node.joined()
        assert node.hello["scope"] == "account"
        assert "%suzent scope NODE enterprise" in node.hello["warnings"][0]
        assert (await http.get("/nodes")).json()["nodes"][0]["scope"] == "account"


@sync
async def test_a_key_is_known_after_a_restart(make_gateway: Any, tmp_path: Any) -> None:
    key, first = Key(), make_gateway(tmp_path / "same")
    async with KeyedNode(multinode_url(first), "LabPC", key) as node:
        await admit(first, node)
    first.stop()
    second = make_gateway(tmp_path / "same")
    async with KeyedNode(multinode_url(second), "LabPC", key) as again:
        assert again.challenge["aud"] == node.challenge["aud"]
        await again.joined()
        assert again.node_id == node.node_id


@sync
async def test_another_key_is_another_device(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)
    async with KeyedNode(url, "LabPC") as node:
        await admit(gateway, node)
    async with KeyedNode(url, "LabPC") as swapped:
        await swapped.code()
        assert len(gateway.service.gateway.registry) == 0
        await gateway.approve(gateway.service.gateway.pairing.visible(gateway_principal(gateway))[0].code)
        await swapped.joined()
        assert swapped.node_id != node.node_id


def gateway_principal(gateway: ThreadedGateway) -> Any:
    return gateway.service.kernel_token.principal(gateway.token)


@sync
async def test_two_nodes_of_one_name_are_told_apart_by_id(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)
    async with KeyedNode(url, "Twin") as one, KeyedNode(url, "Twin") as two, gateway.http() as http:
        await admit(gateway, one)
        await admit(gateway, two)
        assert error_of(await invoke(http, "Twin")) == (409, "node_ambiguous")
        tasks = [answering(one), answering(two)]
        for node in (one, two):
            assert (await invoke(http, node.node_id, params={"me": node.node_id})).json()["result"] == {
                "me": node.node_id
            }
        for task in tasks:
            task.cancel()


@sync
async def test_a_node_hears_of_others(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)
    async with KeyedNode(url, "First") as first:
        await admit(gateway, first)
        async with BareDevice(gateway.node_url, "Phone") as phone:
            await gateway.pair(phone)
            online = await first.recv("node.online")
            assert (online["node"]["node_id"], online["node"]["display_name"]) == (phone.node_id, "Phone")
            await first.send({"type": "node.list", "id": "q"})
            listed = await first.recv("node.list")
            assert listed["id"] == "q"
            assert [node["display_name"] for node in listed["nodes"]] == ["First", "Phone"]
            await first.send({"type": "node.update", "node": {"description": "New words", "tags": ["gpu"]}})
            changed = await first.recv("node.update")
            assert (changed["node"]["description"], changed["node"]["tags"]) == ("New words", ["gpu"])
        assert (await first.recv("node.offline"))["node"]["node_id"] == phone.node_id


@sync
async def test_new_commands_wait_for_the_operator(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        await node.send({"type": "node.update", "node": {"capabilities": [{"name": "echo"}, {"name": "erase"}]}})
        told = await node.recv("approved")
        assert (told["approved"], told["pending_approval"]) == (["echo"], ["erase"])
        assert error_of(await invoke(http, "LabPC", "erase")) == (409, "pending_reapproval")
        await gateway.approve((await http.get("/nodes/pending")).json()["pending"][0]["pairing_code"])
        assert (await node.recv("approved"))["approved"] == ["echo", "erase"]
        task = answering(node)
        assert (await invoke(http, "LabPC", "erase", {"x": 1})).json()["result"] == {"x": 1}
        task.cancel()


@sync
async def test_revoke_closes_with_4003_and_the_key_is_unknown_then(gateway: ThreadedGateway) -> None:
    url, key = multinode_url(gateway), Key()
    async with KeyedNode(url, "LabPC", key) as node, gateway.http() as http:
        await admit(gateway, node)
        call = asyncio.create_task(invoke(http, "LabPC"))
        await node.recv("node.invoke.request")
        await http.post(f"/nodes/devices/{node.node_id}/revoke")
        assert error_of(await call) == (502, "revoked")
        assert await node.refusal() == ("revoked", 4003)
    async with KeyedNode(url, "LabPC", key) as again:
        await again.code()


@sync
async def test_pause_keeps_the_socket_and_takes_its_voice(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        await http.post(f"/nodes/devices/{node.node_id}/status", json={"status": "paused"})
        assert error_of(await invoke(http, "LabPC")) == (409, "paused")
        for kind in ("node.list", "node.invoke.request", "chat.send", "chat.watch", "chat.abort"):
            await node.send({"type": kind, "id": 7, "run_id": "x", "message": "hi"})
            error = await node.recv("error")
            assert (error["id"], error["code"]) == (7, "paused"), kind
        await http.post(f"/nodes/devices/{node.node_id}/status", json={"status": "active"})
        # What it missed comes as a whole.
        assert [each["status"] for each in (await node.recv("node.list"))["nodes"]] == ["connected"]
        await node.send({"type": "node.list", "id": 8})
        assert (await node.recv("node.list"))["id"] == 8


@sync
async def test_a_second_connection_of_the_key_replaces_the_first(gateway: ThreadedGateway) -> None:
    url, key = multinode_url(gateway), Key()
    async with KeyedNode(url, "LabPC", key) as first:
        await admit(gateway, first)
        async with KeyedNode(url, "LabPC", key) as second, gateway.http() as http:
            await second.joined()
            assert await first.refusal() == ("replaced", 4001)
            task = answering(second)
            assert (await invoke(http, "LabPC", params={"a": 1})).json()["result"] == {"a": 1}
            task.cancel()


@sync
async def test_progress_failure_and_cancel_of_a_call(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway), features=["cancel", "progress"]) as node, gateway.http() as http:
        await admit(gateway, node)
        call = asyncio.create_task(invoke(http, "LabPC", params={"a": 1}, timeout=5))
        frame = await node.recv("node.invoke.request")
        assert (frame["node_id"], frame["command"], frame["params"]) == (node.node_id, "echo", {"a": 1})
        assert 0 < frame["timeout_ms"] <= 5000
        await node.send({"type": "node.invoke.progress", "id": frame["id"], "seq": 0, "fraction": 0.5})
        error = {"code": "too_hot", "message": "It is too hot."}
        await node.send({"type": "node.invoke.result", "id": frame["id"], "ok": False, "error": error})
        answer = (await call).json()
        assert (answer["success"], answer["error"]) == (False, "It is too hot.")
        call = asyncio.create_task(invoke(http, "LabPC", timeout=0.2))
        frame = await node.recv("node.invoke.request")
        assert error_of(await call) == (504, "deadline")
        assert (await node.recv("node.invoke.cancel"))["id"] == frame["id"]


@pytest.mark.parametrize("agent", [True, False, "yes"])
@sync
async def test_an_app_node_says_whether_it_is_an_agent_and_its_events_reach_the_run(
    gateway: ThreadedGateway, agent: Any
) -> None:
    async with KeyedNode(multinode_url(gateway), agent=agent) as node:
        await admit(gateway, node)
        session = gateway.service.gateway.registry.by_id(node.node_id)
        assert session is not None
        assert session.runs_chats is (agent is True)
        taken: list[tuple[dict[str, Any], int]] = []
        session.executing["run-1"] = lambda frame, size: taken.append((frame, size))
        event = {"type": "chat.event", "run_id": "run-1", "seq": 0, "event": {"type": "RUN_STARTED"}}
        await node.send({**event, "run_id": "another"})
        await node.send(event)
        await until(lambda: taken)
        assert taken[0][0] == event
        assert len(taken) == 1
