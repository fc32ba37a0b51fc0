"""Pieces of text that come within a moment travel together, in order, with nothing lost.

A model says a word at a time. A frame for each would cost more than the words, on every hop and in every reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...protocol.agents import Agent, Turn

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

#: Event type → the field that says what its ``delta`` belongs to.
_PIECES = {
    "TEXT_MESSAGE_CONTENT": "message_id",
    "TOOL_CALL_ARGS": "tool_call_id",
    "REASONING_MESSAGE_CONTENT": "message_id",
    "THINKING_TEXT_MESSAGE_CONTENT": "",
}
_MOST_CHARS = 64 * 1024  # of one piece, so that its event stays below 1 MiB however it is escaped


class Merged:
    """An agent whose pieces of text come at most once in a window; every other event comes at once.

    The first piece after a pause comes at once too: nobody waits for a first word.

    Parameters
    ----------
    agent : Agent
        Who answers.
    window : float
        Seconds.
    """

    def __init__(self, agent: Agent, window: float) -> None:
        self._agent = agent
        self._window = window

    @property
    def name(self) -> str:
        """How people call it."""
        return self._agent.name

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn; see :meth:`~suzent_jupyter.protocol.agents.Agent.run`."""
        async with aclosing(merged(self._agent.run(turn), self._window)) as events:
            async for event in events:
                yield event


async def merged(source: AsyncIterator[BaseEvent], window: float) -> AsyncGenerator[BaseEvent, None]:
    """Merge the pieces of text in a stream of events.

    Parameters
    ----------
    source : async iterator of events
        Closed together with this one.
    window : float
        Seconds between two pieces, unless something else comes between them.
    """
    loop = asyncio.get_running_loop()
    held: Any = None  # a piece that waits for its window, with the parts to be added to it
    parts: list[str] = []
    size = 0
    due = 0.0  # loop time before which no further piece goes out
    reading: asyncio.Task[Any] | None = None

    def take() -> Any:
        nonlocal held, size
        piece = held.model_copy(update={"delta": "".join(parts)}) if len(parts) > 1 else held
        held, size = None, 0
        parts.clear()
        return piece

    try:
        while True:
            if reading is None:
                reading = asyncio.ensure_future(anext(source, None))
                await asyncio.sleep(0)  # what is there already needs no timer
            if not reading.done():
                await asyncio.wait([reading], timeout=None if held is None else max(0.0, due - loop.time()))
            if not reading.done():
                due = loop.time() + window
                yield take()
                continue
            done, reading = reading, None
            try:
                event = done.result()
            except BaseException:
                if held is not None:
                    yield take()
                raise
            if event is None:
                break
            if event.type not in _PIECES:
                if held is not None:
                    yield take()
                due = 0.0
                yield event
                continue
            if held is not None and (not _same(held, event) or size + len(event.delta) > _MOST_CHARS):
                due = loop.time() + window
                yield take()
            if held is None:
                held = event
            parts.append(event.delta)
            size += len(event.delta)
            if loop.time() >= due:
                due = loop.time() + window
                yield take()
        if held is not None:
            yield take()
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


def _same(one: Any, other: Any) -> bool:
    """Tell whether two pieces belong to one text."""
    field = _PIECES[one.type]
    return one.type == other.type and (not field or getattr(one, field) == getattr(other, field))
