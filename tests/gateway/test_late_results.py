"""A result that comes after its deadline is written down, not lost, and never answers another call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


def result(frame: dict[str, Any], value: Any) -> dict[str, Any]:
    return {"type": "result", "request_id": frame["request_id"], "success": True, "result": value}


async def invokes(http: Any) -> list[dict[str, Any]]:
    entries = (await http.get("/audit")).json()["entries"]
    return [entry for entry in entries if entry["action"] == "invoke"]


@sync
async def test_a_late_result_is_audited_and_answers_nobody(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await invoke(http, "MyPhone", timeout=0.05)) == (504, "deadline")
        first = await device.recv("invoke")
        second = asyncio.create_task(invoke(http, "MyPhone"))
        frame = await device.recv("invoke")
        assert frame["request_id"] != first["request_id"]
        await device.send(result(first, "late"))
        await device.send(result(first, "twice"))
        await device.send(result(frame, "in time"))
        assert (await second).json()["result"] == "in time"
        entries = await invokes(http)
        assert [entry["outcome"] for entry in entries] == ["ok", "late", "deadline"]
        late = entries[1]
        assert (late["detail"]["late"], late["detail"]["success"], late["detail"]["result"]) == (True, True, '"late"')
        assert late["duration_ms"] >= 50
        assert (late["node"], late["command"], late["node_id"]) == ("MyPhone", "echo", device.node_id)


@sync
async def test_a_large_late_result_is_written_down_in_part(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        await invoke(http, "MyPhone", timeout=0.05)
        await device.send(result(await device.recv("invoke"), "é" * 100_000))
        late = await until_late(http)
        assert (len(late["detail"]["result"]) < 5000, late["detail"]["bytes"] > 100_000) == (True, True)


async def until_late(http: Any) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            for entry in await invokes(http):
                if entry["outcome"] == "late":
                    return dict(entry)


@sync
async def test_a_result_for_another_nodes_call_is_ignored(gateway: ThreadedGateway) -> None:
    async with (
        BareDevice(gateway.node_url, "Honest") as honest,
        BareDevice(gateway.node_url, "Liar") as liar,
        gateway.http() as http,
    ):
        await gateway.pair(honest)
        await gateway.pair(liar)
        call = asyncio.create_task(invoke(http, "Honest"))
        frame = await honest.recv("invoke")
        await liar.send(result(frame, "forged"))
        liar.answer(lambda command, params: "mine")
        assert (await invoke(http, "Liar")).json()["result"] == "mine"
        await honest.send(result(frame, "true"))
        assert (await call).json()["result"] == "true"


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
@sync
async def test_what_is_remembered_of_given_up_calls_is_bounded(make_gateway: Any, how: str) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"late_results": 4})
    hub = gateway.service.gateway
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        session = hub.registry.by_id(device.node_id)
        for number in range(10):
            if how == "deadline":
                await invoke(http, "MyPhone", timeout=0.02, idempotency_key=f"k{number}")
            else:
                call = asyncio.create_task(invoke(http, "MyPhone", idempotency_key=f"k{number}"))
                await device.recv("invoke")
                call.cancel()
                await until(lambda: not session.calls)
        assert len(session.late) <= 4
    await until(lambda: len(hub.registry) == 0)
