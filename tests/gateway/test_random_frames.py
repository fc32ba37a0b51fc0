"""Ten thousand random frames, before and after connecting: nothing raises, and the gateway serves on."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import pytest
import websockets
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.calls import invoke
from support.client import BareClient
from support.device import BareDevice
from support.frames import send_all
from support.gateways import ThreadedGateway
from support.waiting import wait_for

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["connect", "result", "progress", "event", "update", "pong", "ping", "invoke", "1", "echo"])
)  # fmt: skip
keys = st.sampled_from(
    "type request_id success result error seq fraction message data event capabilities name params_schema input_schema "
    "display_name features device_token node_identity description tags id node command params timeout topics".split()
) | st.text(max_size=4)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=8
)
typed = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(
        ["connect", "result", "progress", "event", "update", "pong", "ping", "cancel", "subscribe", "invoke"]
    ),
    st.dictionaries(keys, json_values, max_size=6),
)
frames = st.one_of(
    typed.map(json.dumps),
    json_values.map(json.dumps),
    st.text(max_size=40).filter(lambda text: not any(0xD800 <= ord(char) < 0xE000 for char in text)),
    st.binary(max_size=40),
)
batches = st.lists(frames, min_size=65, max_size=70)


async def as_first_frames(gateway: ThreadedGateway, batch: list[str | bytes]) -> int:
    async def one(frame: str | bytes) -> int:
        async with websockets.connect(gateway.node_url, compression=None, ping_interval=None) as ws:
            return await send_all(ws, [frame])

    total = 0
    for start in range(0, len(batch), 20):
        total += sum(await asyncio.gather(*(one(frame) for frame in batch[start : start + 20])))
    return total


async def as_waiting_device(gateway: ThreadedGateway, batch: list[str | bytes]) -> int:
    async with BareDevice(gateway.node_url, "Waits") as device:
        await device.code()
        sent = await send_all(device.ws, batch)
        assert sent == len(batch)
        return sent


async def as_connected_device(gateway: ThreadedGateway, hello: dict[str, Any], batch: list[str | bytes]) -> int:
    gateway.call(gateway.service.gateway.sessions._replacements.clear)
    async with (
        websockets.connect(gateway.node_url, compression=None, ping_interval=None) as ws,
        BareClient(gateway) as client,
    ):
        await ws.send(json.dumps(hello))
        assert json.loads(await ws.recv())["type"] == "connected"
        await client.send(type="subscribe", topics=["nodes", "pending", "events", "audit", "devices"])
        await client.send(type="invoke", id="1", node="Fuzz", command="echo", params={}, timeout=20)
        request_id = json.loads(await ws.recv())["request_id"]
        mine = [
            frame.replace('"request_id": "1"', f'"request_id": "{request_id}"') if isinstance(frame, str) else frame
            for frame in batch
        ]
        sent = await send_all(ws, mine)
        assert sent == len(batch)  # a connected device is never closed for what it says
        return sent


async def as_client(gateway: ThreadedGateway, batch: list[str | bytes]) -> int:
    async with BareClient(gateway) as client:
        sent = await send_all(client.ws, batch)
        assert sent == len(batch)
        return sent


def test_ten_thousand_random_frames(gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture) -> None:
    pairing = BareDevice(gateway.node_url, "Fuzz", features=["cancel", "progress", "update"])
    total = 0

    async def pair() -> dict[str, Any]:
        async with pairing:
            await gateway.pair(pairing)
        return {**pairing.hello, "device_token": pairing.token}

    hello = asyncio.run(pair())

    async def everywhere(batch: list[str | bytes]) -> int:
        counts = await asyncio.gather(
            as_first_frames(gateway, batch),
            as_waiting_device(gateway, batch),
            as_connected_device(gateway, hello, batch),
            as_client(gateway, batch),
        )
        return sum(counts)

    @seed(20)
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(batches)
    def one(batch: list[str | bytes]) -> None:
        nonlocal total
        total += asyncio.run(everywhere(batch))

    one()
    assert total >= 10_000
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

    async def still_serves() -> None:
        async with BareDevice(gateway.node_url, "Sane") as device, gateway.http() as http:
            await gateway.pair(device)
            device.answer()
            assert (await invoke(http, device.node_id, params={"a": 1})).json()["result"] == {"a": 1}

    asyncio.run(still_serves())
    hub = gateway.service.gateway
    wait_for(lambda: (len(hub.pairing), len(hub.sockets), len(hub.registry)) == (0, 0, 0))


def test_bytes_that_are_no_websocket_end_that_socket_alone(
    gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(11)
    blobs = [
        b"\x81\x82\x00\x00\x00\x00\xff\xfe",  # a text frame that is no UTF-8
        b"\x81\x02{}",  # unmasked
        b"\xf1\x80\x00\x00\x00\x00",  # reserved bits
        b"\x83\x80\x00\x00\x00\x00",  # an opcode there is not
        b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",  # eight exabytes to come
        b"\x80\x80\x00\x00\x00\x00",  # a continuation of nothing
        b"\x09\x80\x00\x00\x00\x00",  # a ping in pieces
        b"\x88\x81\x00\x00\x00\x00x",  # half a close code
        *(chance.randbytes(chance.randrange(1, 60)) for _ in range(80)),
    ]

    async def work() -> None:
        async with BareDevice(gateway.node_url, "Garbage") as device:
            await gateway.pair(device)
        for number, blob in enumerate(blobs):
            gateway.call(gateway.service.gateway.sessions._replacements.clear)
            ws = await websockets.connect(gateway.node_url, compression=None, ping_interval=None)
            if number % 2 == 0:
                await ws.send(json.dumps({**device.hello, "device_token": device.token}))
                await ws.recv()
            ws.transport.write(blob)
            ws.transport.close()
            await ws.wait_closed()
        async with BareDevice(gateway.node_url, device_token=device.token) as again, gateway.http() as http:
            await again.joined()
            again.answer()
            assert (await invoke(http, again.node_id, params={"a": 1})).json()["result"] == {"a": 1}

    asyncio.run(work())
    hub = gateway.service.gateway
    wait_for(lambda: (len(hub.pairing), len(hub.sockets), len(hub.registry), len(hub.sessions)) == (0, 0, 0, 0))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
