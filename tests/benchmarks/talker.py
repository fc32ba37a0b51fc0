"""An agent for benchmarks: its prompt says how long it thinks, in seconds, and how many pieces its answer has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ag_ui.core import BaseEvent, EventType, TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

from suzent_jupyter.protocol.agents import Turn

PIECE = "a few words of it "


class Talker:
    """``run`` answers ``"0.05 1000"`` with 1,000 pieces after 50 ms."""

    name = "talker"

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        thinking, pieces = turn.message.split()
        await asyncio.sleep(float(thinking))
        message = turn.run_id
        yield TextMessageStartEvent(type=EventType.TEXT_MESSAGE_START, message_id=message, role="assistant")
        for number in range(int(pieces)):
            yield TextMessageContentEvent(type=EventType.TEXT_MESSAGE_CONTENT, message_id=message, delta=PIECE)
            if number % 16 == 15:
                await asyncio.sleep(0)  # as a model's answer comes, in bursts
        yield TextMessageEndEvent(type=EventType.TEXT_MESSAGE_END, message_id=message)


async def own_first_token(prompt: str) -> float:
    """Return the seconds until the agent's own first word."""
    started = asyncio.get_running_loop().time()
    async for event in Talker().run(Turn(run_id="r", conversation_id="c", message=prompt)):
        if event.type is EventType.TEXT_MESSAGE_CONTENT:
            break
    return asyncio.get_running_loop().time() - started
