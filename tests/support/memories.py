"""The memory over HTTP: people of several accounts on one gateway, and what they keep."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from suzent_jupyter.gateway.devices import Device

from .gateways import ThreadedGateway

Record = dict[str, Any]


class Person:
    """Somebody with a token of full authority. Use as ``async with``."""

    def __init__(self, gateway: ThreadedGateway, account: str, org: str = "") -> None:
        device = Device("", b"", f"{account}'s token", scope="full", account=account, org=org)
        _, self.token = gateway.run(gateway.service.gateway.credentials.adopt(device))
        self.account, self.url, self.service = account, gateway.url, gateway.service
        self.http = gateway.http(headers={"Authorization": f"Bearer {self.token}"})

    async def __aenter__(self) -> Person:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.http.aclose()

    async def keep(self, content: str, level: str = "account", **more: Any) -> Record:
        answer = await self.http.post("/memory", json={"content": content, "level": level, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def found(self, query: str = "", **more: Any) -> list[Record]:
        answer = await self.http.get("/memory", params={"query": query, **more})
        assert answer.status_code == 200, answer.text
        assert answer.json()["count"] == len(answer.json()["memories"])
        return list(answer.json()["memories"])

    async def texts(self, query: str = "", **more: Any) -> list[str]:
        return [each["content"] for each in await self.found(query, **more)]

    async def forget(self, *ids: str, level: str = "account", **more: Any) -> httpx.Response:
        return await self.http.request("DELETE", "/memory", json={"level": level, "ids": list(ids), **more})

    async def chat(self, chat_id: str, message: str = "hi") -> None:
        """Begin a conversation."""
        assert (await self.http.post("/chat", json={"message": message, "chat_id": chat_id})).status_code == 200


async def person(gateway: ThreadedGateway, account: str, org: str = "") -> Person:
    return await asyncio.to_thread(Person, gateway, account, org)


async def several(gateway: ThreadedGateway, *accounts: str, org: str = "") -> Sequence[Person]:
    return [await person(gateway, account, org) for account in accounts]
