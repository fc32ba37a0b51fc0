"""SIGKILL at any moment loses no acknowledged approval and no acknowledged revoke, and the store opens again."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import httpx
import pytest
import websockets
from support.calls import store_loaded
from support.device import BareDevice
from support.zygote import ForkedGateway, Zygote

KILLS = 50


class Book:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.approved: dict[str, str] = {}
        self.revoked: dict[str, str] = {}
        self.fresh: list[str] = []
        self.first = asyncio.Event()


async def operate(gateway: ForkedGateway, book: Book, number: int) -> None:
    """Join, approve and revoke until the gateway is gone."""
    step = 0
    async with gateway.http() as http:
        while True:
            step += 1
            async with BareDevice(gateway.node_url, f"Device {number}.{step}") as device:
                answer = await http.post(f"/nodes/pending/{await device.code()}/approve")
                assert answer.status_code == 200, answer.text
                node_id = answer.json()["device_id"]
                await device.joined()
                book.approved[node_id] = device.token
                book.fresh.append(node_id)
                if step % 2:
                    del book.approved[node_id]  # from here until the answer either may be true
                    answer = await http.post(f"/nodes/devices/{node_id}/revoke")
                    assert answer.status_code == 200, answer.text
                    book.revoked[node_id] = device.token
                book.first.set()


async def until_killed(gateway: ForkedGateway, book: Book, delay: float) -> None:
    workers = [asyncio.create_task(operate(gateway, book, number)) for number in range(4)]
    await book.first.wait()
    await asyncio.sleep(delay)  # the moment is random; nothing is waited for
    gateway.kill()
    for outcome in await asyncio.gather(*workers, return_exceptions=True):
        assert isinstance(outcome, httpx.HTTPError | websockets.WebSocketException | OSError), repr(outcome)


async def check(gateway: ForkedGateway, book: Book) -> None:
    await store_loaded(gateway)
    async with gateway.http() as http:
        assert (await http.get("/nodes/config")).json()["store"] == "ok"
        listed = {each["device_id"] for each in (await http.get("/nodes/devices")).json()["devices"]}
    assert set(book.approved) <= listed
    assert not listed & set(book.revoked)
    for node_id in book.fresh[-4:]:
        token = book.approved.get(node_id) or book.revoked.get(node_id)
        if token is not None:
            async with BareDevice(gateway.node_url, device_token=token) as device:
                frame = await device.recv()
                assert frame["type"] == ("connected" if node_id in book.approved else "pending")
                assert frame.get("node_id", node_id) == node_id


@pytest.mark.timeout(300)  # 50 starts of a process
def test_kill_during_approvals_and_revokes(tmp_path: Path) -> None:
    chance = random.Random(7)
    zygote = Zygote(tmp_path)
    try:

        async def work() -> None:
            book = Book()
            gateway = zygote.start()
            kills = 0
            while (
                kills < KILLS or min(len(book.approved), len(book.revoked)) <= KILLS
            ):  # a busy machine does less in between
                kills += 1
                book.fresh.clear()
                book.first.clear()
                await until_killed(gateway, book, chance.uniform(0.0, 0.12))
                gateway = zygote.start()
                await check(gateway, book)
            gateway.kill()

        asyncio.run(work())
    finally:
        zygote.close()
    with sqlite3.connect(zygote.data_dir / "suzent.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
