"""One gateway drives the agent of another: the events pass through both, with what comes along, and the end of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
from ag_ui.core import BaseEvent
from support.gateways import ThreadedGateway
from support.running import sync, until
from support.turns import Gate, Scripted, register, say

from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.text import clean_text


async def controlled(here: ThreadedGateway, there: ThreadedGateway) -> tuple[str, str]:
    """Have one gateway control another; return the peer's id here, and the grant's there."""
    async with here.http() as http, there.http() as operator:
        asked = (await http.post("/nodes/control", json={"base_url": there.url, "name": "There"})).json()
        [waiting] = (await operator.get("/nodes/grants")).json()["grants"]
        approved = await operator.post(f"/nodes/grants/{waiting['request_id']}/approve")
        assert approved.status_code == 200, approved.text
        query = {"base_url": asked["base_url"], "request_id": asked["request_id"], "name": "There"}
        async with asyncio.timeout(10):
            while not (status := (await http.get("/nodes/control-status", params=query)).json()).get("peer_id"):
                await asyncio.sleep(0.05)
        return str(status["peer_id"]), str(approved.json()["device_id"])


async def trigger(http: httpx.AsyncClient, peer: str, body: Any) -> AsyncIterator[str]:
    async with http.stream("POST", f"/nodes/peers/{peer}/trigger", json=body) as answer:
        if answer.status_code != 200:
            raise AssertionError((await answer.aread()).decode())
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield line[6:]


@sync
async def test_a_prompt_with_a_file(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    here, there = make_gateway(), make_gateway()
    photo = tmp_path / "photo.txt"
    photo.write_text("what it shows")
    seen: list[tuple[str, Path]] = []

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        for each in turn.attachments:
            seen.append((await asyncio.to_thread(each.path.read_text), each.path))
        for event in say("got ", clean_text(turn.attachments[0].name, 64)):
            yield event

    agent: Scripted = register(there, script)
    peer, grant_id = await controlled(here, there)
    async with here.http() as http, there.http() as operator:
        body = {"prompt": "look", "attachments": [{"path": str(photo)}]}
        lines = [line async for line in trigger(http, peer, body)]
        assert "RUN_FINISHED" in lines[-1], lines
        assert "photo.txt" in "".join(lines)
        kept = (await operator.get(f"/conversations/suzent:{grant_id}")).json()["messages"]
    assert seen[0][0] == "what it shows"
    assert [each["content"] for each in kept] == ["look", "got photo.txt"]
    assert [each["name"] for each in kept[0]["detail"]["attachments"]] == ["photo.txt"]
    assert "path" not in kept[0]["detail"]["attachments"][0]
    assert agent.turns[0].caller.device_id == grant_id
    await until(lambda: not seen[0][1].exists())  # it lay there for the turn only


@sync
async def test_revoked_while_it_answers(make_gateway: Callable[..., ThreadedGateway]) -> None:
    here, there = make_gateway(), make_gateway()
    gate = Gate(there)
    register(there, gate)
    peer, grant_id = await controlled(here, there)
    async with here.http() as http, there.http() as operator:
        lines = []
        async with asyncio.timeout(20):
            async for line in trigger(http, peer, {"prompt": "x"}):
                lines.append(line)
                if "begun" in line:
                    assert (await operator.post(f"/nodes/devices/{grant_id}/revoke")).status_code == 200
        assert "RUN_ERROR" in lines[-1] and "revoked" in lines[-1]
    await until(lambda: gate.cancelled == 1)
