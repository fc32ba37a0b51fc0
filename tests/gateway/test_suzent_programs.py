"""Programs written for Suzent work as they are."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
import websockets
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

SCRIPT = """
import os
import requests

base = os.environ["SUZENT_BASE_URL"]
nodes = requests.get(f"{base}/nodes").json()["nodes"]
node = next(n for n in nodes if n["display_name"] == "MyPhone")
described = requests.get(f"{base}/nodes/{node['node_id']}").json()
assert described["capabilities"] == node["capabilities"], described
answer = requests.post(
    f"{base}/nodes/{node['node_id']}/invoke",
    json={"command": "speaker.speak", "params": {"text": "hello"}, "timeout": 10},
)
answer.raise_for_status()
print(answer.json()["result"]["said"])
"""

HTTPX_SCRIPT = """
import os
import httpx

base = os.environ["SUZENT_BASE_URL"]
print(httpx.get(f"{base}/nodes").json()["count"], httpx.get(f"{base}/nodes/MyPhone").status_code)
"""


async def run_script(script: str) -> str:
    def run() -> str:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return await asyncio.to_thread(run)


@pytest.mark.parametrize(("script", "output"), [(SCRIPT, "hello"), (HTTPX_SCRIPT, "1 200")])
@sync
async def test_a_script_needs_nothing_but_the_environment(gateway: ThreadedGateway, script: str, output: str) -> None:
    speak = {"name": "speaker.speak", "description": "Say it.", "params_schema": {"text": "str"}}
    async with BareDevice(gateway.node_url, "MyPhone", [speak]) as device:
        await gateway.pair(device)
        device.answer(lambda command, params: {"said": params["text"]})
        assert await run_script(script) == output


@sync
async def test_a_websockets_device_as_documented(gateway: ThreadedGateway) -> None:
    async with websockets.connect(gateway.node_url) as ws:
        await ws.send(
            json.dumps(
                {
                    "type": "connect",
                    "display_name": "Sensor",
                    "platform": "linux",
                    "capabilities": [
                        {"name": "read", "description": "Read it.", "params_schema": {"channel": "int"}},
                    ],
                    "device_token": "",
                }
            )
        )
        message = json.loads(await ws.recv())
        assert (message["type"], len(message["pairing_code"])) == ("pending", 6)
        await gateway.approve(message["pairing_code"])
        message = json.loads(await ws.recv())
        assert message["type"] == "connected"
        assert message["device_token"].startswith("szt_")
        node_id, token = message["node_id"], message["device_token"]

        async with gateway.http() as http:
            call = asyncio.create_task(
                http.post(f"/nodes/{node_id}/invoke", json={"command": "read", "params": {"channel": "5"}})
            )
            message = json.loads(await ws.recv())
            assert (message["type"], message["command"], message["params"]) == ("invoke", "read", {"channel": 5})
            await ws.send(json.dumps({"type": "pong"}))
            await ws.send(
                json.dumps(
                    {"type": "result", "request_id": message["request_id"], "success": True, "result": {"value": 1.5}}
                )
            )
            assert (await call).json() == {"success": True, "result": {"value": 1.5}, "error": None}

    async with BareDevice(gateway.node_url, "Sensor", device_token=token) as again:
        joined = await again.joined()
        assert (joined["node_id"], joined["device_token"]) == (node_id, "")


@sync
async def test_a_failing_capability_is_an_answer(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(http.post("/nodes/MyPhone/invoke", json={"command": "echo"}))
        frame = await device.recv("invoke")
        await device.send({"type": "result", "request_id": frame["request_id"], "success": False, "error": "no paper"})
        answer = await call
        assert (answer.status_code, answer.json()) == (200, {"success": False, "result": None, "error": "no paper"})


@pytest.mark.parametrize("schema", ["free text", 5, None, [1, 2], {"a": {"b": None}}, {"a": 5, "b": None, "c": []}])
@sync
async def test_params_schema_of_any_kind_is_taken(gateway: ThreadedGateway, schema: object) -> None:
    async with (
        BareDevice(gateway.node_url, "Odd", [{"name": "go", "params_schema": schema}]) as device,
        gateway.http() as http,
    ):
        await gateway.pair(device)
        device.answer()
        answer = await http.post("/nodes/odd/invoke", json={"command": "go", "params": {"a": "x", "z": [1]}})
        assert answer.json()["result"] == {"a": "x", "z": [1]}
        [node] = (await http.get("/nodes")).json()["nodes"]
        assert all(isinstance(value, str) for value in node["capabilities"][0]["params_schema"].values())


@sync
async def test_events_and_unknown_frames_are_harmless(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        for frame in (
            {"type": "event", "event": "motion", "data": {}},
            {"type": "telemetry", "x": 1},
            {"no": "type"},
            {"type": "result", "request_id": "never-asked", "success": True},
        ):
            await device.send(frame)
        device.answer()
        answer = await http.post("/nodes/MyPhone/invoke", json={"command": "echo", "params": {"still": "here"}})
        assert answer.json()["result"] == {"still": "here"}
