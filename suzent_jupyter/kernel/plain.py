"""Foreign text made harmless for a terminal: what a device wrote must not move cursors or reorder lines."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..protocol.text import clean_lines

#: An escape sequence or line end that may go on in the next piece; a longer one is none.
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:[\[\]PX^_][^\x07\x1b@-Z\\^-~]{0,60})?|\x9b[0-?]{0,60})\Z")


def one_line(value: Any, limit: int | None = 200) -> str:
    """Return ``value`` as one cleaned line of text."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return clean_lines(" ".join(clean_lines(text).split()), limit)


def human_bytes(count: int) -> str:
    """Return a size for people, such as ``12.3 kB``."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def table(rows: list[dict[str, Any]], columns: list[str], *, width: int = 60) -> str:
    """Return aligned columns of cleaned text, a heading first; cells are cut to ``width`` characters."""
    grid = [[column.upper() for column in columns]]
    grid += [[one_line(row.get(column), width) for column in columns] for row in rows]
    widths = [max(display_width(line[index]) for line in grid) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell + " " * (wide - display_width(cell)) for cell, wide in zip(line, widths, strict=True)).rstrip()
        for line in grid
    )


def display_width(text: str) -> int:
    """Return how many terminal columns ``text`` takes (East Asian wide characters take two, marks none)."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


class TextPieces:
    """Foreign text that comes in pieces: what may be half an escape sequence or line end waits for the rest."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, text: str) -> str:
        """Return what of the text so far, and not returned yet, can be shown."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        return clean_lines(text[: len(text) - len(self._held)])

    def rest(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return clean_lines(held)


def shell() -> Any:
    """Return the IPython shell this runs in, None outside of one."""
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return get_ipython()


def is_notebook() -> bool:
    """Whether a front end shows what this shell displays, and can draw it anew; a terminal only prints."""
    return getattr(shell(), "kernel", None) is not None
