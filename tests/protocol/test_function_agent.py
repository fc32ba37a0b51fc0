"""An agent that is a function: what it gives becomes events, however it gives it, and it ends when it is told to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from ag_ui.core import CustomEvent, RunErrorEvent, RunStartedEvent, StepStartedEvent
from support.running import sync, until

from suzent_jupyter.protocol.agents import Turn, TurnMessage
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.function_agent import FunctionAgent

TURN = Turn(
    run_id="r1", conversation_id="c1", message="Grüße\u2028!", history=[TurnMessage(role="user", content="before")]
)


async def events_of(function: Any, turn: Turn = TURN) -> list[Any]:
    return [event async for event in FunctionAgent(function).run(turn)]


def kinds(events: list[Any]) -> str:
    short = {"TEXT_MESSAGE_START": "(", "TEXT_MESSAGE_CONTENT": "t", "TEXT_MESSAGE_END": ")"}
    return "".join(short.get(event.type.value, f"<{event.type.value}>") for event in events)


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


def plain(message: str) -> str:
    return f"You said {message}"


async def coroutine(message: str) -> str:
    await asyncio.sleep(0)
    return f"You said {message}"


def generator(message: str) -> Iterator[str]:
    yield "You said "
    yield message


async def async_generator(message: str) -> AsyncIterator[str]:
    yield "You said "
    await asyncio.sleep(0)
    yield message


def returns_generator(message: str) -> Iterator[str]:
    return generator(message)


def returns_coroutine(message: str) -> Any:
    return coroutine(message)


def returns_async_generator(message: str) -> Any:
    return async_generator(message)


async def coroutine_of_generator(message: str) -> Any:
    return generator(message)


class Callable_:
    async def __call__(self, message: str) -> str:
        return f"You said {message}"


@pytest.mark.parametrize(
    "function",
    [
        plain,
        coroutine,
        generator,
        async_generator,
        returns_generator,
        returns_coroutine,
        returns_async_generator,
        coroutine_of_generator,
        Callable_(),
        lambda prompt: f"You said {prompt}",
    ],
)
def test_every_form_of_function_answers(function: Any) -> None:
    events = asyncio.run(events_of(function))
    assert text(events) == "You said Grüße\u2028!"
    assert kinds(events) in ("(t)", "(tt)")
    assert len({event.message_id for event in events}) == 1


def test_what_a_function_may_ask_for() -> None:
    def by_name(history: list[Any], turn: Any, conversation_id: str = "") -> str:
        return f"{history[0].content} {turn.run_id} {conversation_id}"

    def by_annotation(question: str, all_of_it: Turn, *, extra: int = 3, note: str) -> str:
        return f"{question} {all_of_it.run_id} {extra} {note!r}"

    def keeps_its_default(temperature: float = 0.5, message: str = "none") -> str:
        return f"{temperature} {message}"

    def nothing() -> str:
        return "hello"

    for function, expected in [
        (by_name, "before r1 c1"),
        (by_annotation, "Grüße\u2028! r1 3 ''"),
        (keeps_its_default, "0.5 Grüße\u2028!"),
        (nothing, "hello"),
    ]:
        assert text(asyncio.run(events_of(function))) == expected
    with pytest.raises(TypeError, match="temperature"):
        FunctionAgent(lambda message, temperature: "")
    with pytest.raises(TypeError, match="not a function"):
        FunctionAgent("answer")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name"):
        FunctionAgent(plain, name="\u202e")
    assert (FunctionAgent(plain).name, FunctionAgent(lambda: "").name) == ("plain", "agent")


def test_events_close_the_text_before_them_and_those_of_the_run_are_not_the_functions_to_send() -> None:
    def answer() -> Iterator[Any]:
        yield RunStartedEvent(thread_id="t", run_id="r")
        yield "a"
        yield ""
        yield None
        yield "b"
        yield StepStartedEvent(step_name="look")
        yield {"type": "CUSTOM", "name": "n", "value": {"x": 1}}
        yield {"type": "not an event"}
        yield 7

    events = asyncio.run(events_of(answer))
    assert kinds(events) == "(tt)<STEP_STARTED><CUSTOM>(tt)"
    assert isinstance(events[5], CustomEvent) and events[5].value == {"x": 1}
    assert text(events) == "ab{'type': 'not an event'}7"
    assert events[0].message_id != events[6].message_id


@sync
async def test_long_text_is_cut_and_halves_of_surrogates_are_replaced() -> None:
    def answer() -> str:
        return "x" * 200_000 + "\ud83d\ude00 \ud800"

    events = await events_of(answer)
    assert text(events) == "x" * 200_000 + "\U0001f600 \ufffd"
    assert max(len(event.delta) for event in events if event.type == "TEXT_MESSAGE_CONTENT") <= 65536


@sync
async def test_two_thousand_deltas_keep_their_order() -> None:
    def answer() -> Iterator[str]:
        yield from (f"{number} " for number in range(2000))

    assert text(await events_of(answer)) == "".join(f"{number} " for number in range(2000))


def raises(error: BaseException, before: str = "") -> list[Callable[..., Any]]:
    def in_plain() -> str:
        raise error

    async def in_coroutine() -> str:
        raise error

    def in_generator() -> Iterator[str]:
        yield before
        raise error

    async def in_async_generator() -> AsyncIterator[str]:
        yield before
        raise error

    return [in_plain, in_coroutine, in_generator, in_async_generator]


@pytest.mark.parametrize("form", range(4))
def test_an_exception_ends_the_turn_with_its_first_line(form: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        function = raises(KeyError("lens\x1b[31m cap\nsecond line"), "so far")[form]
        events = []
        with caplog.at_level(logging.ERROR), pytest.raises(SuzentError) as caught:
            async for event in FunctionAgent(function, "camera").run(TURN):
                events.append(event)
        assert caught.value.code == "agent_failed"
        assert "camera raised KeyError" in caught.value.message
        assert "\x1b" not in caught.value.message
        assert kinds(events) in ("", "(t)")
        [record] = caplog.records
        assert record.exc_info is not None and record.exc_info[2] is not None
        assert record.exc_info[2].tb_frame.f_code.co_filename == __file__

    asyncio.run(main())


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt()])
def test_what_would_end_a_program_ends_only_the_turn(error: BaseException) -> None:
    with pytest.raises(SuzentError, match=type(error).__name__):
        asyncio.run(events_of(raises(error)[0]))


@sync
async def test_something_inside_that_was_cancelled_is_a_failure() -> None:
    async def answer() -> str:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        return str(await task)

    with pytest.raises(SuzentError, match="CancelledError"):
        await events_of(answer)


@pytest.mark.parametrize(
    "value", [RunErrorEvent(message="The lens is dirty"), {"type": "RUN_ERROR", "message": "The lens is dirty"}]
)
def test_a_run_error_of_the_function_fails_the_turn(value: Any) -> None:
    with pytest.raises(SuzentError, match="The lens is dirty") as caught:
        asyncio.run(events_of(lambda: value))
    assert caught.value.code == "agent_failed"


def test_a_dict_that_only_looks_like_an_event_fails_the_turn() -> None:
    with pytest.raises(SuzentError, match="delta"):
        asyncio.run(events_of(lambda: {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}))


@sync
async def test_a_function_that_blocks_does_not_hold_up_the_loop() -> None:
    release = threading.Event()

    def answer() -> str:
        release.wait(10)
        return "done"

    running = asyncio.create_task(events_of(answer))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not running.done()
    release.set()
    assert text(await running) == "done"


@sync
async def test_a_function_that_blocks_is_abandoned() -> None:
    release, ended = threading.Event(), threading.Event()

    def answer() -> str:
        release.wait(10)
        ended.set()
        return "too late"

    running = asyncio.create_task(events_of(answer))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 2)
    release.set()
    await until(ended.is_set)


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.parametrize("form", ["coroutine", "generator", "async_generator", "returned_generator"])
def test_cancelling_reaches_the_function(form: str, how: str) -> None:
    ended: list[str] = []

    async def coroutine() -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("coroutine")
        return ""

    def generator() -> Iterator[str]:
        try:
            while True:
                yield "tick"
        finally:
            ended.append("generator")

    async def async_generator() -> AsyncIterator[str]:
        try:
            while True:
                yield "tick"
                await asyncio.sleep(0)
        finally:
            ended.append("async_generator")

    async def returned_generator() -> Any:
        return (tick for tick in generator())

    function = {each.__name__: each for each in (coroutine, generator, async_generator, returned_generator)}[form]

    async def read(stop: asyncio.Event) -> None:
        async with aclosing(FunctionAgent(function).run(TURN)) as events:  # type: ignore[type-var]
            count = 0
            async for _ in events:
                count += 1
                if count == 3:
                    stop.set()
                    if how == "close":
                        return

    async def main() -> None:
        stop = asyncio.Event()
        reading = asyncio.create_task(read(stop))
        if form != "coroutine":
            await asyncio.wait_for(stop.wait(), 10)
        else:
            await asyncio.sleep(0.05)
        if how == "cancel" or form == "coroutine":
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(reading, 5)
        await until(lambda: ended)

    asyncio.run(main())
