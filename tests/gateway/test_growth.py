"""What peers leave on this machine's disk is bounded, and only their own goes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import httpx
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync
from support.turns import ask, echo, register

INBOUND, INBOX = "/channels/suzent/inbound", "/channels/suzent/inbox"
Make = Callable[..., ThreadedGateway]


async def listed(http: httpx.AsyncClient) -> set[str]:
    return {each["conversation_id"] for each in (await http.get("/conversations")).json()["conversations"]}


@sync
async def test_a_peers_oldest_conversations_go(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"peer_conversations": 2})
    register(gateway, echo)
    device_id, peer = await grant(gateway)
    async with gateway.http() as http:
        await ask(http, "/chat", {"message": "mine", "chat_id": "mine"})
        for name in ("a", "b", "c"):
            await ask(http, INBOUND, {"content": "x", "chat_id": name}, headers=peer)
        assert await listed(http) == {"mine", f"suzent:{device_id}:b", f"suzent:{device_id}:c"}
        whole = (await http.get(f"/conversations/suzent:{device_id}:c")).json()
        assert [each["content"] for each in whole["messages"]] == ["x", "x"]
        gone = await http.get(f"/conversations/suzent:{device_id}:a")
        assert gone.status_code == 404
    assert rows(gateway, "messages") == 6


def rows(gateway: ThreadedGateway, table: str) -> int:
    with sqlite3.connect(gateway.config.data_dir / "suzent.db") as connection:
        count: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return count


@sync
async def test_a_peers_oldest_messages_go(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"peer_messages_bytes": 100_000})
    register(gateway, echo)
    _, other = await grant(gateway, "other")
    device_id, peer = await grant(gateway)
    async with gateway.http() as http:
        await ask(http, "/chat", {"message": "mine", "chat_id": "mine"})
        await ask(http, INBOUND, {"content": "the other's"}, headers=other)
        await ask(http, INBOUND, {"content": "old", "chat_id": "old"}, headers=peer)
        for number in range(12):
            await ask(http, INBOUND, {"content": f"{number} {'x' * 20_000}"}, headers=peer)
        conversations = await listed(http)
        assert "mine" in conversations and len(conversations) == 3
        assert f"suzent:{device_id}:old" not in conversations
        kept = (await http.get(f"/conversations/suzent:{device_id}")).json()["messages"]
        assert kept[-2]["content"].startswith("11 ")
        assert sum(len(each["content"]) for each in kept) < 170_000


@sync
async def test_finished_messages_are_known_so_far_back(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"inbox_known": 3})
    register(gateway, echo)
    _, peer = await grant(gateway)
    async with gateway.http() as http:

        async def send(message_id: str) -> dict[str, Any]:
            answer = await http.post(INBOX, json={"message_id": message_id, "content": "x"}, headers=peer)
            assert answer.status_code == 202, answer.text
            body: dict[str, Any] = answer.json()
            return body

        for number in range(6):
            await send(str(number))
            async with asyncio.timeout(20):
                while (await send(str(number)))["status"] not in ("done", "failed"):
                    await asyncio.sleep(0.01)
        assert (await send("5"))["created"] is False
        assert rows(gateway, "inbox") == 3
        assert (await send("0"))["created"] is True
