"""Chats of this process on the gateway's socket: prompts that run on a node, whose events come back in order.

A run outlives the socket. When that is lost the next one asks for the run's events from the first one that is missing;
what comes twice is dropped.
"""

from __future__ import annotations

import itertools
import threading
import time
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ..protocol.sse import ENDS, Event
from . import wire
from .errors import ConnectionLost, KernelError, Unauthorized, Unreachable, from_body

if TYPE_CHECKING:
    from .channel import Channel

Record = dict[str, Any]

PATIENCE = 30.0  # s without a gateway after which nobody waits for a run any more; it goes on over there


class Chat:
    """A prompt under way; what it gets is read with :meth:`take`.

    Attributes
    ----------
    accepted : dict or None
        ``chat.accepted``: who executes it, and why.
    """

    def __init__(self, chats: Chats, number: str, body: Record) -> None:
        self._chats = chats
        self.id = number
        self.frame = wire.encode({"type": "chat.send", "id": number, **body})
        self.written = False
        self.accepted: Record | None = None
        self.aborting = False
        self.next = 0
        self.over = threading.Event()
        self.lost_at = 0.0
        self._queue: SimpleQueue[Event | Record | KernelError] = SimpleQueue()

    @property
    def run_id(self) -> str:
        """The run, once it was accepted."""
        return str(self.accepted.get("run_id")) if self.accepted else ""

    def wait_for_acceptance(self, timeout: float) -> Record | None:
        """Return ``chat.accepted`` if it comes within ``timeout`` seconds, the first thing that does.

        Raises
        ------
        KernelError
            The gateway refused the prompt, or can't be reached.
        """
        __tracebackhide__ = True
        item = self._get(timeout)
        assert item is None or isinstance(item, dict)
        return item

    def take(self, timeout: float | None = None) -> Event | None:
        """Return the next event.

        Raises
        ------
        TimeoutError
            None came within ``timeout`` seconds.
        KernelError
            The run can't be followed any more.
        """
        __tracebackhide__ = True
        item = self._get(timeout)
        if item is None:
            raise TimeoutError
        assert isinstance(item, Event)
        return item

    def abort(self) -> None:
        """Stop the run on its node; one that is not accepted yet, as soon as it is."""
        self.aborting = True
        if self.accepted is not None:
            self._chats.send({"type": "chat.abort", "run_id": self.run_id})

    def leave(self) -> None:
        """Hear no more of it; the run goes on."""
        self._chats.forget(self)

    def _get(self, timeout: float | None) -> Event | Record | None:
        __tracebackhide__ = True
        try:
            item = self._queue.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(item, KernelError):
            raise item
        return item

    # -- in the channel's thread

    def accept(self, frame: Record) -> None:
        self.accepted = frame
        self._queue.put(frame)

    def event(self, event: Record) -> None:
        self.next += 1
        self._queue.put(Event("", event))
        if event.get("type") in ENDS:
            self.over.set()

    def fail(self, error: KernelError) -> None:
        if not self.over.is_set():
            self.over.set()
            self._queue.put(error)


class Chats:
    """The chats on one gateway's socket."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._prefix = f"c{token_hex(4)}-"
        self._numbers = itertools.count(1)
        self._chats: dict[str, Chat] = {}  # by id
        self._runs: dict[str, Chat] = {}

    # -- from any thread

    def begin(self, body: Record) -> Chat:
        """Send a prompt; ``body`` holds the fields of ``chat.send`` but its id."""
        __tracebackhide__ = True
        if self._channel.closed:
            raise Unreachable("This connection was closed.", hint="Make a new one with `connect()`.")
        chat = Chat(self, f"{self._prefix}{next(self._numbers)}", body)
        with self._lock:
            self._chats[chat.id] = chat
        self._channel.serve(self)
        with self._lock:
            # Under the lock, since a socket that opens right now sends all that was not written yet.
            if self._channel.connected and not chat.written:
                chat.written = True
                self._channel.send(chat.frame)
        return chat

    def send(self, frame: Record) -> None:
        """Send a frame about a run; dropped while there is no socket."""
        self._channel.send(wire.encode(frame))

    def forget(self, chat: Chat) -> None:
        """Take nothing for a chat any more."""
        with self._lock:
            self._chats.pop(chat.id, None)
            known = self._runs.pop(chat.run_id, None)
        if known is not None and not chat.over.is_set():
            self.send({"type": "chat.unwatch", "run_id": chat.run_id})

    # -- in the channel's thread

    def wanted(self) -> bool:
        """Tell whether somebody waits for a chat."""
        return bool(self._chats)

    def greeting(self) -> list[bytes]:
        """Return the prompts that were not sent yet, and the runs to go on with."""
        frames = []
        with self._lock:
            for chat in self._chats.values():
                if chat.over.is_set():
                    continue
                if not chat.written:
                    chat.written = True
                    frames.append(chat.frame)
                elif chat.accepted is not None:
                    chat.lost_at = 0.0
                    frames.append(wire.encode(_watch(chat)))
                    if chat.aborting:
                        frames.append(wire.encode({"type": "chat.abort", "run_id": chat.run_id}))
        return frames

    def receive(self, data: bytes) -> None:
        """Take ``chat.accepted`` and ``chat.event``, or an error about one of the chats."""
        frame = wire.decode(data)
        match frame.get("type"):
            case "chat.event":
                self._event(frame)
            case "chat.accepted":
                self._accept(frame)
            case "error":
                chat = self._chats.get(str(frame.get("id")))
                if chat is not None:
                    body = {key: value for key, value in frame.items() if key not in ("type", "id", "message")}
                    chat.fail(from_body({"error": frame.get("message"), **body}, 0))

    def lost(self) -> None:
        """Give up prompts of which nobody knows whether they arrived."""
        with self._lock:
            for chat in self._chats.values():
                if chat.accepted is not None:
                    chat.lost_at = time.monotonic()
                elif chat.written:
                    chat.fail(
                        ConnectionLost(
                            "The connection to the gateway broke before it said who answers: whether the prompt "
                            "arrived is unknown.",
                            hint="`%suzent conversations` shows what was begun.",
                        )
                    )

    def unreachable(self, error: KernelError) -> None:
        """Fail what was not sent, and what has waited for long."""
        with self._lock:
            for chat in self._chats.values():
                if chat.accepted is None:
                    chat.fail(error.copy())
                elif isinstance(error, Unauthorized):
                    chat.fail(
                        Unauthorized(
                            "The gateway was restarted or has changed during the answer, and does not accept this "
                            "token any more.",
                            hint=error.hint,
                        )
                    )
                elif chat.lost_at and time.monotonic() - chat.lost_at > PATIENCE:
                    chat.fail(
                        ConnectionLost(
                            "The connection to the gateway broke during the answer, and it did not come back within "
                            f"{PATIENCE:g} s. If it still runs, so does the run, and what it says is kept.",
                            hint="`%suzent conversations` shows it.",
                        )
                    )

    def _accept(self, frame: Record) -> None:
        with self._lock:
            chat = self._chats.get(str(frame.get("id")))
            if chat is None or chat.accepted is not None:
                return
            chat.accept(frame)
            self._runs[chat.run_id] = chat
        if chat.aborting:
            chat.abort()

    def _event(self, frame: Record) -> None:
        chat = self._runs.get(str(frame.get("run_id")))
        seq, event = frame.get("seq"), frame.get("event")
        if chat is None or chat.over.is_set() or not isinstance(seq, int) or not isinstance(event, dict):
            return
        if seq == chat.next:
            chat.event(event)
        elif seq > chat.next:
            self.send(_watch(chat))  # something was missed


def _watch(chat: Chat) -> Record:
    return {"type": "chat.watch", "id": chat.id, "run_id": chat.run_id, "seq": chat.next}
