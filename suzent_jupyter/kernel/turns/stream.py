"""The events of one turn as they come in: read on a thread, so that whoever waits for them can be interrupted."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from ...protocol.limits import MIB
from ...protocol.sse import ENDS, Event, EventReader
from ..errors import ConnectionLost, KernelError, Unreachable

if TYPE_CHECKING:
    from ..rest import Rest

RESUMES = 3  # times a stream is taken up again after our own gateway was lost
_PAUSES = (0.2, 1.0, 3.0)  # s before each of them
_WAITING = 100  # reads whose events wait for a slow caller; then the gateway waits too
_LINE_BYTES = 8 * MIB  # our gateway lets no longer one through, and writes non-ASCII in up to six times the bytes


class TurnStream:
    """One ``POST`` that is answered by events. Iterating waits for the next one; :meth:`take` waits for some time.

    Parameters
    ----------
    path, body : str, dict
        The route and what is sent to it.
    """

    def __init__(self, rest: Rest, path: str, body: dict[str, Any]) -> None:
        self._rest = rest
        self._path = path
        self._body = body
        self._queue: Queue[list[Event] | KernelError | None] = Queue(_WAITING)
        self._ready: deque[Event] = deque()
        self._left = False
        self._last_id = ""
        self._seen = self._over = False
        threading.Thread(target=self._read, name="suzent-turn", daemon=True).start()

    def take(self, timeout: float | None = None) -> Event | None:
        """Return the next event.

        Raises
        ------
        TimeoutError
            None came within ``timeout`` seconds.
        KernelError
            The request was refused, or the connection is lost for good.

        Returns
        -------
        Event or None
            None after the last one.
        """
        if not self._ready:
            try:
                item = self._queue.get(timeout=timeout)
            except Empty:
                raise TimeoutError from None
            if isinstance(item, KernelError):
                raise item
            if item is None:
                return None
            self._ready.extend(item)
        return self._ready.popleft()

    def leave(self) -> None:
        """Stop listening; the turn itself goes on."""
        self._left = True

    # -- on the thread ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        outcome: KernelError | None = None
        try:
            self._read_all()
        except KernelError as error:
            outcome = error
        except Exception as error:
            outcome = ConnectionLost(f"The answer could not be read ({type(error).__name__}).", hint="")
        self._put(outcome)

    def _read_all(self) -> None:
        for attempt in range(RESUMES + 1):
            try:
                self._read_once()
            except (ConnectionLost, Unreachable) as error:
                if not self._seen:
                    raise error from None  # whether the turn began is unknown
            if self._over or self._left:
                return
            if not self._last_id or attempt == RESUMES:
                break
            time.sleep(_PAUSES[attempt])
        raise ConnectionLost(
            "The connection to the gateway broke during the answer; the turn goes on over there, and what it says is "
            "kept.",
            hint="Ask in the same chat what came of it.",
        )

    def _read_once(self) -> None:
        reader = EventReader(_LINE_BYTES)
        headers = {"Accept": "text/event-stream"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        with self._rest.stream("POST", self._path, body=self._body, headers=headers) as answer:
            for chunk in answer.iter_bytes():
                self._hand_on(reader.feed(chunk))
                if self._over or self._left:
                    return
        self._hand_on(reader.close())

    def _hand_on(self, events: list[Event]) -> None:
        for event in events:
            self._seen = True
            self._last_id = event.id or self._last_id
            self._over = self._over or event.data["type"] in ENDS
        if events:
            self._put(events)

    def _put(self, item: list[Event] | KernelError | None) -> None:
        while not self._left:
            with suppress(Full):
                self._queue.put(item, timeout=1)
                return
