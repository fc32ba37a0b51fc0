"""How far a large file is on its way: one line that is written anew, under the cell or on a terminal's stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from ..protocol.limits import Limits
from .plain import human_bytes, is_notebook, one_line

_INTERVAL = 0.1  # s between two drawings
_WIDTH = 24
_SHOWN = int(Limits().transfer_shown)


class Transfer:
    """One file; a context in which :meth:`__call__` says how many bytes are through. Small ones show nothing.

    Parameters
    ----------
    doing, done : str
        Such as ``Sending`` and ``Sent``.
    name : str
        Of the file, for people.
    size : int
        Bytes.
    shown : bool
        Whether somebody may look.
    """

    def __init__(self, doing: str, done: str, name: str, size: int, *, shown: bool = True) -> None:
        self._doing = doing
        self._done = done
        self._name = one_line(name, 60) or "a file"
        self._size = size
        self._next = self._began = 0.0
        self._line: _Line | None = None
        if shown and size > _SHOWN:
            self._line = _Displayed() if is_notebook() else _Terminal() if _is_terminal() else None

    def __call__(self, through: int) -> None:
        """Show it, unless it was shown a moment ago."""
        now = time.monotonic()
        if self._line is None or now < self._next:
            return
        self._next = now + _INTERVAL
        share = min(1.0, through / self._size)
        full = int(share * _WIDTH)
        self._line.show(
            f"{self._doing} {self._name} [{'#' * full}{'-' * (_WIDTH - full)}] {share:4.0%} "
            f"of {human_bytes(self._size)}"
        )

    def __enter__(self) -> Transfer:
        self._began = time.monotonic()
        self(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is None:
            return
        if kind is None:
            seconds = time.monotonic() - self._began
            self._line.end(f"{self._done} {self._name}, {human_bytes(self._size)} in {seconds:.1f} s")
        else:
            self._line.end(f"{self._doing} {self._name}: stopped")


class _Line:
    def show(self, text: str) -> None:
        raise NotImplementedError

    def end(self, text: str) -> None:
        raise NotImplementedError


class _Displayed(_Line):
    """A display of the running cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    end = show


class _Terminal(_Line):
    """The last line of stderr."""

    def __init__(self) -> None:
        self._chars = 0

    def show(self, text: str) -> None:
        text = text.encode(sys.stderr.encoding or "utf-8", "replace").decode(sys.stderr.encoding or "utf-8")
        sys.stderr.write("\r" + text + " " * (self._chars - len(text)))
        sys.stderr.flush()
        self._chars = len(text)

    def end(self, text: str) -> None:
        self.show(text)
        sys.stderr.write("\n")


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed, or none
        return False
