"""Pieces of text that come within a moment travel together, in order, with nothing lost.

A model says a word at a time. A frame for each would cost more than the words, on every hop and in every reader.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
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
_MOST_WAITING = 64  # pieces and other events that nobody has taken; the agent waits then
_EVENTS_EACH_TURN = 64  # of the loop: an agent that never waits must not hold up all else


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
        Read by one task, from its beginning to its end, and closed together with this one.
    window : float
        Seconds between two pieces, unless something else comes between them: from when whoever reads this is done with
        one to the next.
    """
    loop = asyncio.get_running_loop()
    waiting = _Waiting()
    reading = asyncio.ensure_future(waiting.fill(source))
    reading.add_done_callback(lambda _: waiting.wake())
    try:
        while (entry := await waiting.next(reading)) is not None:
            if entry.is_piece:
                waiting.due = math.inf
                yield entry.whole()
                waiting.due = loop.time() + window
            else:
                waiting.due = 0.0
                yield entry.event
        reading.result()
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait([reading])
        if not reading.cancelled():
            reading.exception()
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


@dataclass(slots=True)
class _Entry:
    """An event that waits, with the parts that came for it since."""

    event: Any
    is_piece: bool
    is_open: bool = False
    parts: list[str] = field(default_factory=list)
    size: int = 0

    def takes(self, event: Any) -> bool:
        return self.is_open and _same(self.event, event) and self.size + len(event.delta) <= _MOST_CHARS

    def add(self, delta: str) -> None:
        self.parts.append(delta)
        self.size += len(delta)

    def whole(self) -> Any:
        return self.event.model_copy(update={"delta": "".join(self.parts)}) if len(self.parts) > 1 else self.event


class _Waiting:
    """What came and may not go yet, or was not taken. A word that joins others wakes nobody."""

    def __init__(self) -> None:
        #: Loop time before which no further piece goes, unless something else is behind it.
        self.due = 0.0
        self._loop = asyncio.get_running_loop()
        self._entries: deque[_Entry] = deque()
        self._news: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    async def fill(self, source: AsyncIterator[BaseEvent]) -> None:
        """Take all that comes."""
        count = 0
        async for event in source:
            self._take(event)
            count += 1
            if len(self._entries) >= _MOST_WAITING:
                self._room.clear()
                await self._room.wait()
            elif count % _EVENTS_EACH_TURN == 0:
                await asyncio.sleep(0)

    def _take(self, event: Any) -> None:
        last = self._entries[-1] if self._entries else None
        if event.type not in _PIECES:
            entry = _Entry(event, is_piece=False)
        elif last is not None and last.takes(event):
            last.add(event.delta)
            return
        else:
            goes_at_once = not last.is_piece if last is not None else self._loop.time() >= self.due
            entry = _Entry(event, is_piece=True, is_open=not goes_at_once)
            entry.add(event.delta)
        self._entries.append(entry)
        self.wake()

    async def next(self, reading: asyncio.Future[None]) -> _Entry | None:
        """Wait until something may go, and take it; None once ``reading`` is done and all is taken."""
        while True:
            if not self._entries:
                if reading.done():
                    return None
                await self._wait()
            elif self._may_go() or reading.done():
                self._room.set()
                return self._entries.popleft()
            else:
                await self._wait()

    def _may_go(self) -> bool:
        return not self._entries[0].is_piece or len(self._entries) > 1 or self._loop.time() >= self.due

    async def _wait(self) -> None:
        self._news = self._loop.create_future()
        timer = self._loop.call_at(self.due, self.wake) if self._entries else None
        try:
            await self._news
        finally:
            self._news = None
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Have whoever waits look again."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two pieces belong to one text."""
    field = _PIECES[one.type]
    return one.type == other.type and (not field or getattr(one, field) == getattr(other, field))
