"""SIGKILL while memory is kept and forgotten: what was acknowledged holds, and the file stays sound."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.gateways import Addresses
from support.running import sync
from support.zygote import Zygote

KILLS = 4


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    made = Zygote(tmp_path)
    yield made
    made.close()


@sync
async def test_no_acknowledged_save_or_forget_is_lost(zygote: Zygote) -> None:
    chance = random.Random(4)
    kept: dict[str, str] = {}
    forgotten: set[str] = set()
    doubtful: set[str] = set()

    async def save(http: httpx.AsyncClient, lane: int) -> None:
        for number in range(10_000):
            text = f"fact{lane}x{number}x{len(kept)}"
            doubtful.add(text)
            answer = (await http.post("/memory", json={"content": text})).json()["memory"]
            kept[answer["memory_id"]] = text
            if number % 3 == 2:
                memory_id = answer["memory_id"]
                doubtful.add(text)
                del kept[memory_id]
                gone = await http.request("DELETE", "/memory", json={"ids": [memory_id]})
                assert gone.json()["forgotten"] == 1
                forgotten.add(text)

    async def until_it_dies(gateway: Addresses, lane: int) -> None:
        with contextlib.suppress(httpx.TransportError):
            async with gateway.http() as http:
                await save(http, lane)

    for _ in range(KILLS):
        gateway = await asyncio.to_thread(zygote.start)
        before = len(kept)
        lanes = [asyncio.create_task(until_it_dies(gateway, lane)) for lane in range(4)]
        while len(kept) < before + chance.randint(5, 25):
            await asyncio.sleep(0.001)
        gateway.kill()
        await asyncio.gather(*lanes)
    gateway = await asyncio.to_thread(zygote.start)
    async with gateway.http() as http:
        answer = (await http.get("/memory")).json()
        found = {each["memory_id"]: each["content"] for each in answer["memories"]}
        assert answer["next"] is None
        assert kept.items() <= found.items()
        assert not forgotten & set(found.values())
        assert set(found.values()) <= set(kept.values()) | doubtful
        # The index knows exactly what is there.
        for memory_id, text in found.items():
            hits = (await http.get("/memory", params={"query": text})).json()["memories"]
            assert hits[0]["memory_id"] == memory_id
        for text in forgotten:
            hits = (await http.get("/memory", params={"query": text})).json()["memories"]
            assert text not in {each["content"] for each in hits}
    gateway.kill()
