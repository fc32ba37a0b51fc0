"""Agents are other people's programs: whatever they do, a turn ends with one clear event, and nothing else suffers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync, until
from support.turns import Gate, Reader, Script, Scripted, ask, echo, kinds, register, say, text_of

from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.errors import SuzentError


async def raising(turn: Turn) -> AsyncIterator[BaseEvent]:
    yield TextMessageStartEvent(message_id="m")
    yield TextMessageContentEvent(message_id="m", delta="so far")
    raise RuntimeError("password is hunter2")


async def limited(turn: Turn) -> AsyncIterator[BaseEvent]:
    raise SuzentError("model_failed", "The model's server answered 500.")
    yield


async def failing(turn: Turn) -> AsyncIterator[BaseEvent]:
    yield RunErrorEvent(message="it \x1b[31mbroke\u202e", code="my_code")
    raise AssertionError("not read on")


async def garbage(turn: Turn) -> AsyncIterator[Any]:
    yield {"type": "TEXT_MESSAGE_CONTENT", "delta": "x"}


async def unwritable(turn: Turn) -> AsyncIterator[BaseEvent]:
    yield CustomEvent(name="x", value=object())


async def cyclic(turn: Turn) -> AsyncIterator[BaseEvent]:
    value: list[Any] = []
    value.append(value)
    yield CustomEvent(name="x", value=value)


async def half_made(turn: Turn) -> AsyncIterator[BaseEvent]:
    yield TextMessageContentEvent.model_construct(message_id="m", delta=7)


async def giving_up(turn: Turn) -> AsyncIterator[BaseEvent]:
    raise asyncio.CancelledError
    yield


def no_iterator(turn: Turn) -> Any:
    return None


async def a_coroutine(turn: Turn) -> Any:
    return None


def at_once(turn: Turn) -> Any:
    raise ZeroDivisionError


BAD: dict[Any, tuple[str, str]] = {
    raising: ("agent_failed", "The agent failed."),
    limited: ("model_failed", "The model's server answered 500."),
    failing: ("my_code", "it broke"),
    garbage: ("agent_failed", "The agent failed."),
    unwritable: ("agent_failed", "The agent failed."),
    cyclic: ("agent_failed", "The agent failed."),
    half_made: ("agent_failed", "The agent failed."),
    giving_up: ("agent_failed", "The agent failed."),
    no_iterator: ("agent_failed", "The agent failed."),
    at_once: ("agent_failed", "The agent failed."),
}


@sync
async def test_an_agent_that_fails(gateway: ThreadedGateway, caplog: pytest.LogCaptureFixture) -> None:
    async with gateway.http() as http:
        for script, (code, message) in BAD.items():
            register(gateway, script)
            name = script.__name__
            events = await ask(http, "/chat", {"message": "x", "chat_id": name})
            assert events[-1] == {"type": "RUN_ERROR", "code": code, "message": message}, name
            answer = (await http.get(f"/conversations/{name}")).json()["messages"][-1]
            assert (answer["outcome"], answer["detail"]["error"]) == (code, message)
            assert "hunter2" not in str(events) + str(answer)
        assert (await http.get("/conversations/raising")).json()["messages"][-1]["content"] == "so far"
        register(gateway, echo)
        assert kinds(await ask(http, "/chat", {"message": "x", "chat_id": "raising"}))[-1] == "RUN_FINISHED"
    assert "hunter2" in caplog.text  # its own log says why
    caplog.clear()


@pytest.mark.filterwarnings("ignore:coroutine 'a_coroutine' was never awaited")
@sync
async def test_an_agent_that_is_a_coroutine_function(gateway: ThreadedGateway) -> None:
    register(gateway, a_coroutine)  # type: ignore[arg-type]
    async with gateway.http() as http:
        assert (await ask(http, "/chat", {"message": "x"}))[-1]["code"] == "agent_failed"


@sync
async def test_its_own_word_on_the_turn_is_dropped(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        yield RunStartedEvent(thread_id="forged", run_id="forged")
        for event in say("hi"):
            yield event
        yield RunFinishedEvent(thread_id="forged", run_id="forged")

    register(gateway, script)
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": "x"})
    assert kinds(events).count("RUN_STARTED") == kinds(events).count("RUN_FINISHED") == 1
    assert "forged" not in str(events)


@sync
async def test_tools_are_kept_with_the_answer(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        yield ToolCallStartEvent(tool_call_id="1", tool_call_name="camera.snap")
        yield ToolCallArgsEvent(tool_call_id="1", delta='{"format":')
        yield ToolCallArgsEvent(tool_call_id="1", delta=' "png"}')
        yield ToolCallEndEvent(tool_call_id="1")
        yield ToolCallResultEvent(message_id="r", tool_call_id="1", content="y" * 5000)

    register(gateway, script)
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": "x", "chat_id": "c"})
        assert len(events[5]["content"]) == 5000
        [tool] = (await http.get("/conversations/c")).json()["messages"][-1]["detail"]["tools"]
    assert tool == {"name": "camera.snap", "arguments": '{"format": "png"}', "result": "y" * 2000}


@sync
async def test_a_turn_takes_only_so_long(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_ttl": 0.2})
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": "x"})
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "run_expired")
    assert text_of(events) == "begun"
    await until(lambda: gate.cancelled == 1)


@sync
async def test_an_answer_has_only_so_many_bytes(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_bytes": 10_000})
    closed = []

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        try:
            while True:
                yield TextMessageContentEvent(message_id="m", delta="x" * 100)
        finally:
            closed.append(True)

    register(gateway, script)
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": "x"})
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "turn_limit")
    assert "run_bytes" in events[-1]["message"]
    assert 5_000 < len(text_of(events)) < 10_000
    assert closed == [True]


class Stubborn:
    """Scripts that won't end when told to; ``calls`` counts how often they were."""

    def __init__(self) -> None:
        self.calls = 0
        self.over = False

    async def sleeps_on(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        yield TextMessageStartEvent(message_id="m")
        while not self.over:
            try:
                await asyncio.sleep(0.05 if self.calls else 3600)
            except asyncio.CancelledError:
                self.calls += 1

    async def talks_on(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        yield TextMessageStartEvent(message_id="m")
        while not self.over:
            try:
                await asyncio.sleep(0.01)
                yield TextMessageContentEvent(message_id="m", delta="x")
            except (asyncio.CancelledError, GeneratorExit):
                self.calls += 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it won't even be collected
@pytest.mark.parametrize("how", ["sleeps_on", "talks_on"])
@sync
async def test_an_agent_that_ignores_cancellation_is_left_behind(gateway: ThreadedGateway, how: str) -> None:
    stubborn = Stubborn()
    register(gateway, getattr(stubborn, how))
    async with gateway.http() as http:
        async with Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as reader:
            await reader.next("TEXT_MESSAGE_START")
            started = time.monotonic()
            stop = asyncio.create_task(http.post("/chat/stop", json={"chat_id": "c"}))
            events = await reader.rest()
            assert time.monotonic() - started < 1.5  # its reader does not wait for it
            assert events[-1]["outcome"] == {"type": "cancelled"}
            assert (await stop).status_code == 200
        assert stubborn.calls >= 1
        register(gateway, echo)
        assert kinds(await ask(http, "/chat", {"message": "x", "chat_id": "c"}))[-1] == "RUN_FINISHED"
        assert (await http.get("/conversations/c")).json()["message_count"] == 4
    stubborn.over = True
    await until(lambda: len(gateway.call(asyncio.all_tasks)) < 20)


@sync
async def test_an_agent_that_never_waits_holds_up_nobody(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        for event in say(*(["word "] * 50_000)):
            yield event

    register(gateway, script)
    slowest = 0.0
    async with gateway.http() as http, Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as reader:
        await reader.next("TEXT_MESSAGE_CONTENT")
        while (await http.get("/conversations/c")).json()["status"] == "active":
            started = time.monotonic()
            await http.get("/nodes")
            slowest = max(slowest, time.monotonic() - started)
    assert 0 < slowest < 1.0


@sync
async def test_the_newest_agent_of_the_account_answers(gateway: ThreadedGateway) -> None:
    async def older(turn: Turn) -> AsyncIterator[BaseEvent]:
        for event in say("older"):
            yield event

    register(gateway, older)
    newer: Scripted = register(gateway, echo)
    register(gateway, raising, account="somebody else")
    async with gateway.http() as http:
        assert text_of(await ask(http, "/chat", {"message": "newer"})) == "newer"
        gateway.call(gateway.service.gateway.agents.unregister, newer)
        assert text_of(await ask(http, "/chat", {"message": "newer"})) == "older"


@sync
async def test_attachments_are_cleared_when_the_agent_is_done(gateway: ThreadedGateway) -> None:
    from suzent_jupyter.gateway.answering.run import Prompt

    hub = gateway.service.gateway
    principal = gateway.service.kernel_token._principal
    happened: list[str] = []

    async def clear() -> None:
        happened.append("cleared")

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        try:
            yield TextMessageStartEvent(message_id="m")
            await asyncio.Event().wait()
        finally:
            happened.append("agent done")

    async def work() -> None:
        run = await hub.runs.start(principal, "c", Prompt(text="x", clear=clear))
        await run.more(1)
        with pytest.raises(SuzentError, match="already"):
            await hub.runs.start(principal, "c", Prompt(text="x", clear=clear))
        assert happened == ["cleared"]
        await hub.runs.stop_turn(principal, "c")

    register(gateway, script)
    await asyncio.to_thread(gateway.run, work())
    assert happened == ["cleared", "agent done", "cleared"]


@sync
async def test_finished_turns_take_only_so_much_memory(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_bytes": 5_000})
    script: Script = echo
    register(gateway, script)
    async with gateway.http() as http:
        for _ in range(12):
            await ask(http, "/chat", {"message": "y" * 3_000})
    kept = gateway.call(gateway.service.gateway.runs.snapshot, gateway.service.kernel_token._principal)
    assert 4 <= len(kept) <= 7


@sync
async def test_no_turn_starts_for_a_token_that_ended_meanwhile(gateway: ThreadedGateway) -> None:
    from suzent_jupyter.gateway.answering.namespaces import peer_principal
    from suzent_jupyter.gateway.answering.run import Prompt

    hub = gateway.service.gateway
    agent = register(gateway, echo)
    device_id, _ = await grant(gateway)
    cleared: list[bool] = []

    async def clear() -> None:
        cleared.append(True)

    async def work() -> None:
        device = hub.devices.by_id(device_id)
        assert device is not None
        asking = peer_principal(device)  # was let in, and its files are still on the way
        await hub.credentials.revoke(gateway.service.kernel_token._principal, device_id)
        with pytest.raises(SuzentError) as refused:
            await hub.runs.start(asking, f"suzent:{device_id}", Prompt(text="x", clear=clear))
        assert refused.value.code == "unauthorized"

    await asyncio.to_thread(gateway.run, work())
    assert (agent.turns, cleared) == ([], [True])


@sync
async def test_a_hundred_turns_at_once(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"runs_in_flight": 100})
    gate = Gate(gateway)
    register(gateway, gate)
    limits = httpx.Limits(max_connections=None)
    async with gateway.http(limits=limits) as http:
        asking = [asyncio.create_task(ask(http, "/chat", {"message": str(number)})) for number in range(100)]
        await until(lambda: gate.running == 100)
        gate.open()
        answers = await asyncio.gather(*asking)
    assert {text_of(events) for events in answers} == {"begun through"}
    assert len({events[0]["threadId"] for events in answers}) == 100
