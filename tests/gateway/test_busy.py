"""A node works on 64 calls, 256 wait, and who comes after is told so. Memory stays bounded whatever the device does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


@sync
async def test_64_in_flight_256_waiting_then_busy(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        for number in range(321):
            await client.send(type="invoke", id=number, node="MyPhone", command="echo", params={"n": number})
        busy = await client.recv("result")
        assert (busy["id"], busy["code"], busy["status"], busy["retryable"]) == (320, "node_busy", 429, True)
        session = gateway.service.gateway.registry.by_id(device.node_id)
        assert (len(session.calls), len(session._waiting)) == (64, 256)
        # All that waited get their turn, in order.
        seen = []
        for _ in range(320):
            frame = await device.recv("invoke")
            seen.append(frame["params"]["n"])
            await device.send(
                {"type": "result", "request_id": frame["request_id"], "success": True, "result": frame["params"]["n"]}
            )
        assert seen == list(range(320))
        results = [await client.recv("result") for _ in range(320)]
        assert all(each["result"] == each["id"] for each in results)
        assert (len(session.calls), len(session._waiting), session._waiting_bytes) == (0, 0, 0)


@sync
async def test_busy_over_http(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"calls_in_flight": 1, "calls_waiting": 1})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        calls = [asyncio.create_task(invoke(http, "MyPhone")) for _ in range(2)]
        session = gateway.service.gateway.registry.by_id(device.node_id)
        await until(lambda: len(session._waiting) == 1)
        assert error_of(await invoke(http, "MyPhone")) == (429, "node_busy")
        device.answer()
        assert [(await call).status_code for call in calls] == [200, 200]


@sync
async def test_a_device_that_stops_reading_costs_its_callers_their_deadline_and_us_bounded_memory(
    make_gateway: Any,
) -> None:
    mib = 2**20
    limits = {"send_buffer_bytes": 2 * mib, "waiting_bytes": 3 * mib}
    gateway: ThreadedGateway = make_gateway(limits=limits)
    async with (
        BareDevice(gateway.node_url, "Frozen", features=["cancel"]) as frozen,
        BareDevice(gateway.node_url, "Lively") as lively,
        gateway.http() as http,
    ):
        await gateway.pair(frozen)
        await gateway.pair(lively)
        lively.answer()
        frozen.ws.transport.pause_reading()
        session = gateway.service.gateway.registry.by_id(frozen.node_id)
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, session._outbox.unsent + session._waiting_bytes)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        calls = [asyncio.create_task(invoke(http, "Frozen", params={"photo": "x" * mib}, timeout=1)) for _ in range(40)]
        # Another device's calls go through meanwhile.
        assert (await asyncio.wait_for(invoke(http, "Lively", params={"a": 1}), 10)).json()["result"] == {"a": 1}
        answers = await asyncio.wait_for(asyncio.gather(*calls), 20)
        watching.cancel()
        outcomes = Counter(error_of(answer) for answer in answers)
        assert set(outcomes) == {(504, "deadline"), (429, "node_busy")}
        assert most <= 5 * mib + 4096
        assert most > mib  # it was put to the test
        assert (session._waiting_bytes, len(session._waiting), len(session.calls)) == (0, 0, 0)
        # It reads on: nothing is lost for good.
        frozen.ws.transport.resume_reading()
        frozen.answer(lambda command, params: "back")
        assert (await invoke(http, "Frozen")).json()["result"] == "back"
