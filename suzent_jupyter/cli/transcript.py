"""A turn's events on a terminal: text as it comes, tool calls as short lines beside it."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..kernel.plain import TextPieces, one_line
from ..protocol.sse import ENDS
from .output import say_aside

_ARGUMENT_CHARS = 2000


class Transcript:
    """Prints one turn.

    Parameters
    ----------
    raw : bool
        Print each event as a line of JSON instead.

    Attributes
    ----------
    finished : bool
        Whether it said that it is over, well or not.
    """

    def __init__(self, raw: bool = False) -> None:
        self._raw = raw
        self.finished = False
        self._pieces = TextPieces()
        self._at_start = True
        self._calls: dict[str, tuple[str, str]] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Print what an event says."""
        kind = event.get("type")
        if kind in ENDS:
            self.finished = True
        if self._raw:
            self._write(json.dumps(event) + "\n")  # ASCII: it survives any pipe
        else:
            self._show(kind, event)

    def _show(self, kind: Any, event: dict[str, Any]) -> None:
        if kind in ("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK"):
            self._write(self._pieces.take(str(event.get("delta") or "")))
        elif kind == "TEXT_MESSAGE_START":
            self.end_line()
        elif kind == "TOOL_CALL_START":
            self._calls[str(event.get("toolCallId"))] = (one_line(event.get("toolCallName"), 64), "")
        elif kind == "TOOL_CALL_ARGS":
            name, arguments = self._calls.get(str(event.get("toolCallId")), ("", ""))
            if name and len(arguments) < _ARGUMENT_CHARS:
                self._calls[str(event.get("toolCallId"))] = (name, arguments + str(event.get("delta") or ""))
        elif kind == "TOOL_CALL_END":
            name, arguments = self._calls.pop(str(event.get("toolCallId")), ("a tool", ""))
            self._aside(f"> {name} {one_line(arguments, 120)}".rstrip())
        elif kind == "TOOL_CALL_RESULT":
            self._aside(f"< {one_line(event.get('content'), 120)}")

    def end_line(self) -> None:
        """Print what was held back, and end the line if one is open."""
        self._write(self._pieces.rest())
        if not self._at_start:
            self._write("\n")

    def _aside(self, line: str) -> None:
        self.end_line()
        say_aside(line)

    def _write(self, text: str) -> None:
        if text:
            encoding = sys.stdout.encoding or "utf-8"
            self._at_start = text.endswith("\n")  # before it is written: an interrupt may come in between
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()
