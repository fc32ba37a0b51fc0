"""One deadline per call: the caller's own, the one in the frame, and the one in the timer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


@pytest.mark.parametrize(
    ("timeout", "armed"), [(None, 30.0), (125, 125.0), (0.5, 0.5), (10_000, 600.0), (1e308, 600.0)]
)
@sync
async def test_the_callers_timeout_is_the_one_armed_and_sent(
    gateway: ThreadedGateway, timeout: Any, armed: float
) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(invoke(http, "MyPhone", timeout=timeout))
        frame = await device.recv("invoke")
        assert armed - 0.2 < frame["timeout"] <= armed
        session = gateway.service.gateway.registry.by_id(device.node_id)
        [(started, due)] = gateway.call(lambda: [(call.started, call.timer.when()) for call in session.calls.values()])
        assert due - started == pytest.approx(armed)
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": None})
        assert (await call).json() == {"success": True, "result": None, "error": None}


@pytest.mark.parametrize("raw", ["0", "-1", "-0.0", "true", "false", '"5"', "[]", "{}", "1e999", "-1e999", '"NaN"'])
@sync
async def test_timeouts_that_are_none_are_refused(gateway: ThreadedGateway, raw: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await http.post("/nodes/MyPhone/invoke", content=f'{{"command":"echo","timeout":{raw}}}')
        assert error_of(answer) in ((422, "invalid_timeout"), (422, "invalid_request"))
        assert "invalid_timeout" in answer.text or "out of range" in answer.text


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity"])
@sync
async def test_timeouts_that_are_no_json_are_bad_json(gateway: ThreadedGateway, raw: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await http.post("/nodes/MyPhone/invoke", content=f'{{"command":"echo","timeout":{raw}}}')
        assert error_of(answer) == (400, "bad_json")


@sync
async def test_a_deadline_is_an_answer_of_its_own(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await invoke(http, "MyPhone", timeout=0.05)
        assert error_of(answer) == (504, "deadline")
        assert answer.json()["retryable"] is True
        assert "0.05 s" in answer.json()["error"]


@sync
async def test_a_call_that_waits_its_turn_has_no_more_time_than_the_caller_gave(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"calls_in_flight": 1})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        first = asyncio.create_task(invoke(http, "MyPhone", timeout=20))
        blocking = await device.recv("invoke")
        second = asyncio.create_task(invoke(http, "MyPhone", timeout=0.1))
        third = asyncio.create_task(invoke(http, "MyPhone", timeout=20))
        assert error_of(await second) == (504, "deadline")
        await device.send({"type": "result", "request_id": blocking["request_id"], "success": True, "result": 1})
        await first
        # The second was never sent, the third now has less than it started with.
        frame = await device.recv("invoke")
        assert frame["timeout"] < 19.95
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": 3})
        assert (await third).json()["result"] == 3


@sync
async def test_a_slow_call_delays_no_other(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        slow = [asyncio.create_task(invoke(http, "MyPhone", params={"slow": True})) for _ in range(4)]
        held = [(await device.recv("invoke"))["request_id"] for _ in slow]
        quick = asyncio.create_task(invoke(http, "MyPhone"))
        frame = await device.recv("invoke")
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": "quick"})
        assert (await asyncio.wait_for(quick, 5)).json()["result"] == "quick"
        for number in reversed(range(4)):  # answers out of order find their callers
            await device.send({"type": "result", "request_id": held[number], "success": True, "result": number})
        results = {(await call).json()["result"] for call in slow}
        assert results == {0, 1, 2, 3}


@pytest.mark.parametrize("features", [["cancel"], ["cancel", "progress"]])
@sync
async def test_a_device_hears_that_a_deadline_passed(gateway: ThreadedGateway, features: list[str]) -> None:
    async with BareDevice(gateway.node_url, features=features) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(invoke(http, "MyPhone", timeout=0.1))
        frame = await device.recv("invoke")
        cancel = await device.recv("cancel")
        assert (cancel["request_id"], cancel["reason"]) == (frame["request_id"], "deadline")
        assert error_of(await call) == (504, "deadline")


@sync
async def test_a_caller_that_hangs_up_cancels_the_call(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, features=["cancel"]) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(invoke(http, "MyPhone"))
        frame = await device.recv("invoke")
        call.cancel()
        cancel = await device.recv("cancel")
        assert (cancel["request_id"], cancel["reason"]) == (frame["request_id"], "cancelled")
        session = gateway.service.gateway.registry.by_id(device.node_id)
        await until(lambda: not session.calls)
        entries = (await http.get("/audit")).json()["entries"]
        assert [each["outcome"] for each in entries if each["action"] == "invoke"] == ["cancelled"]


@sync
async def test_a_node_that_leaves_fails_its_calls_at_once(gateway: ThreadedGateway) -> None:
    for leave in ("close", "abort"):
        async with BareDevice(gateway.node_url, leave) as device, gateway.http() as http:
            await gateway.pair(device)
            calls = [asyncio.create_task(invoke(http, leave)) for _ in range(3)]
            for _ in calls:
                await device.recv("invoke")
            if leave == "close":
                await device.ws.close()
            else:
                device.ws.transport.abort()
            for call in calls:
                assert error_of(await asyncio.wait_for(call, 1)) == (502, "node_disconnected")
            assert error_of(await invoke(http, leave)) == (404, "node_not_found")
