"""Random frames on ``/ws/gateway``, from strangers, waiting and connected nodes and people: nothing raises."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import pytest
from support.chats import Person
from support.client import BareClient
from support.frames import send_all
from support.gateways import ThreadedGateway
from support.keyed import Key, KeyedNode, admit, multinode_url

KINDS = (
    "connect connect.challenge tick node.list node.update node.invoke.request node.invoke.cancel node.invoke.progress "
    "node.invoke.result chat.send chat.watch chat.unwatch chat.abort chat.event permission.response"
).split()
NAMES = (
    "type id run_id seq event node_id command agent params timeout_ms ok result error fraction message data session_id "
    "target_node_id attachments name media_type base64 role node jwt features ticket capabilities description tags "
    "platform scope input_schema delta messageId x"
).split()
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**53, 2**64, -(2**70), 10**400, 0.5, -1e308, 5e-324, "", " ",
    "é\u2028", "\0", "x" * 200,
    *KINDS, "Fuzz", "Fu", "echo", "RUN", "app", "web", "hi", "TEXT_MESSAGE_CONTENT", "RUN_ERROR", "AAAA",
)  # fmt: skip
#: What has the right shape gets further in.
SHAPED = {"id": 1, "run_id": "RUN", "node_id": "Fuzz", "command": "echo", "message": "hi", "seq": 0}


def a_value(chance: random.Random, depth: int = 3) -> Any:
    match chance.randrange(6) if depth else 0:
        case 4:
            return [a_value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 5:
            return some_fields(chance, depth - 1)
    return chance.choice(SCALARS)


def some_fields(chance: random.Random, depth: int = 3) -> dict[str, Any]:
    return {chance.choice(NAMES): a_value(chance, depth) for _ in range(chance.randrange(6))}


def a_frame(chance: random.Random) -> str | bytes:
    match chance.randrange(8):
        case 0:
            return chance.randbytes(chance.randrange(40))
        case 1:
            return json.dumps(a_value(chance))
        case 2 | 3:
            return json.dumps({**some_fields(chance), "type": chance.choice(KINDS)})
    return json.dumps({**SHAPED, **some_fields(chance), "type": chance.choice(KINDS)})


def test_random_frames(gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture) -> None:
    key, url = Key(), multinode_url(gateway)

    async def pair() -> None:
        async with KeyedNode(url, "Fuzz", key, agent=True) as node:
            await admit(gateway, node)

    asyncio.run(pair())

    async def as_stranger(batch: list[str | bytes]) -> None:
        for start in range(0, len(batch), 20):
            nodes = [await KeyedNode(url).open() for _ in batch[start : start + 20]]
            await asyncio.gather(
                *(send_all(node.ws, [frame]) for node, frame in zip(nodes, batch[start:], strict=False))
            )
            await asyncio.gather(*(node.ws.close() for node in nodes))

    async def as_waiting(batch: list[str | bytes]) -> None:
        async with KeyedNode(url, "Waits") as node:
            await node.code()
            assert await send_all(node.ws, batch) == len(batch)

    async def as_node(batch: list[str | bytes]) -> None:
        gateway.call(gateway.service.gateway.sessions._replacements.clear)
        async with KeyedNode(url, "Fuzz", key, agent=True) as node, BareClient(gateway) as client:
            await node.joined()
            await client.send(type="subscribe", topics=["nodes", "pending", "runs", "turns", "conversations", "audit"])
            await client.send(type="chat.send", id="1", message="hi", target_node_id="Fuzz")
            run_id = (await node.recv("chat.run"))["run_id"]
            mine = [each.replace('"RUN"', f'"{run_id}"') if isinstance(each, str) else each for each in batch]
            assert await send_all(node.ws, mine) == len(batch)

    async def as_person(batch: list[str | bytes]) -> None:
        async with Person(gateway) as person:
            assert await send_all(person.ws, batch) == len(batch)

    async def everywhere(batch: list[str | bytes]) -> None:
        await asyncio.gather(as_stranger(batch), as_waiting(batch), as_node(batch), as_person(batch))

    chance = random.Random(5)
    for _ in range(5):
        asyncio.run(everywhere([a_frame(chance) for _ in range(60)]))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
