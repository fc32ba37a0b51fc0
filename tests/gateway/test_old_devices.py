"""Devices that know only Suzent's frames get nothing else, and nothing that would make them stop for good."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import websockets
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

KNOWN = {
    "pending": {"pairing_code", "message"},
    "connected": {"node_id", "device_token"},
    "invoke": {"request_id", "command", "params"},
    "ping": set(),
}


class StrictDevice(BareDevice):
    """Takes only Suzent's frames and keeps all it got."""

    max_size: int | None = None

    def __init__(self, *arguments: Any, **connect: Any) -> None:
        super().__init__(*arguments, **connect)
        self.seen: list[dict[str, Any]] = []

    async def __aenter__(self) -> StrictDevice:
        self.ws = await websockets.connect(self.url, compression=None, max_size=self.max_size, ping_interval=None)
        await self.send(self.hello)
        return self

    async def recv(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            while True:
                frame: dict[str, Any] = json.loads(await self.ws.recv())
                self.seen.append(frame)
                assert frame["type"] in KNOWN, frame
                assert KNOWN[frame["type"]] <= set(frame), frame
                if kind in (None, frame["type"]):
                    return frame


class CappedDevice(StrictDevice):
    """Closes on frames above 1 MiB, as `websockets` does by default."""

    max_size = 2**20


@sync
async def test_a_whole_life_holds_only_known_frames(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"ping_interval": 0.1, "ping_timeout": 0.5})
    async with StrictDevice(gateway.node_url, "Old") as device, gateway.http() as http:
        await gateway.pair(device)
        # A deadline: a device that does not know `cancel` is not sent one.
        assert error_of(await invoke(http, "Old", timeout=0.1)) == (504, "deadline")
        # A caller that hangs up: likewise.
        hasty = asyncio.create_task(invoke(http, "Old"))
        await device.recv("invoke")
        await device.recv("invoke")
        hasty.cancel()
        # New commands and updates are not its business.
        await device.send({"type": "update", "capabilities": [{"name": "echo"}, {"name": "new"}]})
        await device.recv("ping")
        await device.recv("ping")
        assert [frame["type"] for frame in device.seen if frame["type"] != "ping"] == [
            "pending",
            "connected",
            "invoke",
            "invoke",
        ]
        [node] = (await http.get("/nodes")).json()["nodes"]
        assert [each["name"] for each in node["capabilities"]] == ["echo"]
        assert node["features"] == []


@sync
async def test_params_over_1_mib_are_refused_unsent_and_the_device_stays(gateway: ThreadedGateway) -> None:
    async with CappedDevice(gateway.node_url, "Capped") as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await invoke(http, "Capped", params={"photo": "x" * 2**20})
        assert error_of(answer) == (413, "too_large")
        call = asyncio.create_task(invoke(http, "Capped", params={"photo": "x" * (2**20 - 1000)}))
        frame = await device.recv("invoke")
        assert len(frame["params"]["photo"]) == 2**20 - 1000
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": 1})
        assert (await call).json()["result"] == 1


@sync
async def test_a_device_with_features_gets_more_than_1_mib(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Large", features=[]) as device, gateway.http() as http:
        await gateway.pair(device)
        assert device.connected["limits"] == {"max_frame_bytes": 26214400, "max_params_bytes": 26214400}
        device.answer(lambda command, params: len(params["photo"]))
        assert (await invoke(http, "Large", params={"photo": "x" * 2**21})).json()["result"] == 2**21


@sync
async def test_a_late_json_pong_is_no_sign_of_death(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"ping_interval": 0.4, "ping_timeout": 0.4})
    async with StrictDevice(gateway.node_url, "Busy") as device, gateway.http() as http:
        await gateway.pair(device)
        for _ in range(5):  # several intervals without one JSON pong; the WebSocket's own pongs go on
            await device.recv("ping")
        assert (await http.get("/nodes")).json()["count"] == 1
        before = (await http.get("/nodes/Busy")).json()["last_seen"]
        await device.send({"type": "pong"})
        session = gateway.service.gateway.registry.by_id(device.node_id)
        await until(lambda: session.last_seen > before)
        device.answer()
        assert (await invoke(http, "Busy", params={"a": 1})).json()["result"] == {"a": 1}


@sync
async def test_refusals_that_may_be_retried_close_with_1013_and_without_a_frame(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 0.1, "pending_total": 1})
    async with StrictDevice(gateway.node_url, "First") as first:
        await first.code()
        async with StrictDevice(gateway.node_url, "Second") as second:
            assert (await second.closed())[0] == 1013
        code, _ = await first.closed()
        assert code == 1013


@sync
async def test_a_device_with_features_is_told_why(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 0.1})
    async with BareDevice(gateway.node_url, "New", features=[]) as device:
        await device.code()
        error = await device.recv("error")
        assert (error["code"], error["retryable"]) == ("pairing_expired", True)
        assert (await device.closed())[0] == 1013


@sync
async def test_after_connected_an_old_device_gets_no_error_frame(gateway: ThreadedGateway) -> None:
    async with StrictDevice(gateway.node_url, "Old") as device, gateway.http() as http:
        await gateway.pair(device)
        assert (await http.post(f"/nodes/devices/{device.node_id}/revoke")).status_code == 200
        received = []
        try:
            async with asyncio.timeout(5):
                while True:
                    received.append(json.loads(await device.ws.recv())["type"])
        except websockets.ConnectionClosed as closed:
            assert closed.rcvd is not None
            assert closed.rcvd.code == 4003
        assert "error" not in received


@sync
async def test_a_stopping_gateway_closes_with_1001_once_nobody_can_reconnect(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway()
    async with StrictDevice(gateway.node_url, "Live") as live, StrictDevice(gateway.node_url, "Waits") as waits:
        await gateway.pair(live)
        await waits.code()
        stopping = asyncio.create_task(asyncio.to_thread(gateway.stop))
        for device in (live, waits):
            assert (await device.closed())[0] == 1001
        try:
            await websockets.connect(gateway.node_url)
            raise AssertionError("it still listens")
        except OSError:
            pass
        await stopping
