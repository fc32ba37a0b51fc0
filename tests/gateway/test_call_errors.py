"""Every refusal has a status, a code and a sentence; only an unknown node's says "not found"."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.settings import Settings


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", (400, "bad_json")),
        ("{", (400, "bad_json")),
        ('{"command": NaN}', (400, "bad_json")),
        ('{"command":"echo","params":{"a":NaN}}', (400, "bad_json")),
        ('{"command":"echo","params":{"a":"\\ud800"}}', (400, "bad_json")),
        (b'{"command":"echo","params":{"a":"\xff"}}', (400, "bad_json")),
        (b"\xef\xbb\xbf{}", (400, "bad_json")),
        ("[" * 100_000, (400, "bad_json")),
        ('{"command":"echo","params":%s}' % ('{"a":' * 5000 + "1" + "}" * 5000), (400, "bad_json")),
        ("{} x", (400, "bad_json")),
        ("[]", (422, "invalid_request")),
        ("null", (422, "invalid_request")),
        ('"echo"', (422, "invalid_request")),
        ("{}", (422, "invalid_request")),
        ('{"command": 5}', (422, "invalid_request")),
        ('{"command": ""}', (422, "invalid_request")),
        ('{"command": null}', (422, "invalid_request")),
        ('{"command": ["echo"]}', (422, "invalid_request")),
        ('{"command": "echo", "params": [1]}', (422, "invalid_request")),
        ('{"command": "echo", "params": "a=1"}', (422, "invalid_request")),
        ('{"command": "echo", "params": 5}', (422, "invalid_request")),
        ('{"command": "typed", "params": {"n": 1e999}}', (422, "invalid_request")),
    ],
)
@sync
async def test_bodies_that_can_not_be_used(gateway: ThreadedGateway, body: Any, expected: tuple[int, str]) -> None:
    capabilities = [{"name": "echo"}, {"name": "typed", "params_schema": {"n": "int"}}]
    async with BareDevice(gateway.node_url, capabilities=capabilities) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await http.post("/nodes/MyPhone/invoke", content=body)) == expected


@pytest.mark.parametrize("body", ['{"command":"echo"}', '{"command":"echo","params":null}', '{"command":"echo","x":1}'])
@sync
async def test_params_may_be_left_out(gateway: ThreadedGateway, body: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        assert (await http.post("/nodes/MyPhone/invoke", content=body)).json()["result"] == {}


@sync
async def test_who_and_what_is_unknown(gateway: ThreadedGateway) -> None:
    capabilities = [{"name": "camera.snap"}, {"name": "echo"}]
    async with BareDevice(gateway.node_url, capabilities=capabilities) as device, gateway.http() as http:
        await gateway.pair(device)
        for path in ("/nodes/Nobody", f"/nodes/{device.node_id[:3]}"):
            answer = await http.get(path)
            assert error_of(answer) == (404, "node_not_found")
            assert "not found" in answer.json()["error"]
        assert error_of(await invoke(http, "Nobody")) == (404, "node_not_found")
        answer = await invoke(http, "MyPhone", "camera.snip")
        assert error_of(answer) == (404, "unknown_command")
        assert answer.json()["commands"] == ["camera.snap", "echo"]
        assert "camera.snap, echo" in answer.json()["error"]


@sync
async def test_urls_methods_and_sizes(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        for path in ("/", "/nope", "/nodes/a/b/c", "/nodes/a/invoke/x", "/ws", "/chat%2F"):
            assert error_of(await http.get(path)) == (404, "no_route")
        for method, path, allowed in (
            ("PUT", "/nodes", "GET"),
            ("DELETE", "/nodes/config", "GET, POST"),
            ("POST", "/nodes", "GET"),
            ("PATCH", "/nodes/pending", "GET"),
            ("OPTIONS", "/audit", "GET"),
            ("GET", "/nodes/host-token", "POST"),
        ):
            answer = await http.request(method, path)
            assert error_of(answer) == (405, "method_not_allowed")
            assert answer.headers["Allow"] == allowed
        assert (await http.head("/nodes")).status_code == 405
        assert error_of(await http.post("/nodes/host-token", content=b" " * (2**20 + 1))) == (413, "too_large")
        assert (await http.get("/nodes/")).status_code == 200


@sync
async def test_a_socket_url_asked_without_a_handshake_answers_with_an_error_body(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        for path in ("/ws/node", "/ws/client"):
            answer = await http.get(path)
            assert answer.status_code in (400, 426)
            error_of(answer)


@pytest.mark.parametrize("size", [25 * 2**20 - 10, 26 * 2**20])
@sync
async def test_an_invoke_body_above_25_mib_is_told_so(gateway: ThreadedGateway, size: int) -> None:
    async with BareDevice(gateway.node_url, features=[]) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await invoke(http, "MyPhone", params={"x": "a" * size})
        assert error_of(answer) == (413, "too_large")
        device.answer(lambda command, params: "still here")
        assert (await invoke(http, "MyPhone")).json()["result"] == "still here"


@sync
async def test_denied_commands_are_never_dispatched(make_gateway: Any) -> None:
    settings = Settings(display_name="x", denied_commands=["shell.*", "*.delete"])
    gateway: ThreadedGateway = make_gateway(settings=settings)
    capabilities = [{"name": name} for name in ("shell.run", "file.delete", "echo")]
    async with BareDevice(gateway.node_url, "Pi", capabilities) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer(lambda command, params: command)
        for command in ("shell.run", "file.delete"):
            assert error_of(await invoke(http, "Pi", command)) == (403, "command_denied")
        assert (await invoke(http, "Pi", "echo")).json()["result"] == "echo"


@sync
async def test_nodes_switched_off_and_on_again(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url) as device, BareDevice(gateway.node_url, "Waits") as waits:
            await gateway.pair(device)
            await waits.code()
            off = await http.post("/nodes/config", json={"nodes_enabled": False})
            assert (off.json()["success"], off.json()["nodes_enabled"]) == (True, False)
            for each in (device, waits):
                assert (await each.closed())[0] == 1013
            answer = await invoke(http, "MyPhone")
            assert error_of(answer) == (503, "nodes_disabled")
            assert answer.json()["retryable"] is True
            async with BareDevice(gateway.node_url, device_token=device.token) as refused:
                assert (await refused.closed())[0] == 1013
        assert (await http.get("/nodes")).json()["count"] == 0
        assert (await http.get("/nodes/pending")).json()["count"] == 0
        assert (await http.get("/nodes/devices")).json()["count"] == 1
        await http.post("/nodes/config", json={"nodes_enabled": True})
        async with BareDevice(gateway.node_url, device_token=device.token) as again:
            await again.joined()
            again.answer()
            assert (await invoke(http, "MyPhone", params={"a": 1})).json()["result"] == {"a": 1}


@pytest.mark.parametrize(
    "reply",
    [
        {"success": "yes", "result": 1},
        {"success": 1, "result": 1},
        {"success": None},
        {"success": [], "error": "x"},
    ],
)
@sync
async def test_a_device_that_answers_nonsense_fails_that_call_only(
    gateway: ThreadedGateway, reply: dict[str, Any]
) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        await check_bad(http, device, json.dumps(reply)[1:-1])


@pytest.mark.parametrize(
    "fields", ['"success":true,"result":NaN', '"success":true,"result":"\\ud800"', '"success":true,"error":Infinity']
)
@sync
async def test_a_result_that_is_no_json_fails_that_call_only(gateway: ThreadedGateway, fields: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        await check_bad(http, device, fields)


async def check_bad(http: Any, device: BareDevice, fields: str) -> None:
    call = asyncio.create_task(invoke(http, "MyPhone"))
    frame = await device.recv("invoke")
    await device.send('{{"type":"result","request_id":"{}",{}}}'.format(frame["request_id"], fields))
    assert error_of(await call) == (502, "bad_answer")
    device.answer()
    assert (await invoke(http, "MyPhone", params={"a": 1})).json()["result"] == {"a": 1}


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (None, "The device reported a failure without saying why."),
        ("", "The device reported a failure without saying why."),
        ({"code": 7}, '{"code":7}'),
        ("x" * 10_000, "x" * 4000),
        ("<b>\u2028", "<b>\u2028"),
    ],
)
@sync
async def test_errors_of_a_device_are_text(gateway: ThreadedGateway, error: Any, shown: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(invoke(http, "MyPhone"))
        frame = await device.recv("invoke")
        await device.send({"type": "result", "request_id": frame["request_id"], "success": False, "error": error})
        answer = await call
        assert answer.json() == {"success": False, "result": None, "error": shown}
        assert answer.content.isascii()
