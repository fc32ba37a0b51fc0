"""A message to the inbox is on disk before it is acknowledged, and is worked off in its turn, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from ag_ui.core import BaseEvent
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync
from support.turns import Gate, Reader, echo, kinds, register, say

from suzent_jupyter.protocol.agents import Turn

INBOX = "/channels/suzent/inbox"


async def send(http: httpx.AsyncClient, peer: dict[str, str], message_id: str, content: str) -> dict[str, Any]:
    answer = await http.post(INBOX, json={"message_id": message_id, "content": content}, headers=peer)
    assert answer.status_code == 202, answer.text
    body: dict[str, Any] = answer.json()
    assert set(body) == {"accepted", "created", "message_id", "status"}
    assert (body["accepted"], body["message_id"]) == (True, message_id)
    return body


async def transcript(
    http: httpx.AsyncClient, peer: dict[str, str], enough: Callable[[dict[str, Any]], bool]
) -> list[tuple[str, str]]:
    """Return the peer's conversation once it is as wanted."""
    async with asyncio.timeout(20):
        while True:
            session = (await http.get("/channels/suzent/session", headers=peer)).json()
            if enough(session):
                return [(each["role"], each["content"]) for each in session["messages"]]


def idle_with(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda session: session["message_count"] == count and session["status"] == "idle"


@sync
async def test_messages_are_worked_off_in_order(gateway: ThreadedGateway) -> None:
    at_once: list[int] = []
    running = 0

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0)
        for event in say(turn.message):
            yield event
        running -= 1

    agent = register(gateway, script)
    device_id, peer = await grant(gateway, "Lab")
    async with gateway.http() as http:
        first = await send(http, peer, "m.0", "  0 ")
        assert (first["created"], first["status"]) == (True, "queued")
        for number in range(1, 10):
            await send(http, peer, f"m.{number}", str(number))
        words = await transcript(http, peer, idle_with(20))
        assert words == [(role, str(number)) for number in range(10) for role in ("user", "assistant")]
        # Sent again: known, and not run again. Another content under the same id is refused.
        again = await send(http, peer, "m.3", "3")
        assert (again["created"], again["status"]) == (False, "done")
        other = await http.post(INBOX, json={"message_id": "m.3", "content": "x"}, headers=peer)
        assert error_of(other) == (409, "idempotency_conflict")
        # Ids are each peer's own.
        _, second = await grant(gateway, "Other")
        assert (await send(http, second, "m.3", "x"))["created"] is True
        await transcript(http, second, idle_with(2))
        devices = (await http.get("/nodes/devices")).json()["devices"]
        [uses] = [each["trigger_count"] for each in devices if each["device_id"] == device_id]
        assert uses >= 10
    assert at_once == [1] * 11
    assert [turn.caller.kind for turn in agent.turns] == ["peer"] * 11


@sync
async def test_it_waits_while_a_turn_runs(gateway: ThreadedGateway) -> None:
    gate = Gate(gateway)
    agent = register(gateway, gate)
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        async with Reader(http, "/channels/suzent/inbound", {"content": "first"}, headers=peer) as reader:
            await reader.next("TEXT_MESSAGE_CONTENT")
            assert (await send(http, peer, "1", "second"))["status"] == "queued"
            assert (await send(http, peer, "1", "second"))["status"] == "queued"
            assert len(agent.turns) == 1
            gate.open()
            assert kinds(await reader.rest())[-1] == "RUN_FINISHED"
        words = await transcript(http, peer, idle_with(4))
    assert [content for role, content in words if role == "user"] == ["first", "second"]


@sync
async def test_it_waits_for_an_agent(gateway: ThreadedGateway) -> None:
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        await send(http, peer, "1", "hello")
        session = (await http.get("/channels/suzent/session", headers=peer)).json()
        assert (session["message_count"], session["status"]) == (0, "idle")
        async with asyncio.timeout(3):  # sooner than it looks by itself
            register(gateway, echo)
            assert await transcript(http, peer, idle_with(2)) == [("user", "hello"), ("assistant", "hello")]
        assert (await send(http, peer, "1", "hello"))["status"] == "done"


@sync
async def test_a_failed_turn_is_not_run_again(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        raise RuntimeError
        yield

    agent = register(gateway, script)
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        await send(http, peer, "1", "x")
        await transcript(http, peer, idle_with(2))
        assert (await send(http, peer, "1", "x"))["status"] == "failed"
    assert len(agent.turns) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": "x"},
        {"message_id": "1"},
        {"message_id": "1", "content": "  "},
        {"message_id": "", "content": "x"},
        {"message_id": "a b", "content": "x"},
        {"message_id": "x" * 129, "content": "x"},
        {"message_id": 1, "content": "x"},
        {"message_id": "1", "content": 5},
        {"message_id": "1", "content": "x" * 20_001},
        {"message_id": "1", "content": "x", "from_id": "somebody"},
        [],
        "x",
    ],
)
@sync
async def test_exactly_two_fields(gateway: ThreadedGateway, body: Any) -> None:
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        answer = await http.post(INBOX, json=body, headers=peer)
        assert error_of(answer) == (400, "invalid_inbox")
        assert answer.json()["error"] == "Invalid inbox payload"


@sync
async def test_only_so_many_wait_and_only_peers_send(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"inbox_waiting": 3})
    _, peer = await grant(gateway)
    _, other = await grant(gateway, "Other")
    _, devices_only = await grant(gateway, covers="devices")
    async with gateway.http() as http:
        for number in range(3):
            await send(http, peer, str(number), "x")
        body = {"message_id": "4", "content": "x"}
        assert error_of(await http.post(INBOX, json=body, headers=peer)) == (429, "inbox_full")
        assert (await send(http, peer, "0", "x"))["created"] is False
        await send(http, other, "4", "x")
        assert error_of(await http.post(INBOX, json=body)) == (422, "invalid_request")
        assert error_of(await http.post(INBOX, json=body, headers=devices_only)) == (403, "not_granted")
        assert error_of(await http.post(INBOX, json=body, headers={"Authorization": ""})) == (401, "unauthorized")


@sync
async def test_a_paused_peer_waits_and_a_revoked_one_is_dropped(gateway: ThreadedGateway) -> None:
    gate = Gate(gateway)
    agent = register(gateway, gate)
    paused_id, paused = await grant(gateway, "Paused")
    revoked_id, revoked = await grant(gateway, "Revoked")
    async with gateway.http() as http:
        for peer in (paused, revoked):
            for number in range(3):
                await send(http, peer, str(number), str(number))
            await transcript(http, peer, lambda session: bool(session["status"] == "active"))
        await http.post(f"/nodes/devices/{revoked_id}/revoke")
        await http.post(f"/nodes/devices/{paused_id}/status", json={"status": "paused"})
        for device_id in (paused_id, revoked_id):
            async with asyncio.timeout(10):
                while True:
                    kept = (await http.get(f"/conversations/suzent:{device_id}")).json()
                    if kept["status"] == "idle":
                        break
            assert [each["outcome"] for each in kept["messages"]] == ["", "revoked"]
        gate.open()
        await http.post(f"/nodes/devices/{paused_id}/status", json={"status": "active"})
        words = await transcript(http, paused, idle_with(6))
        assert [content for role, content in words if role == "user"] == ["0", "1", "2"]
        assert (await http.get(f"/conversations/suzent:{revoked_id}")).json()["message_count"] == 2
    assert [turn.message for turn in agent.turns if turn.caller.device_id == revoked_id] == ["0"]


@sync
async def test_a_gateway_that_stops_runs_it_again_at_its_next_start(
    make_gateway: Callable[..., ThreadedGateway],
) -> None:
    gateway = make_gateway()
    register(gateway, Gate(gateway))
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        for number in range(2):
            await send(http, peer, str(number), str(number))
        await transcript(http, peer, lambda session: bool(session["status"] == "active"))
    await asyncio.to_thread(gateway.stop)
    again = make_gateway(data_dir=gateway.config.data_dir)
    register(again, echo)
    async with again.http() as http:
        words = await transcript(http, peer, idle_with(4))
    assert words == [(role, str(number)) for number in range(2) for role in ("user", "assistant")]
