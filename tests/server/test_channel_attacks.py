"""Callers who use what they were given for more: readers that stay, peers that take every turn."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from ag_ui.core import BaseEvent
from support.calls import error_of
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync, until
from support.turns import Gate, Reader, ask, kinds, register, say

from suzent_jupyter.protocol.agents import Turn

INBOUND = "/channels/suzent/inbound"


@pytest.mark.parametrize("how", ["revoke", "pause"])
@sync
async def test_a_reader_goes_with_its_token(gateway: ThreadedGateway, how: str) -> None:
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http:
        made = (await http.post("/nodes/host-token", json={"name": "other program"})).json()
        [device] = (await http.get("/nodes/devices")).json()["devices"]
        async with Reader(http, "/chat", {"message": "x"}) as owner:
            await owner.next("TEXT_MESSAGE_CONTENT")
            headers = {"Authorization": f"Bearer {made['token']}", "Last-Event-ID": owner.ids[0]}
            async with Reader(http, "/chat", {}, headers=headers) as reader:
                await reader.next("TEXT_MESSAGE_CONTENT")
                if how == "revoke":
                    await http.post(f"/nodes/devices/{device['device_id']}/revoke")
                else:
                    await http.post(f"/nodes/devices/{device['device_id']}/status", json={"status": "paused"})
                [last] = await reader.rest()
                assert (last["type"], last["code"]) == ("RUN_ERROR", "revoked")
            gate.open()
            assert kinds(await owner.rest())[-1] == "RUN_FINISHED"


@sync
async def test_a_peer_takes_its_share_of_the_turns_and_no_more(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"runs_in_flight": 4, "runs_per_peer": 2})
    gate = Gate(gateway)
    register(gateway, gate)
    _, greedy = await grant(gateway, "greedy")
    _, other = await grant(gateway, "other")
    async with gateway.http() as http:

        def turn(chat: str, headers: dict[str, str]) -> Reader:
            return Reader(http, INBOUND, {"content": "x", "chat_id": chat}, headers=headers)

        async with turn("a", greedy) as one, turn("b", greedy) as two:
            await one.next()
            await two.next()
            refused = await http.post(INBOUND, json={"content": "x", "chat_id": "c"}, headers=greedy)
            assert error_of(refused) == (429, "too_many_turns")
            async with turn("a", other) as three:
                await three.next()
                refused = await http.post(INBOUND, json={"content": "x", "chat_id": "b"}, headers=other)
                assert error_of(refused) == (429, "too_many_turns")
                async with Reader(http, "/chat", {"message": "the user's"}) as user:
                    await user.next("TEXT_MESSAGE_CONTENT")
                    gate.open()
                    assert kinds(await user.rest())[-1] == "RUN_FINISHED"


@sync
async def test_who_stopped_a_turn_stands_in_the_audit_trail(gateway: ThreadedGateway) -> None:
    register(gateway, Gate(gateway))
    device_id, peer = await grant(gateway)
    async with gateway.http() as http, Reader(http, INBOUND, {"content": "x"}, headers=peer) as reader:
        await reader.next("TEXT_MESSAGE_CONTENT")
        await http.post("/chat/stop", json={"chat_id": f"suzent:{device_id}"})
        await reader.rest()
        rows = (await http.get("/audit")).json()["entries"]
        [row] = [row for row in rows if row["action"] == "turn.stop"]
        assert row["node_id"] == device_id and row["actor"] != f"token:{device_id}"


@sync
async def test_calls_end_with_the_token_they_came_with(gateway: ThreadedGateway) -> None:
    device_id, peer = await grant(gateway)
    async with gateway.http() as http, BareDevice(gateway.node_url, capabilities=[{"name": "sensor.watch"}]) as device:
        await gateway.pair(device)
        call = asyncio.create_task(http.post("/nodes/peer-invoke", json={"command": "sensor.watch"}, headers=peer))
        async with asyncio.timeout(10):
            while json.loads(await device.ws.recv())["type"] != "invoke":
                pass
            await http.post(f"/nodes/devices/{device_id}/revoke")
            assert error_of(await call) == (401, "unauthorized")


@sync
async def test_a_peer_neither_gets_nor_spoils_what_others_keyed(gateway: ThreadedGateway) -> None:
    _, peer = await grant(gateway)
    async with gateway.http() as http, BareDevice(gateway.node_url, capabilities=[{"name": "sensor.read"}]) as device:
        await gateway.pair(device)
        count = itertools.count()
        device.answer(lambda command, params: next(count))
        body = {"command": "sensor.read", "params": {}, "idempotency_key": "nightly"}
        theirs = (await http.post("/nodes/peer-invoke", json=body, headers=peer)).json()
        node = (await http.get("/nodes")).json()["nodes"][0]["node_id"]
        mine = (await http.post(f"/nodes/{node}/invoke", json=body)).json()
        assert (theirs["result"], mine["result"]) == (0, 1)


@sync
async def test_a_peer_reads_so_many_streams_at_once(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"streams_per_peer": 2})
    gate = Gate(gateway)
    register(gateway, gate)
    _, peer = await grant(gateway)
    async with gateway.http() as http, Reader(http, INBOUND, {"content": "x"}, headers=peer) as one:
        await one.next("TEXT_MESSAGE_CONTENT")
        resumed = {**peer, "Last-Event-ID": one.ids[0]}
        async with Reader(http, INBOUND, {}, headers=resumed) as two:
            await two.next("TEXT_MESSAGE_CONTENT")
            assert error_of(await http.post(INBOUND, json={}, headers=resumed)) == (429, "too_many_requests")
        gate.open()
        await one.rest()
        assert kinds(await rest_of(http, resumed))[-1] == "RUN_FINISHED"


async def rest_of(http: httpx.AsyncClient, headers: dict[str, str]) -> list[dict[str, Any]]:
    async with asyncio.timeout(10):
        while True:
            async with Reader(http, INBOUND, {}, headers=headers) as reader:
                if reader.response.status_code == 200:
                    return await reader.rest()
            await asyncio.sleep(0.02)  # the one that hung up may be counted still


@sync
async def test_a_devices_agent_is_for_those_who_may_drive_agents(gateway: ThreadedGateway) -> None:
    _, devices_only = await grant(gateway, covers="devices")
    async with gateway.http() as http, BareDevice(gateway.node_url, capabilities=[{"name": "agent.run"}]) as device:
        await gateway.pair(device)
        device.answer()
        body = {"command": "agent.run", "params": {"message": "x"}}
        answer = await http.post("/nodes/peer-invoke", json=body, headers=devices_only)
        assert error_of(answer) == (403, "not_granted")
        nodes = (await http.get("/nodes", headers=devices_only)).json()["nodes"]
        assert not [each for node in nodes for each in node["capabilities"]]


@sync
async def test_turns_under_way_take_only_so_much_memory_together(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_bytes": 40_000})
    full, small = asyncio.Event(), "x"

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        for event in say(*(["x" * 300] * 90 if turn.message == "large" else [small]))[:-1]:
            yield event
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(full.wait(), loop))
        for event in say("end", message="n"):
            yield event

    loop = asyncio.get_running_loop()
    register(gateway, script)
    limits = httpx.Limits(max_connections=None)
    async with gateway.http(limits=limits) as http:
        large = [asyncio.create_task(ask(http, "/chat", {"message": "large"})) for _ in range(40)]
        modest = asyncio.create_task(ask(http, "/chat", {"message": "small"}))
        runs = gateway.service.gateway.runs
        await until(lambda: any(task.done() for task in large))
        taken = sum(run.bytes for run in list(runs._running.values()) if not run.closing)
        full.set()
        ends = [(await task)[-1] for task in large]
        assert kinds(await modest)[-1] == "RUN_FINISHED"
    assert taken < 17 * 40_000
    assert {end.get("code") for end in ends} == {None, "turn_limit"}
