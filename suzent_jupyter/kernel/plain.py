"""Foreign text made harmless for a terminal: what a device wrote must not move cursors or reorder lines."""

from __future__ import annotations

import re
from typing import Any

# Whole escape sequences (ECMA-48 CSI, then OSC and the other string controls) first, so that no "[31m" stays behind.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
# Control, bidirectional, invisible and tag characters and surrogates; the joiners
# U+200C and U+200D stay (emoji, Persian).
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile("\r\n?|[\u2028\u2029\x85]")


def clean_lines(text: str, limit: int | None = None) -> str:
    """Return ``text`` with line ends as ``\\n`` and everything unprintable gone, at most ``limit`` characters."""
    if text.isascii() and text.isprintable():
        cleaned = text
    else:
        cleaned = _CONTROLS.sub("", _ESCAPES.sub("", _BREAKS.sub("\n", text)))
    if limit is not None and len(cleaned) > limit:
        return cleaned[: limit - 1] + "…"
    return cleaned


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
