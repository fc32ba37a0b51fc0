"""Text that comes from devices and peers: made harmless once, where it enters.

What remains hostile after this (HTML, Markdown) is escaped where it is rendered.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

# Whole escape sequences (ECMA-48 CSI, then OSC and the other string controls) first, so that no "[31m" stays behind.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
# Control, bidirectional (Unicode TR 36), invisible and tag characters, surrogates and private use. The joiners U+200C
# and U+200D stay: emoji sequences and Persian need them, and they change no order.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
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


def clean_text(value: Any, limit: int) -> str:
    """Return ``value`` as one line of printable text, at most ``limit`` characters.

    White space runs become one blank; escape sequences, control, bidirectional and invisible characters and surrogates
    go. Anything but a string, and text of which nothing can be seen, gives ``""``.
    """
    if not isinstance(value, str):
        return ""
    # A hostile megabyte need not be walked whole: what is dropped can't be most of honest text.
    text = value[: limit * 8]
    if not (text.isascii() and text.isprintable()):
        text = " ".join(_ESCAPES.sub("", unicodedata.normalize("NFC", text)).split())
        text = _CONTROLS.sub("", text)
    text = " ".join(text.split())[:limit].strip()
    return text if any(unicodedata.category(char)[0] in "LNPS" for char in text) else ""


def clean_tags(value: Any, count: int, limit: int = 64) -> list[str]:
    """Return at most ``count`` cleaned, distinct, non-empty tags."""
    if not isinstance(value, list):
        return []
    tags = (clean_text(item, limit) for item in value[: count * 4])
    return list(dict.fromkeys(tag for tag in tags if tag))[:count]


def split_list(text: str) -> list[str]:
    """Return the parts of a list with commas between, such as people type it; empty ones are left out."""
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_text(text: str) -> str:
    """Return ``text`` as UTF-8 can carry it: halves of surrogate pairs joined, and U+FFFD for one that stands alone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_texts(value: Any) -> Any:
    """Return parsed JSON with :func:`whole_text` of every text and key in it."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [whole_texts(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(str(name)): whole_texts(item) for name, item in value.items()}
    return value
