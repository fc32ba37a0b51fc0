"""Both ends tick; whose program says nothing for two intervals is gone, whatever its library answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.calls import error_of, invoke
from support.gateways import ThreadedGateway
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync, until

QUICK = {"tick_interval": 0.1}


@sync
async def test_a_node_that_answers_pings_but_never_ticks_is_gone(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        call = asyncio.create_task(invoke(http, "LabPC"))

        async def pinging() -> None:
            while True:
                await node.ws.ping()
                await node.ws.pong()
                await asyncio.sleep(0.02)

        library = asyncio.create_task(pinging())
        assert error_of(await asyncio.wait_for(call, 10)) == (502, "node_disconnected")
        assert (await node.closed())[0] == 4009
        library.cancel()
        assert len(gateway.service.gateway.registry) == 0


@sync
async def test_ticks_keep_a_node(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    async with KeyedNode(multinode_url(gateway)) as node:
        await admit(gateway, node)
        for _ in range(12):
            await node.recv("tick")
            await node.send({"type": "tick", "ts": 0})
        session = gateway.service.gateway.registry.by_id(node.node_id)
        assert session is not None
        assert session.latency_ms is not None
        # From here on it says nothing.
        assert (await node.closed())[0] == 4009


@sync
async def test_a_person_who_never_ticks_is_gone_too(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    person = KeyedNode(multinode_url(gateway), role="web")
    person.headers = gateway.headers
    await person.open()
    await person.send({"type": "connect", "role": "web"})
    await person.joined()
    for _ in range(6):
        await person.recv("tick")
        await person.send({"type": "tick"})
    assert len(gateway.service.gateway._clients) == 1
    assert (await person.closed())[0] == 4009
    await until(lambda: len(gateway.service.gateway._clients) == 0)


@sync
async def test_a_large_frame_under_way_is_a_sign_of_life(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits=QUICK)
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        session = gateway.service.gateway.registry.by_id(node.node_id)
        call = asyncio.create_task(invoke(http, "LabPC", timeout=30))
        request = await node.recv("node.invoke.request")
        payload = json.dumps({"type": "node.invoke.result", "id": request["id"], "ok": True, "result": "y" * 4000})
        head = bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4)  # masked with zeros
        transport, loop = node.ws.transport, asyncio.get_running_loop()
        transport.pause_reading()  # a pong of the library would stand between its bytes
        transport.write(head)
        started, sent = loop.time(), 0
        while loop.time() - started <= 1.0:
            before = session.transport.content_bytes
            transport.write(payload[sent : sent + 1].encode())
            sent += 1
            await until(lambda before=before: session.transport.content_bytes > before)
            assert session.alive
        transport.write(payload[sent:].encode())
        assert (await asyncio.wait_for(call, 5)).json()["result"] == "y" * 4000
        transport.resume_reading()


@sync
async def test_a_loop_that_stood_still_costs_no_node(make_gateway: Any) -> None:
    import time

    gateway: ThreadedGateway = make_gateway(limits={"tick_interval": 0.3})
    async with KeyedNode(multinode_url(gateway)) as node:
        await admit(gateway, node)

        async def ticking() -> None:
            while True:
                await node.send({"type": "tick"})
                await asyncio.sleep(0.1)

        task = asyncio.create_task(ticking())
        await asyncio.to_thread(gateway.call, time.sleep, 2.5)
        await node.recv("tick")
        await node.recv("tick")
        assert len(gateway.service.gateway.registry) == 1
        task.cancel()
