"""Revoking and pausing take effect at once, on sockets, calls and tokens alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import websockets
from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


@sync
async def test_revoke_closes_the_socket_and_fails_the_calls(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        calls = [asyncio.create_task(invoke(http, "MyPhone")) for _ in range(3)]
        for _ in calls:
            await device.recv("invoke")
        answer = await http.post(f"/nodes/devices/{device.node_id}/revoke")
        assert answer.json() == {"success": True, "message": "Revoked MyPhone.", "device_id": device.node_id}
        for call in calls:
            assert error_of(await asyncio.wait_for(call, 1)) == (502, "revoked")
        code, reason = await device.closed()
        assert (code, reason) == (4003, "MyPhone was revoked.")
        assert error_of(await invoke(http, "MyPhone")) == (404, "node_not_found")
        assert (await http.get("/nodes/devices")).json() == {"devices": [], "count": 0}
        assert error_of(await http.post(f"/nodes/devices/{device.node_id}/revoke")) == (404, "device_unknown")
    async with BareDevice(gateway.node_url, device_token=device.token) as again:
        await again.code()


@sync
async def test_calls_that_wait_their_turn_are_revoked_too(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"calls_in_flight": 1})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        calls = [asyncio.create_task(invoke(http, "MyPhone")) for _ in range(3)]
        await device.recv("invoke")
        session = gateway.service.gateway.registry.by_id(device.node_id)
        await until(lambda: len(session._waiting) == 2)
        await http.post(f"/nodes/devices/{device.node_id}/revoke")
        for call in calls:
            assert error_of(await asyncio.wait_for(call, 1)) == (502, "revoked")


@sync
async def test_a_device_with_features_is_told_that_it_was_revoked(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, features=[]) as device, gateway.http() as http:
        await gateway.pair(device)
        await http.post(f"/nodes/devices/{device.node_id}/revoke")
        assert (await device.recv("error"))["code"] == "revoked"
        assert (await device.closed())[0] == 4003


@sync
async def test_a_paused_device_stays_connected_and_is_not_called(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        url = f"/nodes/devices/{device.node_id}/status"
        assert (await http.post(url, json={"status": "paused"})).json() == {"success": True, "status": "paused"}
        [node] = (await http.get("/nodes")).json()["nodes"]
        assert node["status"] == "paused"
        assert error_of(await invoke(http, "MyPhone")) == (409, "paused")
        [listed] = (await http.get("/nodes/devices")).json()["devices"]
        assert (listed["status"], listed["connected"]) == ("paused", True)
        assert (await http.post(url, json={"status": "active"})).json() == {"success": True, "status": "active"}
        device.answer()
        assert (await invoke(http, "MyPhone", params={"a": 1})).json()["result"] == {"a": 1}


@sync
async def test_a_paused_device_may_come_back_and_is_still_paused(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url) as device:
            await gateway.pair(device)
            await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "paused"})
        async with BareDevice(gateway.node_url, device_token=device.token) as again:
            assert (await again.joined())["node_id"] == device.node_id
            assert error_of(await invoke(http, "MyPhone")) == (409, "paused")


@pytest.mark.parametrize("body", [{}, {"status": "off"}, {"status": None}, {"status": 1}, {"status": "revoked"}])
@sync
async def test_only_two_statuses_can_be_set(gateway: ThreadedGateway, body: Any) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await http.post(f"/nodes/devices/{device.node_id}/status", json=body)) == (
            422,
            "invalid_request",
        )


@sync
async def test_a_host_token_dies_with_pause_and_revoke(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        made = (await http.post("/nodes/host-token", json={"name": "backup script"})).json()
        assert made["scope"] == "full"
        mine = {"headers": {"Authorization": f"Bearer {made['token']}"}}
        async with gateway.http(**mine) as host:
            assert (await host.get("/nodes")).status_code == 200
            url = f"/nodes/devices/{made['device_id']}"
            await http.post(f"{url}/status", json={"status": "paused"})
            assert error_of(await host.get("/nodes")) == (401, "unauthorized")
            await http.post(f"{url}/status", json={"status": "active"})
            assert (await host.get("/nodes")).status_code == 200
            await http.post(f"{url}/revoke")
            assert error_of(await host.get("/nodes")) == (401, "unauthorized")


@pytest.mark.parametrize("verb", ["revoke", "pause"])
@sync
async def test_sockets_a_token_opened_close_with_it(gateway: ThreadedGateway, verb: str) -> None:
    async with BareDevice(gateway.node_url, features=["cancel"]) as device, gateway.http() as http:
        await gateway.pair(device)
        made = (await http.post("/nodes/host-token", json={})).json()
        async with BareClient(gateway, made["token"]) as client, BareClient(gateway) as other:
            await client.send(type="invoke", id=1, node="MyPhone", command="echo")
            frame = await device.recv("invoke")
            if verb == "revoke":
                await http.post(f"/nodes/devices/{made['device_id']}/revoke")
            else:
                await http.post(f"/nodes/devices/{made['device_id']}/status", json={"status": "paused"})
            assert (await client.closed())[0] == 4003
            assert (await device.recv("cancel"))["request_id"] == frame["request_id"]
            device.answer()
            await other.send(type="invoke", id=1, node="MyPhone", command="echo")
            assert (await other.recv("result"))["success"] is True
        with pytest.raises(websockets.InvalidStatus) as refused:
            await BareClient(gateway, made["token"]).__aenter__()
        assert refused.value.response.status_code == 401
