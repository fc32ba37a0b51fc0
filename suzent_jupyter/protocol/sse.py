"""Event streams between gateways: Server-Sent Events (WHATWG HTML, section 9.2) whose data is one JSON object each.

Writers keep to the strict form: one ``data:`` line, ASCII, and a blank line after it. The reader takes more than that,
since gateways in use leave out the blank lines, end lines with CRLF, or send U+2028 bare, where no line ends.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .errors import SuzentError
from .limits import MIB
from .text import clean_text, whole_texts
from .wire import decode, encode_ascii, is_shallow

#: The events that end a turn.
ENDS = ("RUN_FINISHED", "RUN_ERROR")
#: Heartbeats that may be lost before the other side counts as gone.
SILENT_BEATS = 4
#: Anything else that Unicode calls a line end is text.
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ID_CHARS = 128
_DEPTH = 100
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes
    ----------
    id : str
        The last id that the stream had named by then; ``""`` before the first.
    data : dict
        What it says; ``type`` is there and text.
    """

    id: str
    data: dict[str, Any]


def event_bytes(data: Any, event_id: str = "") -> bytes:
    """Return an event as it is written: one ``data:`` line of ASCII, a blank line, and its id before both."""
    return framed(encode_ascii(data), event_id)


def framed(data: bytes, event_id: str = "") -> bytes:
    """Return the same of an event that is ASCII-escaped JSON already."""
    name = b"id: %s\n" % event_id.encode("ascii") if event_id else b""
    return b"%sdata: %s\n\n" % (name, data)


def run_error(code: str, message: str) -> dict[str, Any]:
    """Return the event that ends a turn which failed."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


class EventReader:
    """Reads a stream piece by piece: the same events come out wherever the pieces were cut.

    A ``data:`` line that is a whole JSON object is an event by itself, at once. Others are put together up to the next
    blank line, as the standard has it. What is no object with a ``type`` is dropped. An id counts from its line on, so
    writers put it before the data.

    Parameters
    ----------
    line_bytes : int
        The longest line, and the longest event, in bytes. A longer one ends the stream and is not kept.

    Attributes
    ----------
    done : bool
        Whether the stream said that it is over, with ``[DONE]`` or by breaking a rule; what follows is not read.
    dropped : int
        Lines and events that were not understood.
    beats : bool
        Whether it is a gateway's of ours, which is never silent for long: it numbers its events and sends comments.
    """

    def __init__(self, line_bytes: int = MIB) -> None:
        self.done = False
        self.dropped = 0
        self.beats = False
        self._most = line_bytes
        self._line = bytearray()
        self._after_cr = False
        self._first = True
        self._id = ""
        self._parts: list[bytes] = []
        self._parts_size = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next piece, and return the events that are complete with it.

        A line that is too long comes out as ``RUN_ERROR`` with code ``bad_peer_answer``, and is the end.
        """
        if self.done or not chunk:
            return []
        if self._after_cr and chunk[0] == 0x0A:
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return []
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        events: list[Event] = []
        for piece in ended:
            if self._too_long(len(self._line) + len(piece), events):
                return events
            line = bytes(self._line) + piece if self._line else piece
            self._line.clear()
            self._take(line, events)
            if self.done:
                return events
        if not self._too_long(len(self._line) + len(rest), events):
            self._line += rest
        return events

    def close(self) -> list[Event]:
        """Return what is left at the stream's end: an event whose last line end is missing, if it is whole."""
        events: list[Event] = []
        if not self.done:
            if self._line:
                self._take(bytes(self._line), events)
            if not self.done:
                self._finish_parts(events)
        self._forget()
        return events

    def _too_long(self, size: int, events: list[Event]) -> bool:
        if size <= self._most:
            return False
        self._forget()
        message = f"It sent an event of more than {self._most:,} bytes."
        events.append(Event(self._id, run_error("bad_peer_answer", message)))
        return True

    def _forget(self) -> None:
        self.done = True
        self._line.clear()
        self._parts.clear()

    def _take(self, line: bytes, events: list[Event]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._finish_parts(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._take_data(value, events)
        elif not name:
            self.beats = True
        elif name == b"id" and b"\0" not in value and len(value) <= _ID_CHARS:
            self._id = value.decode("utf-8", "replace")
            self.beats = True

    def _take_data(self, value: bytes, events: list[Event]) -> None:
        if value.strip() == b"[DONE]":
            self._finish_parts(events)
            self._forget()
            return
        parsed = _parse(value)
        if (data := _event(parsed)) is not None:
            if self._parts:  # never became an event, in a stream without blank lines
                self._drop_parts()
            events.append(Event(self._id, data))
        elif parsed is not _MISSING and not self._parts:
            self.dropped += 1
        else:
            self._parts_size += len(value) + 1
            if not self._too_long(self._parts_size - 1, events):
                self._parts.append(value)

    def _finish_parts(self, events: list[Event]) -> None:
        if not self._parts:
            return
        data = _event(_parse(b"\n".join(self._parts))) if len(self._parts) > 1 else None
        if data is not None:
            self._parts.clear()
            self._parts_size = 0
            events.append(Event(self._id, data))
        else:
            self._drop_parts()

    def _drop_parts(self) -> None:
        self.dropped += 1
        self._parts.clear()
        self._parts_size = 0


def _event(value: Any) -> dict[str, Any] | None:
    """Return what is an event, and an event of today for one of Suzent's older shape of errors."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or not is_shallow(value, _DEPTH):
        return None
    if value["type"] == "error":
        said = value.get("data", value.get("message"))
        return run_error("peer_refused", clean_text(said, 500) or "It failed, and did not say why.")
    return value


def _parse(text: bytes) -> Any:
    """Return what JSON says, with half surrogate pairs, NaN and huge numbers made harmless; ``_MISSING`` if none."""
    try:
        return decode(text)
    except SuzentError:
        pass
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=lambda _: None, parse_int=_whole)
        return whole_texts(value)
    except (ValueError, RecursionError):
        return _MISSING


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else float(digits)
