"""SIGKILL in the middle of chats: each says that it was interrupted, none hangs, and the next one is answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from support.chats import begin, code, read, text_of
from support.client import BareClient
from support.executing import Work, Worker, hang
from support.gateways import Addresses
from support.keyed import Key
from support.running import sync, until
from support.zygote import ForkedGateway, Zygote

KILLS = 4
WORD = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "word "}


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    made = Zygote(tmp_path)
    yield made
    made.close()


async def hello(node: Worker, run: dict[str, Any]) -> str:
    return f"did {run['message']}"


async def talks(node: Worker, run: dict[str, Any]) -> str:
    await node.send({"type": "chat.event", "run_id": run["run_id"], "seq": 0, "event": WORD})
    return await hang(node, run)


async def calls(node: Worker, run: dict[str, Any]) -> str:
    event = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look"}
    await node.send({"type": "chat.event", "run_id": run["run_id"], "seq": 0, "event": event})
    return await hang(node, run)


async def conversation(gateway: Addresses, session_id: str) -> dict[str, Any]:
    async with gateway.http() as http:
        return dict((await http.get(f"/conversations/{session_id}")).json())


@sync
async def test_at_each_stage_of_a_run(zygote: Zygote) -> None:
    key = Key()
    gateway = await asyncio.to_thread(zygote.start)
    stages: tuple[tuple[Work, str], ...] = (
        (hang, "RUN_STARTED"),
        (talks, "TEXT_MESSAGE_CONTENT"),
        (calls, "TOOL_CALL_START"),
        (hello, "RUN_FINISHED"),
    )
    for work, last in stages:
        async with Worker(gateway, "A", work, key=key) as node, BareClient(gateway) as client:
            accepted = await begin(client, message="this")
            await until(lambda node=node: node.runs)
            while (await client.recv("chat.event"))["event"]["type"] != last:
                pass
            gateway.kill()
            assert (await client.closed())[0] == 1006
        gateway = await asyncio.to_thread(zygote.start)
        session = accepted["session_id"]
        async with Worker(gateway, "A", hello, key=key) as node, BareClient(gateway) as client:
            assert "pending" not in {frame["type"] for frame in node.frames}
            for kind in ("chat.watch", "chat.abort"):
                assert await code(client, type=kind, run_id=accepted["run_id"]) == "run_unknown"
            kept = await conversation(gateway, session)
            asked, answered = kept["messages"]
            assert (kept["status"], asked["content"]) == ("idle", "this")
            assert asked["detail"]["routing"]["choice"]["node_id"] == accepted["node_id"] == node.node_id
            whole = ("did this", "done") if last == "RUN_FINISHED" else ("", "interrupted")
            assert (answered["content"], answered["outcome"]) == whole
            # The node was told nothing of the turn that is gone, and takes the next one in the same conversation.
            assert [frame for frame in node.frames if frame["type"].startswith("chat.")] == []
            again = await begin(client, message="next", session_id=session)
            assert text_of(await read(client, again["run_id"])) == "did next"
            assert [each["content"] for each in node.runs[0]["turn"]["history"]][:1] == ["this"]
            kept = await conversation(gateway, session)
            assert [each["outcome"] for each in kept["messages"][1::2]] == [whole[1], "done"]
    gateway.kill()


async def chat(gateway: ForkedGateway, number: int, sessions: list[str], done: dict[str, str]) -> None:
    """Chat until the gateway is gone."""
    async with BareClient(gateway) as client:
        for count in range(10_000):
            message = f"{number}.{count}"
            accepted = await begin(client, message=message)
            sessions.append(accepted["session_id"])
            await read(client, accepted["run_id"])
            done[accepted["session_id"]] = f"did {message}"


@sync
async def test_at_any_moment(zygote: Zygote) -> None:
    chance, key = random.Random(5), Key()
    sessions: list[str] = []
    done: dict[str, str] = {}
    gateway = await asyncio.to_thread(zygote.start)
    for number in range(KILLS):
        async with Worker(gateway, "A", hello, key=key):
            chatting = [asyncio.create_task(chat(gateway, 10 * number + each, sessions, done)) for each in range(3)]
            before = len(done)
            await until(lambda before=before: len(done) > before + 3, 30)
            await asyncio.sleep(chance.uniform(0.0, 0.05))  # the moment is random; nothing is waited for
            gateway.kill()
            async with asyncio.timeout(20):
                for outcome in await asyncio.gather(*chatting, return_exceptions=True):
                    assert isinstance(outcome, websockets.ConnectionClosed), repr(outcome)
        gateway = await asyncio.to_thread(zygote.start)
    outcomes = set()
    async with Worker(gateway, "A", hello, key=key), BareClient(gateway) as client:
        assert text_of(await read(client, (await begin(client, message="now"))["run_id"])) == "did now"
        for session in sessions:
            kept = await conversation(gateway, session)
            asked, answered = kept["messages"]
            assert kept["status"] == "idle" and asked["content"]
            outcomes.add(answered["outcome"])
            if session in done:
                assert (answered["content"], answered["outcome"]) == (done[session], "done")
    assert outcomes <= {"done", "interrupted"} and len(done) > KILLS
    gateway.kill()
