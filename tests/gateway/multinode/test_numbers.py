"""Numbers that no float can hold, and those that a forged pong makes: said by a node, and harmless."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync, until

from suzent_jupyter.kernel import frames

HUGE = 10**400


@sync
async def test_a_timeout(gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture) -> None:
    async with Worker(gateway, "A") as a, Worker(gateway, "B"):
        assert await a.code_of("B", command="echo", timeout_ms=HUGE) == "ok"
        assert await a.code_of("B", command="echo", timeout_ms=-HUGE) == "invalid_timeout"
        assert await a.code_of("B", agent="hi", timeout_ms=-HUGE) == "invalid_timeout"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("path", ["node", "gateway"])
@sync
async def test_progress(gateway: ThreadedGateway, path: str) -> None:
    if path == "node":
        names: dict[str, str] = {"asked": "invoke", "id": "request_id", "progress": "progress"}
        node: Any = BareDevice(gateway.node_url, "Phone", features=["progress"])
    else:
        names = {"asked": "node.invoke.request", "id": "id", "progress": "node.invoke.progress"}
        node = KeyedNode(multinode_url(gateway), "Phone")
    async with node, BareClient(gateway) as client:
        if path == "node":
            await gateway.pair(node)
        else:
            await admit(gateway, node)
        await client.send(type="invoke", id=1, node="Phone", command="echo", params={})
        call = (await node.recv(names["asked"]))[names["id"]]
        for fraction, seen in ((HUGE, 1.0), (-HUGE, 0.0), (0.25, 0.25)):
            await node.send({"type": names["progress"], names["id"]: call, "seq": HUGE, "fraction": fraction})
            progress = await client.recv()
            assert (progress["type"], progress["fraction"]) == ("progress", seen)


@sync
async def test_a_pong_that_answers_nothing(gateway: ThreadedGateway) -> None:
    """What is shared with colleagues is shown to them: one such number would have kept their whole list from them."""
    async with BareDevice(gateway.node_url, "Phone") as phone, gateway.http() as http:
        await gateway.pair(phone)
        session = gateway.service.gateway.registry.by_id(phone.node_id)
        assert session is not None
        for payload in (b"-1e300", b"1e308", b"inf", b"-inf", b"nan", b"1_0", b"x"):
            session.last_seen = ""
            await phone.ws.pong(payload)
            await until(lambda: session.last_seen)
            listed = (await http.get("/nodes")).json()["nodes"]
            assert listed[0]["latency_ms"] is None or 0 <= listed[0]["latency_ms"] <= 3_600_000
            assert len(frames.nodes(listed)) == 1
