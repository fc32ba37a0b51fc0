"""Who is silent after a ping is gone; who is merely slow is not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import websockets
from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

QUICK = {"ping_interval": 0.2, "ping_timeout": 0.3}

DEVICE = """
import asyncio, json, sys, websockets

async def main():
    async with websockets.connect(sys.argv[1], compression=None) as ws:
        await ws.send(json.dumps({"type": "connect", "display_name": "Frozen", "device_token": sys.argv[2],
                                  "capabilities": [{"name": "echo"}]}))
        async for text in ws:
            print(json.loads(text)["type"], flush=True)

asyncio.run(main())
"""


@sync
async def test_a_frozen_process_is_removed_and_its_calls_fail(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    async with BareDevice(gateway.node_url, "Frozen") as device:
        await gateway.pair(device)
    process = subprocess.Popen([sys.executable, "-c", DEVICE, gateway.node_url, device.token], stdout=subprocess.PIPE)
    hub = gateway.service.gateway
    try:
        await until(lambda: len(hub.registry) == 1)
        async with gateway.http() as http:
            session = hub.registry.by_id(device.node_id)
            await until(lambda: session.latency_ms is not None)  # it lives: pongs come
            call = asyncio.create_task(invoke(http, "Frozen"))
            await until(lambda: session.calls)
            os.kill(process.pid, signal.SIGSTOP)
            assert error_of(await asyncio.wait_for(call, 5)) == (502, "node_disconnected")
            assert (await http.get("/nodes")).json()["count"] == 0
            assert (await http.get("/nodes/devices")).json()["devices"][0]["connected"] is False
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("state", ["connected", "waiting"])
@sync
async def test_a_socket_that_neither_reads_nor_pongs_is_dropped(make_gateway: Any, state: str) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    hub = gateway.service.gateway
    async with BareDevice(gateway.node_url) as device:
        if state == "connected":
            await gateway.pair(device)
        else:
            await device.code()
        device.ws.transport.pause_reading()
        await until(lambda: (len(hub.registry), len(hub.pairing), len(hub.sockets)) == (0, 0, 0), 5)
        device.ws.transport.abort()


@sync
async def test_a_device_that_stopped_reading_with_megabytes_on_the_way_is_dropped_too(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"ping_interval": 2.0, "ping_timeout": 0.5})
    hub = gateway.service.gateway
    async with BareDevice(gateway.node_url, features=[]) as device, gateway.http() as http:
        await gateway.pair(device)
        device.ws.transport.pause_reading()
        calls = [
            asyncio.create_task(invoke(http, "MyPhone", params={"x": "x" * 8 * 2**20}, timeout=30)) for _ in range(3)
        ]
        session = hub.registry.by_id(device.node_id)
        await until(lambda: len(session.calls) == 3)
        for call in calls:
            assert error_of(await asyncio.wait_for(call, 10)) == (502, "node_disconnected")
        assert len(hub.registry) == 0
        device.ws.transport.abort()


@sync
async def test_silent_clients_are_dropped_as_well(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    async with BareClient(gateway) as client:
        client.ws.transport.pause_reading()
        await until(lambda: not gateway.service.gateway._clients, 5)
        client.ws.transport.abort()


@sync
async def test_a_device_that_sends_slowly_within_one_frame_is_alive(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    hub = gateway.service.gateway
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        session = hub.registry.by_id(device.node_id)
        call = asyncio.create_task(invoke(http, "MyPhone", timeout=30))
        frame = await device.recv("invoke")
        payload = json.dumps(
            {"type": "result", "request_id": frame["request_id"], "success": True, "result": "y" * 4000}
        )
        # One text frame by hand, masked with zeros; a busy writer can't put a pong between its bytes.
        head = bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4)
        transport = device.ws.transport
        transport.pause_reading()
        started, sent = asyncio.get_running_loop().time(), 0
        transport.write(head)
        while asyncio.get_running_loop().time() - started <= 3 * (0.2 + 0.3):
            before = session.transport.received_at
            transport.write(payload[sent : sent + 1].encode())
            sent += 1
            await until(lambda before=before: session.transport.received_at > before)
            assert session.alive
        assert sent < len(payload)
        transport.write(payload[sent:].encode())
        assert (await asyncio.wait_for(call, 5)).json()["result"] == "y" * 4000
        transport.resume_reading()


@sync
async def test_a_loop_blocked_for_4_s_lets_a_handshake_through_and_kills_no_live_node(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(
        limits={"ping_interval": 0.5, "ping_timeout": 1.0, "handshake_timeout": 1.0}
    )
    async with BareDevice(gateway.node_url, "Live") as live, gateway.http() as http:
        await gateway.pair(live)
        live.answer()
        opened = await websockets.connect(gateway.node_url, compression=None)  # has said nothing yet
        began = threading.Event()

        def block() -> None:
            began.set()
            time.sleep(4)

        blocked = asyncio.create_task(asyncio.to_thread(gateway.call, block))
        await until(began.is_set)
        await opened.send(json.dumps({"type": "connect", "display_name": "During", "capabilities": []}))

        async def late() -> BareDevice:
            device = BareDevice(gateway.node_url, "Meanwhile")
            await device.__aenter__()
            await device.code()
            return device

        meanwhile = asyncio.create_task(late())
        await blocked
        async with asyncio.timeout(5):
            assert json.loads(await opened.recv())["type"] == "pending"
            device = await meanwhile
        assert (await http.get("/nodes/pending")).json()["count"] == 2
        assert (await invoke(http, "Live", params={"a": 1})).json()["result"] == {"a": 1}
        # And it is still there a ping and its timeout later.
        session = gateway.service.gateway.registry.by_id(live.node_id)
        pinged = session.latency_ms
        await until(lambda: session.latency_ms != pinged)
        assert (await invoke(http, "Live", params={"a": 2})).json()["result"] == {"a": 2}
        await device.__aexit__()
        await opened.close()
