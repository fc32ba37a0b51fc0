"""Events that a program elsewhere sends for one turn: checked as they come, and few enough to be kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.limits import Limits

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent


_MERGED_FROM = 256  # events that wait
_MERGED_CHARS = 16 * 1024


class AgentEvents:
    """What came and was not taken yet. Make it once :func:`~suzent_jupyter.protocol.agents.load_events` is through.

    Parameters
    ----------
    limits : Limits
        A larger event, and more waiting than these allow (text that waits is merged first), fail the turn with
        ``turn_limit``: a socket that many share can't be paused for one of them.
    """

    def __init__(self, limits: Limits) -> None:
        from ...protocol.events import read_event

        self._read: Callable[[Any], BaseEvent | None] = read_event
        self._limits = limits
        self._events: deque[tuple[BaseEvent, int]] = deque()
        self._bytes = 0
        self._more = asyncio.Event()
        self._error: SuzentError | None = None
        self.over = False
        self.count = 0

    def put(self, event: Any, size: int) -> None:
        """Take an event as parsed JSON, of a frame of ``size`` bytes; what can't be used fails the turn."""
        if self.over:
            return
        self.count += 1
        limits = self._limits
        if self._bytes + size > limits.run_bytes:
            self.finish(_limit("run_bytes", "Events that come too fast", limits.run_bytes))
            return
        if size > limits.agent_event_bytes:
            self.finish(_limit("agent_event_bytes", f"An event of {size:,} bytes", limits.agent_event_bytes))
            return
        try:
            read = self._read(event)
        except SuzentError as error:
            self.finish(error)
            return
        if read is None:
            return
        self._bytes += size
        if len(self._events) >= min(_MERGED_FROM, limits.agent_events_waiting // 2) and self._merged(read, size):
            return
        if len(self._events) >= limits.agent_events_waiting:
            self.finish(_limit("agent_events_waiting", "Events that come too fast", limits.agent_events_waiting))
            return
        self._events.append((read, size))
        self._more.set()

    def _merged(self, event: Any, size: int) -> bool:
        """Add text to the newest event that waits, where both are of one message: a burst of words is no flood."""
        newest: Any
        newest, before = self._events[-1]
        if event.type != "TEXT_MESSAGE_CONTENT" or newest.type != "TEXT_MESSAGE_CONTENT":
            return False
        if newest.message_id != event.message_id or len(newest.delta) > _MERGED_CHARS:
            return False
        self._events[-1] = (newest.model_copy(update={"delta": newest.delta + event.delta}), before + size)
        return True

    def finish(self, error: SuzentError | None = None) -> None:
        """Let the turn end, after what came before; the first word counts."""
        if not self.over:
            self.over, self._error = True, error
            self._more.set()

    async def __aiter__(self) -> AsyncIterator[BaseEvent]:
        """Give the events in order; raises what the turn failed with."""
        while True:
            while self._events:
                event, size = self._events.popleft()
                self._bytes -= size
                yield event
            if self.over:
                if self._error is not None:
                    raise self._error
                return
            self._more.clear()
            await self._more.wait()


class Numbered:
    """Takes frames with an ``event`` and its ``seq``; a missing one fails the turn rather than bending the answer.

    Parameters
    ----------
    events : AgentEvents
        Where they go.
    whose : str
        Who sends them, as people are told.
    """

    def __init__(self, events: AgentEvents, whose: str) -> None:
        self.events = events
        self._whose = whose
        self._seq = 0

    def take(self, frame: dict[str, Any], size: int) -> None:
        """Take the next one, in a frame of ``size`` bytes."""
        if frame.get("seq") != self._seq:
            self.events.finish(SuzentError("agent_failed", f"An event of {self._whose} was lost on the way."))
            return
        self._seq += 1
        self._put(frame.get("event"), size)

    def _put(self, event: Any, size: int) -> None:
        self.events.put(event, size)


def _limit(name: str, what: str, limit: float) -> SuzentError:
    return SuzentError("turn_limit", f"{what} ended the turn: the limit `{name}` is {limit:,}.")
