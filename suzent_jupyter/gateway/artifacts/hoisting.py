"""Finds what is too large for a frame in JSON, and decodes it piece by piece. Pure, and nothing here waits.

What is looked for: ``{media_type, base64, …}`` and ``data:`` URLs whose content is more than so many bytes, anywhere
inside; and references to kept files.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...protocol.artifacts import is_reference
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text

_STEP_CHARS = 256 * 1024  # a multiple of 4
_SPACE = " \t\n\r\f"
_DATA_URL = re.compile(r"data:([^,;\s]{0,128})((?:;[^,;\s]{1,128}){0,8});base64,", re.IGNORECASE)
_BASE64_CHARS = re.compile(r"[A-Za-z0-9+/ \t\n\r\f]*={0,2}[ \t\n\r\f]*")
_LEAST_BYTES = 110  # a reference has a SHA-256 and four names in it
_LOOKED_AT = 64  # quotation marks, one by one; a large text has few of them
_WORDS = (b'sha256"', b'base64"', b"data:", b"DATA:", b"Data:")
_MENTIONS = re.compile(b'"(?=' + b"|".join(_WORDS) + b")")
_PLAIN_TYPE = "text/plain"  # of a data: URL that names none (RFC 2397)


@dataclass(slots=True)
class Inline:
    """Content that stands in JSON as base64.

    Attributes
    ----------
    holder : dict or list
        What it stands in, under ``key``.
    path : str
        Where that is, for people.
    text : str
        What holds it; the base64 begins at ``start``.
    more : dict
        What else is said of it.
    """

    holder: Any
    key: Any
    path: str
    text: str
    start: int
    media_type: str
    name: str
    data_url: bool
    more: dict[str, Any]

    def pieces(self) -> Iterator[bytes]:
        """Decode it; ``invalid_params`` where it is no base64."""
        return decoded(self.text, self.start, self.path)


@dataclass(slots=True)
class Named:
    """A reference that stands in JSON."""

    holder: Any
    key: Any
    reference: dict[str, Any]


def may_hold(params: bytes | memoryview, hoist_bytes: float | None) -> bool:
    """Tell whether encoded parameters may hold something to hoist, or a reference; nearly all don't.

    Parameters
    ----------
    params : bytes or memoryview
        JSON.
    hoist_bytes : float, optional
        Content that is larger is hoisted; None for nodes to which everything goes inside the frame.
    """
    if len(params) < _LEAST_BYTES:
        return False
    hoists = hoist_bytes is not None and len(params) > hoist_bytes * 4 / 3
    words = _WORDS if hoists else _WORDS[:1]
    raw = params if isinstance(params, bytes) else bytes(params)
    at = -1
    for _ in range(_LOOKED_AT):
        at = raw.find(b'"', at + 1)
        if at < 0:
            return False
        if raw.startswith(words, at + 1):
            return True
    return any(raw.startswith(words, found.end()) for found in _MENTIONS.finditer(raw, at))


def find(value: Any, hoist_bytes: float | None) -> tuple[list[Inline], list[Named]]:
    """Return what to hoist and the references that stand in a JSON value, to be replaced in their holders."""
    inline: list[Inline] = []
    named: list[Named] = []
    waiting: list[tuple[Any, str]] = [(value, "")]
    while waiting:
        holder, path = waiting.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, each in items:
            where = (path, key)
            if isinstance(each, str):
                if hoist_bytes is not None and (found := _data_url(each, hoist_bytes)) is not None:
                    media_type = f"{found[1]}{found[2]}" or _PLAIN_TYPE
                    inline.append(Inline(holder, key, _place(where), each, found.end(), media_type, "", True, {}))
            elif isinstance(each, dict):
                part = _part(each) if hoist_bytes is not None else None
                if part is not None and size_of(part) > (hoist_bytes or 0):
                    name = each["name"] if isinstance(each.get("name"), str) else ""
                    more = {field: other for field, other in each.items() if field != "base64"}
                    inline.append(Inline(holder, key, _place(where), part, 0, each["media_type"], name, False, more))
                elif is_reference(each):
                    named.append(Named(holder, key, each))
                else:
                    waiting.append((each, _place(where)))
            elif isinstance(each, list):
                waiting.append((each, _place(where)))
    return inline, named


def size_of(text: str, start: int = 0) -> int:
    """Return how many bytes base64 stands for; white space counts nothing."""
    chars = len(text) - start
    chars -= sum(text.count(space, start) for space in _SPACE)
    return (chars - min(text.count("=", start), 2)) * 3 // 4


def decoded(text: str, start: int, path: str) -> Iterator[bytes]:
    """Decode base64 piece by piece, with white space and without padding too, as browsers take it.

    Raises
    ------
    SuzentError
        ``invalid_params``, naming ``path``.
    """
    kept = ""
    for at in range(start, len(text), _STEP_CHARS):
        part = kept + "".join(text[at : at + _STEP_CHARS].split())
        if at + _STEP_CHARS < len(text) and "=" not in part:
            whole = len(part) - len(part) % 4
            kept = part[whole:]
            if whole:
                yield _decode(part[:whole], path)
        else:  # the end: padding is nowhere else
            rest = part + "".join(text[at + _STEP_CHARS :].split())
            if len(rest) > _STEP_CHARS + 8 or rest.count("=") > 2:
                raise _broken(path)
            missing = -len(rest) % 4 if "=" not in rest else 0
            if rest:
                yield _decode(rest + "=" * missing, path)
            return


def _decode(text: str, path: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise _broken(path) from None


def _broken(path: str) -> SuzentError:
    return SuzentError("invalid_params", f"`{path}` holds no valid base64; nothing was sent.")


def data_url_head(text: str) -> re.Match[str] | None:
    """Return what stands before the base64 of a data: URL (RFC 2397); its group 1 is the media type."""
    return _DATA_URL.match(text) if text[:5].casefold() == "data:" else None


def _data_url(text: str, hoist_bytes: float) -> re.Match[str] | None:
    """Return the head of a text that is a data: URL with so much in it, and of nothing that merely begins like one."""
    head = data_url_head(text)
    if head is None or size_of(text, head.end()) <= hoist_bytes:
        return None
    return head if _BASE64_CHARS.fullmatch(text, head.end()) is not None else None


def _part(value: dict[str, Any]) -> str | None:
    text = value.get("base64")
    return text if isinstance(text, str) and isinstance(value.get("media_type"), str) else None


def _place(where: tuple[str, Any]) -> str:
    path, key = where
    if isinstance(key, int):
        return f"{path}[{key}]"
    key = clean_text(key, 64)
    return f"{path[-200:]}.{key}" if path else key
