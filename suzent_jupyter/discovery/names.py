"""What a gateway is called in mDNS: names within the limits of DNS, and one that stays its own."""

from __future__ import annotations

import hashlib
import platform
import unicodedata
import uuid
from collections.abc import Iterator

from ..protocol.text import clean_text

LABEL_BYTES = 63  # RFC 1035 section 2.3.4
TXT_BYTES = 255  # key, equals sign and value; RFC 6763 section 6.1


def cut(text: str, most: int) -> str:
    """Return as much of ``text`` as fits in ``most`` bytes of UTF-8, ending after a whole character."""
    kept = text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
    if len(kept) < len(text):
        # A letter whose marks, or an emoji whose other half, had no room goes too.
        end = len(kept)
        while 0 < end < len(text) and _joins(text[end - 1], text[end]):
            end -= 1
        kept = kept[:end] or kept
    return kept.strip()


def _joins(before: str, after: str) -> bool:
    return before == "\u200d" or after == "\u200d" or unicodedata.category(after) in ("Mn", "Mc", "Me", "Sk")


def txt_value(key: str, value: str) -> str:
    """Return as much of a value as one TXT entry holds."""
    return cut(value, TXT_BYTES - len(key) - 1)


def instance_labels(display_name: str, tag: str) -> Iterator[str]:
    """Yield the labels to try for a display name: as it is, with a stable suffix, and with one nobody else has.

    Dots become dashes: many programs take what stands before the first dot as the name.
    """
    plain = clean_text(display_name, 256).replace(".", "-") or "Suzent"
    yield cut(plain, LABEL_BYTES)
    for suffix in (tag[:4], tag):
        yield f"{cut(plain, LABEL_BYTES - len(suffix) - 1)} {suffix}"


def stable_tag(place: str) -> str:
    """Return eight characters that are the same at each start, and others on another machine or for another ``place``.

    Blocking: the operating system is asked for a hardware address.
    """
    text = f"{platform.node()}\n{uuid.getnode()}\n{place}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
