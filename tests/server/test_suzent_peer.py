"""A Suzent server as a peer: what it does otherwise than a gateway of ours, and what is made of that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.played_suzent import PlayedSuzent
from support.running import sync, until
from support.two import ask, get, post


@pytest.fixture
def suzent() -> Iterator[PlayedSuzent]:
    with PlayedSuzent("box", "--remote") as server:
        yield server


async def driven(gateway: ThreadedGateway, suzent: PlayedSuzent) -> tuple[str, str]:
    """Get control of the server; returns the peer's id here, and the grant's there."""
    asked = await post(gateway, "/nodes/control", {"base_url": suzent.url, "name": "Box"})
    device = suzent.do("approve", request_id=asked["request_id"])
    query = f"base_url={suzent.url}&request_id={asked['request_id']}"
    peer_id = (await get(gateway, f"/nodes/control-status?{query}"))["peer_id"]
    await get(gateway, "/nodes/peers?refresh=1")
    return peer_id, device


async def trigger(gateway: ThreadedGateway, peer_id: str, **body: Any) -> str:
    answer = await ask(gateway, "POST", f"/nodes/peers/{peer_id}/trigger", json=body)
    assert answer.status_code == 200, answer.text
    return answer.text


@sync
async def test_it_keeps_the_prompt_since_its_turn_is_heard_out(
    make_gateway: Callable[..., ThreadedGateway], suzent: PlayedSuzent
) -> None:
    gateway = make_gateway()
    peer_id, device = await driven(gateway, suzent)
    async with gateway.http() as http, http.stream(
        "POST", f"/nodes/peers/{peer_id}/trigger", json={"prompt": "remember me"}
    ) as answer:  # fmt: skip
        async for line in answer.aiter_lines():
            if "RUN_FINISHED" in line:
                break  # and the notebook hangs up
    kept = await until(lambda: suzent.do("look", what="sessions"))
    assert [each["role"] for each in kept[f"suzent:{device}"]] == ["user", "assistant"]


@sync
async def test_the_turn_that_is_meant_is_stopped(
    make_gateway: Callable[..., ThreadedGateway], suzent: PlayedSuzent
) -> None:
    gateway = make_gateway()
    peer_id, device = await driven(gateway, suzent)
    suzent.do("set", script=[{"text": "one"}, {"wait": "gate"}, {"text": "two"}])
    usual = asyncio.ensure_future(trigger(gateway, peer_id, prompt="usual"))
    named = asyncio.ensure_future(trigger(gateway, peer_id, prompt="named", chat_id="work"))
    await until(lambda: len(suzent.do("look", what="running_chats")) == 2)
    stopped = await post(gateway, f"/nodes/peers/{peer_id}/stop", {"chat_id": "work"})
    assert stopped["agent_id"] == f"suzent:{device}:work"
    assert "two" not in await asyncio.wait_for(named, 10)
    assert suzent.do("look", what="running_chats") == [f"suzent:{device}"]
    again = await ask(gateway, "POST", f"/nodes/peers/{peer_id}/stop", json={"chat_id": "work"})
    assert error_of(again) == (409, "nothing_running")
    suzent.do("go", gate="gate")
    assert "two" in await asyncio.wait_for(usual, 10)


@sync
async def test_a_device_that_it_would_not_call_is_not_called(
    make_gateway: Callable[..., ThreadedGateway], suzent: PlayedSuzent
) -> None:
    gateway = make_gateway()
    peer_id, _ = await driven(gateway, suzent)
    suzent.do("set", nodes=[{"display_name": name, "answers": {"echo": {"at": name}}} for name in ("First", "Second")])
    path = f"/nodes/peers/{peer_id}/invoke"
    assert (await post(gateway, path, {"command": "echo", "node": "first"}))["result"] == {"at": "First"}
    refused = await ask(gateway, "POST", path, json={"command": "echo", "node": "Second"})
    assert error_of(refused) == (502, "peer_refused")
    assert "'First'" in refused.json()["error"]
    assert len(suzent.requests("/nodes/peer-invoke")) == 1
