"""Agents over a client socket that the test plays by hand: registering, turns, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from support.agent_turns import ADA, TURN, Answering, chosen
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.running import sync, until

from suzent_jupyter.gateway.principals import Authority, Principal
from suzent_jupyter.protocol.errors import SuzentError


async def register(client: BareClient, name: str = "answer", agent_id: str = "a") -> None:
    await client.send(type="agent.register", id=agent_id, name=name)
    assert (await client.recv("agent.registered"))["id"] == agent_id


async def content(client: BareClient, turn_id: str, *deltas: str) -> None:
    for delta in deltas:
        event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta}
        await client.send(type="agent.event", turn_id=turn_id, event=event)


@sync
async def test_a_turn(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await register(client)
        answering = Answering(gateway)
        asked = await client.recv("agent.turn")
        assert asked["id"] == "a" and asked["turn"]["message"] == "hello" and asked["turn"]["run_id"] == "r1"
        await client.send(
            type="agent.event", turn_id=asked["turn_id"], event={"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
        )
        await content(client, asked["turn_id"], *(f"{number}\u2028" for number in range(2000)))
        await client.send(type="agent.event", turn_id=asked["turn_id"], done=True)
        await answering.end()
        assert answering.text == "".join(f"{number}\u2028" for number in range(2000))
        assert len(answering.events) == 2000


@sync
async def test_the_newest_agent_is_asked_and_when_it_ends_the_one_before(gateway: ThreadedGateway) -> None:
    assert chosen(gateway) == "no_agent"
    async with BareClient(gateway) as one, BareClient(gateway) as two:
        await register(one, "first")
        await register(two, "second")
        assert chosen(gateway) == "second"
        await register(one, "first again")
        assert chosen(gateway) == "first again"
        assert chosen(gateway, Principal(Authority.FULL, "bob")) == "no_agent"
        await one.send(type="agent.unregister", id="a")
        await until(lambda: chosen(gateway) == "second")
        await register(one, "first")
        await one.ws.close()
        await until(lambda: chosen(gateway) == "second")
    await until(lambda: chosen(gateway) == "no_agent")


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "agent.register", "id": "a", "name": "\u202e"},
        {"type": "agent.register", "id": "", "name": "answer"},
        {"type": "agent.register", "id": "x" * 129, "name": "answer"},
        {"type": "agent.register", "id": 5, "name": "answer"},
        {"type": "agent.unregister"},
        {"type": "agent.event", "event": {}},
    ],
)
def test_frames_with_a_wrong_field_are_refused(gateway: ThreadedGateway, frame: dict[str, Any]) -> None:
    async def main() -> None:
        async with BareClient(gateway) as client:
            await client.send(**frame)
            assert (await client.recv("error"))["code"] == "bad_frame"
            await register(client)  # the socket goes on

    asyncio.run(main())


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "NO_SUCH_EVENT"}, "type is unknown"),
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}, "delta"),
        ({}, "type is unknown"),
        (7, "type is unknown"),
        (None, "type is unknown"),
        ({"type": "RUN_ERROR", "message": "out\x1b[31m of ink"}, "out of ink"),
    ],
)
def test_what_is_no_event_fails_the_turn(gateway: ThreadedGateway, event: Any, said: str) -> None:
    async def main() -> None:
        async with BareClient(gateway) as client:
            await register(client)
            answering = Answering(gateway)
            turn_id = (await client.recv("agent.turn"))["turn_id"]
            await content(client, turn_id, "so far")
            await client.send(type="agent.event", turn_id=turn_id, event=event)
            error = await answering.failure()
            assert error.code == "agent_failed" and said in error.message
            assert answering.text == "so far"
            assert (await client.recv("agent.cancel"))["turn_id"] == turn_id
            assert chosen(gateway) == "answer"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "expected"), [("turn_limit", "turn_limit"), ("revoked", "agent_failed"), (None, "agent_failed")]
)
def test_a_turn_that_fails_over_there(gateway: ThreadedGateway, code: str | None, expected: str) -> None:
    async def main() -> None:
        async with BareClient(gateway) as client:
            await register(client)
            answering = Answering(gateway)
            turn_id = (await client.recv("agent.turn"))["turn_id"]
            await client.send(
                type="agent.event", turn_id=turn_id, done=True, error="answer raised KeyError: 'x'", code=code
            )
            error = await answering.failure()
            assert (error.code, error.message) == (expected, "answer raised KeyError: 'x'")

    asyncio.run(main())


@sync
async def test_cancelling_tells_the_kernel_and_late_events_are_dropped(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await register(client)
        answering = Answering(gateway)
        turn_id = (await client.recv("agent.turn"))["turn_id"]
        await content(client, turn_id, "a")
        await until(lambda: answering.text == "a")
        answering.cancel()
        assert (await client.recv("agent.cancel"))["turn_id"] == turn_id
        await content(client, turn_id, "late")
        await client.send(type="agent.event", turn_id=turn_id, done=True)
        await register(client)
        assert answering.text == "a"


@sync
async def test_a_socket_that_closes_ends_its_turns(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await register(client)
        answering = Answering(gateway)
        turn_id = (await client.recv("agent.turn"))["turn_id"]
        await content(client, turn_id, "a")
        await until(lambda: answering.text == "a")
        client.ws.transport.abort()
        assert (await answering.failure()).code == "agent_gone"
        assert chosen(gateway) == "no_agent"


@sync
async def test_a_flood_and_a_huge_event_end_the_turn_and_not_the_memory(make_gateway: Any) -> None:
    gateway = make_gateway(limits={"agent_events_waiting": 50, "agent_event_bytes": 5000})
    async with BareClient(gateway) as client:
        await register(client)
        hold = threading.Event()

        seen: list[Any] = []

        async def slow() -> None:
            async for event in gateway.service.gateway.agents.choose(ADA).run(TURN):
                seen.append(event)
                await asyncio.to_thread(hold.wait, 10)

        running = asyncio.run_coroutine_threadsafe(slow(), gateway.loop)
        turn_id = (await client.recv("agent.turn"))["turn_id"]
        await content(client, turn_id, *(f"{number} " for number in range(500)))
        for number in range(60):
            event = {"type": "STEP_STARTED", "stepName": f"{number}"}
            await client.send(type="agent.event", turn_id=turn_id, event=event)
        await register(client)  # all of it was read
        hold.set()
        with pytest.raises(SuzentError, match="agent_events_waiting") as caught:
            await asyncio.wrap_future(running)
        assert caught.value.code == "turn_limit"
        words = "".join(event.delta for event in seen if event.type == "TEXT_MESSAGE_CONTENT")
        assert words == "".join(f"{number} " for number in range(500))  # merged, and none lost
        assert len(seen) <= 51
        answering = Answering(gateway)
        turn_id = (await client.recv("agent.turn"))["turn_id"]
        await content(client, turn_id, "x" * 6000)
        error = await answering.failure()
        assert error.code == "turn_limit" and "agent_event_bytes" in error.message


@sync
async def test_two_turns_at_once_are_told_apart(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await register(client)
        first = Answering(gateway)
        one = (await client.recv("agent.turn"))["turn_id"]
        second = Answering(gateway)
        two = (await client.recv("agent.turn"))["turn_id"]
        assert one != two
        for number in range(10):
            await content(client, one, f"a{number}")
            await content(client, two, f"b{number}")
        for turn_id in (two, one):
            await client.send(type="agent.event", turn_id=turn_id, done=True)
        await second.end()
        await first.end()
        assert first.text == "".join(f"a{number}" for number in range(10))
        assert second.text == "".join(f"b{number}" for number in range(10))


@sync
async def test_an_event_with_half_a_surrogate_pair_is_refused_as_no_json(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await register(client)
        answering = Answering(gateway)
        turn_id = (await client.recv("agent.turn"))["turn_id"]
        event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "\ud800"}
        await client.ws.send(json.dumps({"type": "agent.event", "turn_id": turn_id, "event": event}))
        assert (await client.recv("error"))["code"] == "bad_json"
        await client.send(type="agent.event", turn_id=turn_id, done=True)
        assert await answering.end() == []
