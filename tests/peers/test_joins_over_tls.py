"""Joining by a pairing link: the key it names is pinned, remembered, and a changed one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.gateways import ThreadedGateway
from support.joiner import Joiner
from support.running import sync

from suzent_jupyter.protocol.pairing_link import PairingLink

MakeGateway = Callable[..., ThreadedGateway]
Pair = Callable[[Joiner, ThreadedGateway], Awaitable[dict[str, Any]]]


@sync
async def test_by_pairing_link(ours: Joiner, make_gateway: MakeGateway) -> None:
    theirs = await asyncio.to_thread(make_gateway, account="bob", tls="auto", tls_port=0)
    base = f"https://127.0.0.1:{theirs.service.tls_port}"
    url = f"wss://127.0.0.1:{theirs.service.tls_port}/ws/node"
    unknown = await ours.connect(url)
    assert unknown["http"] == 502, unknown
    wrong = await ours.connect(str(PairingLink(base, pin="A" * 43)))
    assert wrong["http"] == 502 and await ours.connections() == [], wrong
    answer = await ours.connect(str(PairingLink(base, ticket="t", pin=theirs.service.pin)))
    assert (answer["status"], answer["gateway_url"]) == ("pending", url), answer
    await theirs.approve(answer["pairing_code"])
    first = await ours.reach("connected")
    await asyncio.to_thread(ours.gateway.stop)
    again = Joiner(await asyncio.to_thread(make_gateway, ours.gateway.config.data_dir))
    assert (await again.reach("connected"))["node_id"] == first["node_id"]
    left = await again.disconnect(str(PairingLink(base, pin=theirs.service.pin)))
    assert left["success"]
