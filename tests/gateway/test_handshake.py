"""First frames that are none close with a fitting code, and leave no trace."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


def traces(gateway: ThreadedGateway) -> tuple[int, ...]:
    hub = gateway.service.gateway
    return (len(hub.sockets), len(hub.pairing), len(hub.registry), len(hub.sessions), len(list(hub.devices)))


async def close_of(ws: Any) -> tuple[int, list[dict[str, Any]]]:
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        try:
            while True:
                frames.append(json.loads(await ws.recv()))
        except websockets.ConnectionClosed as closed:
            return (closed.rcvd.code if closed.rcvd else 1006), frames


def connect(**fields: Any) -> str:
    return json.dumps({"type": "connect", "display_name": "X", "capabilities": [], **fields})


@pytest.mark.parametrize(
    ("frame", "code", "error"),
    [
        ("hello", 1002, "bad_json"),
        ("", 1002, "bad_json"),
        ("{", 1002, "bad_json"),
        ('{"type":"connect","display_name":NaN}', 1002, "bad_json"),
        ('{"type":"connect","display_name":"\\ud800"}', 1002, "bad_json"),
        ("[" * 20_000, 1002, "bad_json"),
        ("[]", 1002, "bad_frame"),
        ("null", 1002, "bad_frame"),
        ('"connect"', 1002, "bad_frame"),
        ("5", 1002, "bad_frame"),
        (b'{"type":"connect","display_name":"X"}', 1002, "bad_frame"),
        (b"\xff\x00", 1002, "bad_frame"),
        ("{}", 1002, "bad_handshake"),
        ('{"type":"result"}', 1002, "bad_handshake"),
        ('{"type":["connect"]}', 1002, "bad_handshake"),
        ('{"type":"connect"}', 1002, "bad_handshake"),
        (connect(display_name=""), 1002, "bad_handshake"),
        (connect(display_name="  \u202e\u200d\n "), 1002, "bad_handshake"),
        (connect(display_name=5), 1002, "bad_handshake"),
        (connect(display_name=["X"]), 1002, "bad_handshake"),
        (connect(display_name=None), 1002, "bad_handshake"),
        (connect(padding="x" * 70_000), 1009, "too_large"),
        (connect(padding="é" * 40_000), 1009, "too_large"),
    ],
)
@sync
async def test_a_first_frame_that_is_none(gateway: ThreadedGateway, frame: Any, code: int, error: str) -> None:
    async with websockets.connect(gateway.node_url, compression=None) as ws:
        await ws.send(frame)
        closed, frames = await close_of(ws)
        assert closed == code
        assert [(each["type"], each["code"]) for each in frames] == [("error", error)]
        assert all(frames[0][field] is not None for field in ("message", "hint", "retryable"))
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    "fields",
    [
        {"platform": 5},
        {"platform": None},
        {"capabilities": None},
        {"capabilities": "echo"},
        {"capabilities": {"name": "echo"}},
        {"capabilities": [None, 5, [], {}, {"name": {}}]},
        {"device_token": 5},
        {"node_identity": []},
        {"node_identity": "x" * 5000},
        {"features": "cancel"},
        {"features": [5, None, {}]},
        {"features": {"cancel": True}},
        {"description": 5, "tags": "lab"},
        {"tags": [[], {}]},
        {"limits": "?", "unknown": {"deep": [1]}},
    ],
)
@sync
async def test_fields_of_the_wrong_type_refuse_nobody(gateway: ThreadedGateway, fields: dict[str, Any]) -> None:
    async with websockets.connect(gateway.node_url, compression=None) as ws:
        await ws.send(connect(**fields))
        assert json.loads(await ws.recv())["type"] == "pending"
        async with gateway.http() as http:
            assert (await http.get("/nodes/pending")).json()["count"] == 1
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@sync
async def test_silence_ends_after_the_handshake_timeout(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"handshake_timeout": 0.1})
    async with websockets.connect(gateway.node_url) as ws:
        assert await close_of(ws) == (1013, [])
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@sync
async def test_half_a_first_frame_is_silence(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"handshake_timeout": 0.2})
    async with websockets.connect(gateway.node_url) as ws:

        async def trickle() -> Any:
            while True:
                yield " "
                await (await ws.ping())  # the gateway has read it

        sending = asyncio.create_task(ws.send(trickle()))
        assert (await close_of(ws))[0] == 1013
        await asyncio.wait([sending], timeout=10)
        assert isinstance(sending.exception(), websockets.ConnectionClosed)
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@sync
async def test_a_device_may_leave_at_any_moment(gateway: ThreadedGateway) -> None:
    for frame in (None, "hello", connect(), connect(device_token=gateway.token)):
        ws = await websockets.connect(gateway.node_url)
        if frame is not None:
            await ws.send(frame)
        ws.transport.abort()
        await ws.wait_closed()
    hub = gateway.service.gateway
    await until(lambda: (len(hub.sockets), len(hub.pairing), len(hub.registry), len(hub.sessions)) == (0, 0, 0, 0))


@sync
async def test_256_real_capabilities_are_accepted_however_long_their_frame(gateway: ThreadedGateway) -> None:
    capabilities = [
        {"name": f"instrument.channel_{number}", "description": "Reads it. " * 100, "params_schema": {"n": "int"}}
        for number in range(256)
    ]
    assert len(json.dumps(capabilities)) > 256 * 1024
    async with BareDevice(gateway.node_url, "Rack", capabilities) as device:
        await gateway.pair(device)
        assert len(device.connected["approved"]) == 256
    async with BareDevice(gateway.node_url, "More", [*capabilities, {"name": "one more"}], features=[]) as more:
        await gateway.pair(more)
        assert len(more.connected["approved"]) == 256
        assert more.connected["warnings"] == ["more than 256 capabilities: the rest was left out"]


@sync
async def test_what_a_waiting_device_sends_is_ignored_and_small(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device:
        code = await device.code()
        for frame in ('{"type":"result","request_id":"1"}', "x", b"\x00", '{"type":"connect","display_name":"Y"}'):
            await device.send(frame)
        await gateway.approve(code)
        await device.joined()
    async with BareDevice(gateway.node_url) as device:
        await device.code()
        await device.send("x" * (2 * 2**20))
        assert (await device.closed())[0] == 1009
    await until(lambda: len(gateway.service.gateway.pairing) == 0)


@sync
async def test_unapproved_sockets_are_few(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"sockets_unauthenticated": 3})
    sockets = [await websockets.connect(gateway.node_url) for _ in range(3)]
    async with websockets.connect(gateway.node_url) as fourth:
        assert (await close_of(fourth))[0] == 1013
    await sockets[0].close()
    await until(lambda: len(gateway.service.gateway.sockets) == 2)
    async with BareDevice(gateway.node_url) as device:
        await gateway.pair(device)
        # An approved device counts no longer.
        async with BareDevice(gateway.node_url, "Other") as other:
            await other.code()
    for ws in sockets:
        await ws.close()


@sync
async def test_no_compression_is_negotiated(gateway: ThreadedGateway) -> None:
    async with websockets.connect(gateway.node_url, compression="deflate") as ws:
        assert ws.protocol.extensions == []
