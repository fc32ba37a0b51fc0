"""Pieces of text that come within a window travel together; nothing is lost, and nothing else waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.running import sync, until

from suzent_jupyter.gateway.answering.merging import merged
from suzent_jupyter.protocol.events import read_event


def said(delta: str, message: str = "m") -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta}


def called(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"TOOL_CALL_{kind}", "toolCallId": "t", **more}


START = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
END = {"type": "TEXT_MESSAGE_END", "messageId": "m"}


async def given_out(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        if isinstance(item, asyncio.Event):
            await item.wait()
        elif isinstance(item, Exception):
            raise item
        else:
            yield read_event(item)


def shown(event: Any) -> tuple[str, str]:
    return event.type, getattr(event, "delta", "")


async def all_of(items: Iterable[Any], window: float = 60.0) -> list[tuple[str, str]]:
    return [shown(event) async for event in merged(given_out(items), window)]


@sync
async def test_words_that_come_together_travel_together_and_the_first_at_once() -> None:
    words = [said(str(number)) for number in range(1000)]
    got = await all_of([START, *words, END])
    assert got == [
        ("TEXT_MESSAGE_START", ""),
        ("TEXT_MESSAGE_CONTENT", "0"),
        ("TEXT_MESSAGE_CONTENT", "".join(map(str, range(1, 1000)))),
        ("TEXT_MESSAGE_END", ""),
    ]


@sync
async def test_what_waits_comes_when_its_window_is_over() -> None:
    never = asyncio.Event()
    events = merged(given_out([said("a"), said("b"), never]), 0.05)
    got = [shown(await asyncio.wait_for(anext(events), 5)) for _ in range(2)]
    assert got == [("TEXT_MESSAGE_CONTENT", "a"), ("TEXT_MESSAGE_CONTENT", "b")]
    await events.aclose()


@sync
async def test_a_boundary_lets_what_waits_out_and_waits_for_nothing() -> None:
    never = asyncio.Event()
    items = [said("a"), said("b"), said("c"), called("START", toolCallName="x"), never]
    events = merged(given_out(items), 3600)
    got = [shown(await asyncio.wait_for(anext(events), 5)) for _ in range(3)]
    assert [delta for _, delta in got] == ["a", "bc", ""]
    await events.aclose()


@sync
async def test_texts_are_not_mixed() -> None:
    got = await all_of([said("a"), said("b"), said("c", "n"), said("d", "n"), called("ARGS", delta="{"), said("e")])
    assert [delta for _, delta in got] == ["a", "b", "cd", "{", "e"]


@sync
async def test_a_failure_comes_after_what_was_said() -> None:
    got: list[str] = []
    with pytest.raises(OSError, match="gone"):
        async for event in merged(given_out([said("a"), said("b"), OSError("gone")]), 60):
            got.append(event.delta)  # type: ignore[attr-defined]
    assert got == ["a", "b"]


@sync
async def test_closing_closes_the_agent_though_it_is_in_the_middle_of_something() -> None:
    ended = asyncio.Event()

    async def agent() -> AsyncIterator[Any]:
        try:
            yield read_event(said("a"))
            await asyncio.Event().wait()
        finally:
            ended.set()

    events = merged(agent(), 60)
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert ended.is_set()


@sync
async def test_a_window_begins_when_a_reader_is_done_with_a_piece() -> None:
    window, loop = 0.05, asyncio.get_running_loop()
    more = asyncio.Event()

    async def agent() -> AsyncIterator[Any]:
        yield read_event(said("a"))
        yield read_event(said("b"))
        await more.wait()
        yield read_event(said("c"))
        await asyncio.Event().wait()

    events = merged(agent(), window)
    assert shown(await anext(events))[1] == "a"
    await asyncio.sleep(2 * window)  # a reader that takes its time
    done = loop.time()
    assert shown(await anext(events))[1] == "b"
    assert loop.time() - done >= window - 1e-6
    more.set()
    done = loop.time()
    assert shown(await anext(events))[1] == "c"
    assert loop.time() - done >= window - 1e-6
    await events.aclose()


@sync
async def test_one_task_reads_an_agent_so_that_what_it_opens_it_can_close() -> None:
    tasks = set()

    async def agent() -> AsyncIterator[Any]:
        async with asyncio.timeout(0.05):
            for _ in range(3):
                tasks.add(asyncio.current_task())
                yield read_event({"type": "CUSTOM", "name": "x", "value": 1})
            await asyncio.Event().wait()

    got = []
    with pytest.raises(TimeoutError):
        async for event in merged(agent(), 60):
            got.append(event)
    assert (len(got), len(tasks)) == (3, 1)


@sync
async def test_an_agent_is_not_far_ahead_of_its_reader_and_holds_up_nobody() -> None:
    said_so_far, turns = 0, 0

    async def agent() -> AsyncIterator[Any]:
        nonlocal said_so_far
        for number in range(20_000):
            said_so_far += 1
            yield read_event({"type": "CUSTOM", "name": "x", "value": number})

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.create_task(others())
    events = merged(agent(), 60)
    await anext(events)
    await until(lambda: said_so_far > 1)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert said_so_far < 200
    turns = 0
    rest = [event.value async for event in events]  # type: ignore[attr-defined]
    busy.cancel()
    assert rest == list(range(1, 20_000))
    assert turns > 100


pieces = st.one_of(
    st.builds(said, st.text(min_size=1, max_size=3), st.sampled_from("mn")),
    st.builds(lambda delta: called("ARGS", delta=delta), st.text(min_size=1, max_size=3)),
    st.just(called("START", toolCallName="x")),
    st.just({"type": "CUSTOM", "name": "x", "value": 1}),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(pieces, max_size=40), st.sampled_from([0.0001, 60.0]))
def test_merging_changes_neither_words_nor_order(items: list[dict[str, Any]], window: float) -> None:
    def joined(events: Iterable[Any]) -> list[tuple[str, str, str]]:
        out: list[tuple[str, str, str]] = []
        for event in events:
            owner = getattr(event, "message_id", "") or getattr(event, "tool_call_id", "")
            delta = getattr(event, "delta", "")
            if delta and out and out[-1][:2] == (event.type, owner):
                out[-1] = (event.type, owner, out[-1][2] + delta)
            else:
                out.append((event.type, owner, delta))
        return out

    async def run() -> list[Any]:
        return [event async for event in merged(given_out(items), window)]

    assert joined(asyncio.run(run())) == joined(map(read_event, items))
