"""Thousands of words of a run: all of them, in order, and at most one frame of them in a window."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.chats import begin, read, text_of
from support.client import BareClient
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.running import sync, until

from suzent_jupyter.gateway.answering.run import Run

PIECES = 10_000
EACH = 1_000  # pieces, then the agent waits until the newest of them is on its way
WINDOW = 0.15
TOOL_AFTER = (3_500, 6_000, 6_001)


def words(first: int, last: int) -> str:
    return "".join(f"{number} " for number in range(first, last))


class Clock:
    """When each event became one of its run, by the clock of the gateway's own event loop: no load can change that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: dict[str, list[float]] = {}
        append = Run.append

        def note(run: Run, data: bytes) -> None:
            self.times.setdefault(run.run_id, []).append(asyncio.get_running_loop().time())
            append(run, data)

        monkeypatch.setattr(Run, "append", note)


class Speaker:
    """An agent's part of a run: says numbers, calls tools in between, and is never far ahead of the gateway."""

    def __init__(self, node: Worker, run_id: str, gateway: ThreadedGateway) -> None:
        self.node, self.run_id = node, run_id
        self.run = gateway.service.gateway.runs._runs[run_id]
        self.seq = 0

    async def say(self, **event: Any) -> None:
        await self.node.send({"type": "chat.event", "run_id": self.run_id, "seq": self.seq, "event": event})
        self.seq += 1

    async def heard(self, delta: str) -> None:
        await until(lambda: self.run.answer is not None and self.run.answer.text.endswith(delta), 30)

    async def speak(self) -> None:
        await self.say(type="TEXT_MESSAGE_START", messageId="m", role="assistant")
        for number in range(PIECES):
            await self.say(type="TEXT_MESSAGE_CONTENT", messageId="m", delta=f"{number} ")
            if number in TOOL_AFTER:
                await self.say(type="CUSTOM", name="boundary", value=number)
            if number % EACH == EACH - 1:
                await self.heard(f"{number} ")
        await self.say(type="TEXT_MESSAGE_END", messageId="m")
        await self.say(type="RUN_FINISHED", threadId="t", runId="r")


def check(events: list[dict[str, Any]], times: list[float]) -> None:
    """Check one run as its watcher got it, with the times of its events."""
    assert len(events) == len(times)
    assert text_of(events) == words(0, PIECES)
    # What waits when something else comes goes before it: no word may come after what it was said before.
    said = ""
    for event in events:
        if event["type"] == "CUSTOM":
            assert said == words(0, event["value"] + 1)
        said += event.get("delta", "")
    is_text = [event["type"] == "TEXT_MESSAGE_CONTENT" for event in events]
    gaps = []
    for index in range(len(events) - 2):
        # One that something else comes behind was let out by that.
        if is_text[index] and is_text[index + 1] and is_text[index + 2]:
            gaps.append(times[index + 1] - times[index])
    assert len(gaps) > PIECES / EACH / 2
    assert min(gaps) >= WINDOW - 1e-6, sorted(gaps)[:5]
    assert sum(is_text) <= (times[-1] - times[0]) / WINDOW + 2 * (len(TOOL_AFTER) + 1)


@sync
async def test_ten_thousand_pieces_of_two_runs_at_once(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gateway.config.limits.delta_throttle == WINDOW
    clock = Clock(monkeypatch)

    async def answer(node: Worker, frame: dict[str, Any]) -> str:
        if frame["message"] == "short":
            return "short"
        await Speaker(node, frame["run_id"], gateway).speak()
        await asyncio.Event().wait()
        return ""

    async with (
        Worker(gateway, "A", answer),
        Worker(gateway, "B", answer),
        BareClient(gateway) as one,
        BareClient(gateway) as two,
        BareClient(gateway) as three,
    ):
        first = (await begin(one, message="much", target_node_id="A"))["run_id"]
        second = (await begin(two, message="much", target_node_id="B"))["run_id"]
        # While both are at it a third one is asked and answered.
        third = (await begin(three, message="short", target_node_id="A"))["run_id"]
        assert text_of(await read(three, third)) == "short"
        assert not any(gateway.service.gateway.runs._runs[each].over for each in (first, second))
        events = await asyncio.gather(read(one, first), read(two, second))
        for run_id, each in zip((first, second), events, strict=True):
            check(each, clock.times[run_id])
