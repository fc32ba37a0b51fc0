"""Text that comes from devices and peers: made harmless once, where it enters.

What remains hostile after this (HTML, Markdown) is escaped where it is rendered.
"""

from __future__ import annotations

import unicodedata
from typing import Any

# Joiners inside emoji sequences and Indic or Persian words. They are format characters that change no order.
_KEPT_FORMAT = {"\u200c", "\u200d"}
_DROPPED = {"Cc", "Cf", "Cs", "Co", "Cn"}


def clean_text(value: Any, limit: int) -> str:
    """Return ``value`` as one line of printable text, at most ``limit`` characters.

    White space runs become one blank; control characters, bidirectional controls (Unicode TR 36), surrogates and
    unassigned code points go. Anything but a string gives ``""``.
    """
    if not isinstance(value, str):
        return ""
    # A hostile megabyte need not be walked whole: combining marks can't shrink text below a quarter.
    value = unicodedata.normalize("NFC", value[: limit * 8])
    kept = []
    for char in value:
        category = unicodedata.category(char)
        if char.isspace() or category in ("Zl", "Zp"):
            kept.append(" ")
        elif category not in _DROPPED or char in _KEPT_FORMAT:
            kept.append(char)
    text = " ".join("".join(kept).split())
    if not any(unicodedata.category(char)[0] in "LNPS" for char in text):
        return ""
    return text[:limit].strip()


def clean_tags(value: Any, count: int, limit: int = 64) -> list[str]:
    """Return at most ``count`` cleaned, distinct, non-empty tags."""
    if not isinstance(value, list):
        return []
    tags = (clean_text(item, limit) for item in value[: count * 4])
    return list(dict.fromkeys(tag for tag in tags if tag))[:count]
