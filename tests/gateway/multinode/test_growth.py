"""Sockets that send and never read: what waits for them stays small, whoever they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync, until

Make = Callable[..., ThreadedGateway]
LARGE = "x" * (16 * 2**20)


def unsent(gateway: ThreadedGateway) -> int:
    """Return the bytes that wait for the slowest socket."""
    transports = list(gateway.service.open_sockets._open)
    return max((len(each._stream._write_buffer or b"") for each in transports if not each._stream.closed()), default=0)


async def clog(gateway: ThreadedGateway, ws: Any, client: BareClient) -> None:
    """Have a device read nothing more, and send it a call that takes all the room on the way."""
    ws.transport.pause_reading()
    await client.send(type="invoke", id="large", node="Deaf", command="echo", params={"text": LARGE}, timeout=600)
    await until(lambda: gateway.call(unsent, gateway) > 2**20, 20)


@sync
async def test_challenges(gateway: ThreadedGateway) -> None:
    node = await KeyedNode(multinode_url(gateway)).open()
    for _ in range(16):
        await node.ask()
    await node.send({"type": "connect.challenge"})
    assert await node.refusal() == ("bad_handshake", 1002)
    # The last of as many is as good as the first.
    node = await KeyedNode(multinode_url(gateway)).open()
    for _ in range(16):
        challenge = await node.ask()
    await node.send({**node.connect, "jwt": node.key.sign(challenge)})
    await admit(gateway, node)
    await node.ws.close()


@sync
async def test_pings(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Deaf", features=["cancel"]) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await clog(gateway, device.ws, client)
        for number in range(1001):
            await device.ws.ping(b"%125d" % number)
        assert (await client.recv("result"))["code"] == "node_disconnected"
        await until(lambda: not len(gateway.service.gateway.registry))
        device.ws.transport.abort()


@sync
async def test_pings_that_are_read_are_answered(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Phone") as device:
        await gateway.pair(device)
        for number in range(3000):
            await device.ws.ping(b"%d" % number)
        async with asyncio.timeout(10):
            await (await device.ws.ping(b"last"))


@pytest.mark.parametrize("kind", ["ping", "update"])
@sync
async def test_frames_that_are_answered(make_gateway: Make, kind: str) -> None:
    gateway = make_gateway(limits={"send_buffer_bytes": 2**20})
    declared = [{"name": "echo"}, *({"name": f"{number}-{'x' * 120}"} for number in range(200))]
    frame = json.dumps({"type": kind, "capabilities": declared} if kind == "update" else {"type": kind})
    async with (
        BareDevice(gateway.node_url, "Deaf", declared, features=["update"]) as device,
        BareClient(gateway) as client,
    ):
        await gateway.pair(device)
        await clog(gateway, device.ws, client)
        before = gateway.call(unsent, gateway)
        await client.send(type="subscribe", topics=["events"])
        await client.recv("change")
        for _ in range(100):
            await device.ws.send(frame)
        await device.ws.send(json.dumps({"type": "event", "event": "done"}))
        while (await client.recv("change"))["kind"] != "added":
            pass
        assert gateway.call(unsent, gateway) <= before
        device.ws.transport.abort()


@sync
async def test_updates_of_an_app_node(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"client_buffer_bytes": 2**20})
    declared = [{"name": f"{number}-{'x' * 120}"} for number in range(200)]
    async with KeyedNode(multinode_url(gateway), "Deaf", capabilities=declared) as node:
        await admit(gateway, node)
        node.ws.transport.pause_reading()
        for _ in range(4000):
            await node.send({"type": "node.update", "node": {}})
            if not len(gateway.service.gateway.registry):
                break
        await until(lambda: not len(gateway.service.gateway.registry))
        assert gateway.call(unsent, gateway) < 3 * 2**20
        node.ws.transport.abort()


@sync
async def test_a_run_that_is_watched_anew_over_and_over(make_gateway: Make) -> None:
    async def much(node: Worker, run: dict[str, Any]) -> str:
        return "x" * 900_000

    gateway = make_gateway()
    async with Worker(gateway, "Lab", much), BareClient(gateway) as client:
        await client.send(type="chat.send", id=1, message="hi")
        run_id = (await client.recv("chat.accepted"))["run_id"]
        while (await client.recv("chat.event"))["event"]["type"] != "RUN_FINISHED":
            pass
        client.ws.transport.pause_reading()
        hub = gateway.service.gateway

        def waiting() -> tuple[int, int]:
            (link,) = [each for each in hub._clients if each._outbox.unsent > 500_000]
            return len(link._outbox._waiting), len(link._chats._watches)  # type: ignore[union-attr]

        for number in range(400):
            await client.send(type="chat.watch", id=number, run_id=run_id)
            if number % 4 == 0:
                await asyncio.sleep(0.002)
        await until(lambda: [each for each in hub._clients if each._outbox.unsent > 500_000])
        assert max(gateway.call(waiting)) <= 1
        client.ws.transport.abort()


@sync
async def test_colleagues_hear_of_many_changes_once(gateway: ThreadedGateway) -> None:
    """The last of them always; else one shared node would have every socket that may see it dropped for being slow."""
    async with (
        KeyedNode(multinode_url(gateway), "Busy") as node,
        BareClient(gateway) as client,
    ):
        await admit(gateway, node)
        await client.send(type="subscribe", topics=["nodes"])
        await client.recv("change")
        for number in range(1, 1001):
            await node.send({"type": "node.update", "node": {"description": str(number)}})
        heard = 0
        while (await client.recv("change"))["item"]["description"] != "1000":
            heard += 1
        assert heard < 500
        node.ws.transport.abort()
