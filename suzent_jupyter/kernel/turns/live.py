"""An answer that grows under the cell: Markdown in a notebook, plain text in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from ..plain import TextPieces, is_notebook, one_line
from .answer import Answer, answer_bundle
from .tool_list import tools_bundle

if TYPE_CHECKING:
    from IPython.core.display_functions import DisplayHandle

INTERVAL = 0.1  # s between two drawings at least
_PER_CHAR = 5e-6  # s more for each character: a front end gets at most 200 kB a second, however long the answer is
_SHARE = 10  # drawing takes at most this part of the time
_IDLE = 1.0  # s


def live_view(answer: Answer) -> NotebookView | TerminalView:
    """Return what shows ``answer`` where this runs."""
    return NotebookView(answer) if is_notebook() else TerminalView(answer)


class NotebookView:
    """Two displays that are written anew: the tools above, once there are any, and the text below."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._text: DisplayHandle | None = None
        self._tools: DisplayHandle | None = None
        self._drawn_chars = 0
        self._tools_changed = False
        self._next = 0.0

    def due(self) -> float:
        """Return the seconds after which :meth:`draw` has something to do."""
        return max(0.0, self._next - time.monotonic()) if self._is_dirty() else _IDLE

    def changed(self, event: dict[str, Any]) -> None:
        """Draw what an event changed, unless something was drawn a moment ago."""
        if str(event.get("type")).startswith("TOOL_CALL"):
            self._tools_changed = bool(self._answer.tools)
        self.draw()

    def draw(self) -> None:
        """Draw what has changed, if it is time."""
        if self._is_dirty() and time.monotonic() >= self._next:
            self._draw()

    def note(self, text: str) -> None:
        """Print something of ours below what is there."""
        if self._is_dirty():
            self._draw()
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def finish(self, note: str = "") -> None:
        """Draw what is still missing, and a closing sentence of ours."""
        if note or self._is_dirty():
            self._draw(note)

    def _is_dirty(self) -> bool:
        return self._tools_changed or self._drawn_chars != self._answer.chars

    def _draw(self, note: str = "") -> None:
        began = time.monotonic()
        if self._tools_changed:
            self._draw_tools()
        if self._drawn_chars != self._answer.chars or note:
            self._drawn_chars = self._answer.chars
            self._text = _show(self._text, answer_bundle(self._answer, note))
        ended = time.monotonic()
        self._next = ended + max(INTERVAL, _PER_CHAR * self._answer.chars, _SHARE * (ended - began))

    def _draw_tools(self) -> None:
        self._tools_changed = False
        if self._tools is None and self._text is not None:
            # The text came first: its place becomes that of the tools, and it moves below them.
            self._tools, self._text, self._drawn_chars = self._text, None, 0
        self._tools = _show(self._tools, tools_bundle(self._answer.tools))


def _show(handle: DisplayHandle | None, bundle: dict[str, Any]) -> DisplayHandle:
    from IPython.display import display

    if handle is None:
        made: DisplayHandle = display(bundle, raw=True, display_id=True)
        return made
    handle.update(bundle, raw=True)
    return handle


class TerminalView:
    """Prints text as it comes, and a line for each tool."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._pieces = TextPieces()
        self._at_margin = True
        answer.on_text = self._write

    def due(self) -> float:
        """Return the seconds after which to look again."""
        return _IDLE

    def note(self, text: str) -> None:
        """Print something of ours between what comes in."""
        self._flush()
        self._line(text)

    def changed(self, event: dict[str, Any]) -> None:
        """Print what an event brought."""
        if event.get("type") == "TOOL_CALL_START" and self._answer.tools:
            self._flush()
            self._line(f"[{one_line(self._answer.tools[-1].name, 128)}]")

    def draw(self) -> None:
        """Everything is printed already."""

    def finish(self, note: str = "") -> None:
        """End the last line, and print a closing sentence of ours."""
        self._flush()
        if note:
            self._line(f"[{note}]")
        elif not self._at_margin:
            self._print("\n")

    def _write(self, text: str) -> None:
        self._print(self._pieces.take(text))

    def _flush(self) -> None:
        self._print(self._pieces.rest())

    def _line(self, text: str) -> None:
        self._print(("" if self._at_margin else "\n") + text + "\n")

    def _print(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._at_margin = text.endswith("\n")
