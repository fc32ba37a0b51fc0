"""SIGKILL at any moment loses no acknowledged prompt, message or answer, and runs nothing twice that was answered."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.running import until
from support.turns import Reader
from support.zygote import ForkedGateway, Zygote

KILLS = 12
UNFINISHED = "SELECT id FROM inbox WHERE status NOT IN ('done', 'failed')"
INBOX = "/channels/suzent/inbox"


class Book:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.begun: dict[str, str] = {}
        self.answered: dict[str, str] = {}

    async def grown(self) -> None:
        """Wait until there is more of each."""
        sent, answered = len(self.sent), len(self.answered)
        await until(lambda: len(self.sent) > sent + 2 and len(self.answered) > answered + 1, 30)


async def control(gateway: ForkedGateway) -> dict[str, str]:
    """Ask for control, grant it, and return the holder's headers."""
    async with gateway.http(headers={}) as http, gateway.http() as operator:
        asked = (await http.post("/nodes/grant-request", json={"controller_name": "Lab"})).json()
        approved = await operator.post(f"/nodes/grants/{asked['request_id']}/approve")
        assert approved.status_code == 200, approved.text
        token = (await http.get(f"/nodes/grant-status/{asked['request_id']}")).json()["token"]
    return {"Authorization": f"Bearer {token}"}


async def send(gateway: ForkedGateway, peer: dict[str, str], book: Book, round_number: int) -> None:
    """Leave messages until the gateway is gone."""
    async with gateway.http(headers=peer) as http:
        for number in range(10_000):
            message = f"{round_number}.{number}"
            answer = await http.post(INBOX, json={"message_id": message, "content": message})
            if answer.status_code == 429:
                await asyncio.sleep(0.01)
                continue
            assert answer.status_code == 202, answer.text
            book.sent.append(message)


async def chat(gateway: ForkedGateway, book: Book, round_number: int) -> None:
    """Chat until the gateway is gone."""
    async with gateway.http() as http:
        for number in range(10_000):
            prompt = f"chat {round_number}.{number}"
            async with Reader(http, "/chat", {"message": prompt}) as reader:
                started = await reader.next("RUN_STARTED")
                book.begun[started["threadId"]] = prompt
                await reader.next("RUN_FINISHED")
                book.answered[started["threadId"]] = f"did {prompt}"


def rows(database: Path, query: str) -> list[Any]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.timeout(200)  # 12 starts of a process
def test_kill_during_turns(tmp_path: Path) -> None:
    chance = random.Random(11)
    notes = tmp_path / "notes"
    zygote = Zygote(tmp_path, f"from support.noting_agent import install\ninstall({str(notes)!r})")
    database = zygote.data_dir / "suzent.db"
    book = Book()

    async def work() -> None:
        gateway = zygote.start()
        peer = await control(gateway)
        for number in range(KILLS):
            busy = [
                asyncio.create_task(send(gateway, peer, book, number)),
                asyncio.create_task(chat(gateway, book, number)),
            ]
            await book.grown()
            await asyncio.sleep(chance.uniform(0.0, 0.2))  # the moment is random; nothing is waited for
            gateway.kill()
            for outcome in await asyncio.gather(*busy, return_exceptions=True):
                # The reader's own check sees a stream that was cut off.
                assert isinstance(outcome, httpx.HTTPError | OSError | AssertionError), repr(outcome)
                assert not isinstance(outcome, AssertionError) or "ended without" in str(outcome), repr(outcome)
            done = {row[0] for row in rows(database, "SELECT message_id FROM inbox WHERE status='done'")}
            before = Counter(notes.read_text().split("\n"))
            gateway = zygote.start()
            await settled(gateway, peer)
            after = Counter(notes.read_text().split("\n"))
            assert {message: after[message] for message in done} == {message: before[message] for message in done}
        gateway.kill()

    async def settled(gateway: ForkedGateway, peer: dict[str, str]) -> None:
        """Wait until every message has its answer; one that is sent again says so.

        One whose acknowledgement was lost with the gateway comes after the last of ours.
        """
        async with gateway.http(headers=peer) as http, asyncio.timeout(60):
            last = book.sent[-1]
            while True:
                answer = await http.post(INBOX, json={"message_id": last, "content": last})
                assert answer.json()["created"] is False
                if answer.json()["status"] == "done" and not rows(database, UNFINISHED):
                    return
                await asyncio.sleep(0.02)

    try:
        asyncio.run(work())
    finally:
        zygote.close()

    assert len(book.sent) > KILLS
    assert len(book.answered) > KILLS
    talk = rows(
        database,
        "SELECT role, content, outcome, run_id FROM messages WHERE conversation_id LIKE 'suzent:%' ORDER BY id",
    )
    prompts = [row[1] for row in talk if row[0] == "user"]
    assert len(prompts) == len(set(prompts))
    # In order, each with one answer; what was sent but not acknowledged may be among them.
    assert [prompt for prompt in prompts if prompt in set(book.sent)] == book.sent
    for prompt, answer in zip(talk[::2], talk[1::2], strict=True):
        assert (answer[0], answer[1], answer[2], answer[3]) == ("assistant", f"did {prompt[1]}", "done", prompt[3])

    kept: dict[str, list[tuple[str, str, str]]] = {}
    for conversation, role, content, outcome in rows(
        database, "SELECT conversation_id, role, content, outcome FROM messages WHERE conversation_id LIKE 'chat:%'"
    ):
        kept.setdefault(conversation, []).append((role, content, outcome))
    for conversation, prompt in book.begun.items():
        asked, answered = kept[conversation]
        assert asked == ("user", prompt, "")
        if conversation in book.answered:
            assert answered == ("assistant", book.answered[conversation], "done")
        else:
            assert answered[2] in ("done", "interrupted")
    outcomes = Counter(answer[2] for talk_rows in kept.values() for answer in talk_rows[1:])
    assert outcomes["interrupted"] >= 1
