"""Floods from outside: memory stays bounded, others are served meanwhile, and everything is freed afterwards."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from support.calls import invoke
from support.client import BareClient
from support.counted import CountedGateway, many_files
from support.device import BareDevice
from support.running import sync

MIB = 2**20
HALF_OPEN = 5000

MakeCounted = Callable[..., CountedGateway]


@pytest.fixture
def make_counted(tmp_path: Path) -> Iterator[MakeCounted]:
    started: list[CountedGateway] = []

    def make(**limits: float) -> CountedGateway:
        root = tmp_path / f"counted-{len(started)}"
        root.mkdir()
        started.append(CountedGateway(root, **limits))
        return started[-1]

    with many_files():
        yield make
        for each in started:
            each.close()


@asynccontextmanager
async def good_device(gateway: CountedGateway, **options: Any) -> AsyncIterator[BareDevice]:
    """A device the gateway knows, that answers."""
    device_id, token = (await asyncio.to_thread(gateway.ask, "adopt 1"))[0]
    async with BareDevice(gateway.node_url, device_id, device_token=token, **options) as device:
        await device.joined()
        device.answer()
        yield device


async def works(gateway: CountedGateway, device: BareDevice) -> None:
    """Call the device over a new connection."""
    async with gateway.http() as http:
        answer = await invoke(http, device.node_id, "echo", {"a": 1})
        assert answer.json() == {"success": True, "result": {"a": 1}, "error": None}


async def freed(gateway: CountedGateway, before: dict[str, int]) -> None:
    await asyncio.to_thread(lambda: gateway.settled(**before))


def open_raw(port: int, text: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 10)
    if text:
        sock.sendall(text)
    return sock


@sync
async def test_5000_half_open_handshakes(make_counted: MakeCounted) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < HALF_OPEN + 1000:
        pytest.skip("this system allows too few open files")
    gateway = make_counted(request_timeout=2)
    async with good_device(gateway) as device:
        await works(gateway, device)
        await asyncio.to_thread(gateway.settled, connections=0)
        before, memory = gateway.counts(), gateway.ask("rss")
        heads = (
            b"",
            b"GET /ws/node HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n",
            b"POST /nodes/x/invoke HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000,
        )
        sockets: list[socket.socket] = []

        def flood() -> None:
            for number in range(HALF_OPEN):
                sockets.append(open_raw(gateway.port, heads[number % 3]))

        flooding = asyncio.create_task(asyncio.to_thread(flood))
        served = 0
        while not flooding.done():
            await works(gateway, device)
            served += 1
        await flooding
        counts = gateway.counts()
        assert counts["strangers"] <= 256
        assert counts["connections"] <= 256 + 20
        assert gateway.ask("rss") - memory < 100 * MIB
        assert served > 0
        # A device with a known token gets in, and a new call too.
        async with good_device(gateway) as other:
            await works(gateway, other)
        await freed(gateway, before)  # by time alone: nobody has hung up yet
        for sock in sockets:
            sock.close()


@sync
async def test_devices_with_known_tokens_get_in_beside_sockets_that_say_nothing(make_counted: MakeCounted) -> None:
    gateway = make_counted(sockets_unauthenticated=20, sockets_late=4, late_timeout=1, handshake_timeout=3)
    before = gateway.counts()
    silent = [await websockets.connect(gateway.node_url) for _ in range(30)]
    counts = gateway.counts()
    assert counts["unauthenticated"] <= 24
    async with good_device(gateway) as device:
        await works(gateway, device)
        # A stranger is told to come again later.
        async with BareDevice(gateway.node_url, "Stranger") as stranger:
            assert (await stranger.closed())[0] == 1013
        async with BareDevice(gateway.node_url, "Newer", features=[]) as stranger:
            assert (await stranger.recv("error"))["code"] == "too_many_sockets"
    await freed(gateway, before)
    for ws in silent:
        await ws.close()


@sync
async def test_1000_bad_tokens(make_counted: MakeCounted) -> None:
    gateway = make_counted(bad_token_delay=0.005)
    async with good_device(gateway) as device:
        before, memory = gateway.counts(), gateway.ask("rss")
        statuses: list[int] = []
        async with gateway.http() as http, gateway.http(headers={}) as stranger:
            for number in range(1000):
                token = "szt_" + f"{number:043d}"
                answer = await stranger.get("/nodes", headers={"Authorization": f"Bearer {token}"})
                statuses.append(answer.status_code)
                if number % 100 == 50:
                    assert (await invoke(http, device.node_id)).status_code == 200
                    # On the very connection the bad ones came on, too.
                    assert (await stranger.get("/nodes", headers=gateway.headers)).status_code == 200
            assert statuses[:300] == [401] * 300
            assert statuses[300:] == [429] * 700
            body = answer.json()
            assert (body["code"], body["retryable"]) == ("too_many_attempts", True)
            assert 0 < int(answer.headers["Retry-After"]) == body["retry_after"] <= 60
            # Who sends no token, or a paused one, tries nothing.
            assert (await stranger.get("/nodes")).status_code == 401
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(gateway.client_url, additional_headers={"X-Suzent-Token": "szt_forged"})
            assert refused.value.response.status_code == 429
            assert "Retry-After" in refused.value.response.headers
            url = f"/nodes/{device.node_id}/invoke"
            forged = await stranger.post(url, json={}, headers={"X-Suzent-Token": "szt_forged"})
            assert (forged.status_code, "Retry-After" in forged.headers) == (429, True)
        assert gateway.ask("rss") - memory < 50 * MIB
        async with BareClient(gateway), good_device(gateway) as other:
            await works(gateway, other)
        await freed(gateway, before)


@sync
async def test_first_frames_one_byte_too_large(make_counted: MakeCounted) -> None:
    gateway = make_counted()
    async with good_device(gateway) as device:
        await works(gateway, device)
        before, memory = gateway.counts(), gateway.ask("rss")
        hello = {"type": "connect", "display_name": "Big", "capabilities": [], "padding": ""}
        hello["padding"] = "x" * (64 * 1024 + 1 - len(json.dumps(hello)))
        text = json.dumps(hello)
        assert len(text) == 64 * 1024 + 1

        async def knock() -> int:
            async with websockets.connect(gateway.node_url, compression=None) as ws:
                await ws.send(text)
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    while True:
                        await ws.recv()
                assert closed.value.rcvd is not None
                return closed.value.rcvd.code

        for _ in range(4):
            assert set(await asyncio.gather(*(knock() for _ in range(25)))) == {1009}
            await works(gateway, device)
        assert gateway.ask("rss") - memory < 100 * MIB
        await freed(gateway, before)


@sync
async def test_a_reader_that_reads_nothing(make_counted: MakeCounted) -> None:
    gateway = make_counted()
    async with good_device(gateway) as device, BareClient(gateway) as quick:
        await quick.send(type="subscribe", topics=["events"])
        await quick.change("events", "snapshot")
        await works(gateway, device)
        before, memory = gateway.counts(), gateway.ask("rss")
        async with BareClient(gateway) as slow:
            await slow.send(type="subscribe", topics=["events"])
            await slow.change("events", "snapshot")
            slow.ws.transport.pause_reading()
            peak = 0
            data = "x" * MIB
            for number in range(100):
                await device.send({"type": "event", "event": "motion", "data": [number, data]})
                assert (await quick.change("events"))["item"]["data"][0] == number
                if number % 10 == 0:
                    peak = max(peak, gateway.ask("rss"))
                    await works(gateway, device)
            assert peak - memory < 250 * MIB
            assert gateway.counts()["clients"] == 1  # dropped, not waited for
            slow.ws.transport.resume_reading()
            # Its code stands behind megabytes; whoever takes seconds to get there finds the connection cut.
            assert (await slow.closed(30))[0] in (4008, 1006)
        await freed(gateway, before)
        assert gateway.ask("rss") - memory < 150 * MIB


@sync
async def test_stopping_with_500_devices(make_counted: MakeCounted) -> None:
    gateway = make_counted()
    known = await asyncio.to_thread(gateway.ask, "adopt 500")
    devices: list[BareDevice] = []
    for start in range(0, 500, 50):
        batch = [BareDevice(gateway.node_url, name, device_token=token) for name, token in known[start : start + 50]]
        await asyncio.gather(*(device.__aenter__() for device in batch))
        await asyncio.gather(*(device.joined() for device in batch))
        devices += batch
    assert gateway.counts()["nodes"] == 500
    # One of them neither reads nor answers the goodbye.
    devices[0].ws.transport.pause_reading()

    async def goodbye(device: BareDevice) -> tuple[int, Any]:
        code = (await device.closed(30))[0]
        try:  # as old clients do, at once
            socket.create_connection(("127.0.0.1", gateway.port), 5).close()
        except ConnectionRefusedError as refused:
            return code, type(refused)
        return code, None

    waiting = [asyncio.create_task(goodbye(device)) for device in devices[1:]]
    report = await asyncio.to_thread(gateway.ask, "stop")
    assert report["seconds"] < 10, report  # under 3 on a machine with nothing else to do
    assert (report["sockets"], report["threads"]) == (0, [])
    assert set(await asyncio.gather(*waiting)) == {(1001, ConnectionRefusedError)}
    began = time.monotonic()
    assert await asyncio.to_thread(gateway.process.wait, 20) == 0
    assert time.monotonic() - began < 10
    for device in devices:
        await device.__aexit__()
