"""What devices, files and other machines say, as a model gets to see it: JSON under the key ``data``, bounded."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

from ..protocol.errors import SuzentError
from ..protocol.files import PHOTO_TYPES, photo_type
from ..protocol.text import clean_text
from ..protocol.wire import encode

_DEPTH = 32
_ITEMS = 1000
_PICTURES = 4


@dataclass(slots=True)
class Shown:
    """A result as text, and the pictures in it as (bytes, media type)."""

    text: str
    pictures: list[tuple[bytes, str]] = field(default_factory=list)


def show(value: Any, max_bytes: int, max_picture_bytes: int = 0) -> Shown:
    """Return a result for a model.

    Binary parts ``{media_type, base64, name?}`` become a short description; small PNG and JPEG pictures are handed out
    beside it. What is longer than ``max_bytes`` is cut, with a note.
    """
    seer = _Seer(max(200, max_bytes // 4), max_picture_bytes)
    seen = seer.see(value, _DEPTH)
    text = _json({"data": seen})
    if len(text.encode()) > max_bytes:
        size = len(text.encode())
        beginning = _json(seen).encode()[: max(0, max_bytes)].decode(errors="ignore")
        text = _json({"data_cut": beginning, "note": f"Cut: these are the first {max_bytes:,} of {size:,} bytes."})
    return Shown(text, seer.pictures)


def show_error(error: SuzentError) -> str:
    """Return an error for a model: what happened, and what may help."""
    facts = {"code": error.code, "message": clean_text(error.message, 2000)}
    if error.hint:
        facts["hint"] = clean_text(error.hint, 500)
    return _json({"error": facts})


def is_picture(content: bytes, media_type: str) -> bool:
    """Tell whether these bytes begin as a PNG or JPEG picture does, and are said to be one."""
    return photo_type(content) == media_type


def _json(value: Any) -> str:
    return encode(value).decode()


class _Seer:
    def __init__(self, string_chars: int, picture_bytes: int) -> None:
        self.pictures: list[tuple[bytes, str]] = []
        self._string_chars = string_chars
        self._picture_bytes = picture_bytes

    def see(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, dict):
            media_type, encoded = value.get("media_type"), value.get("base64")
            if isinstance(media_type, str) and isinstance(encoded, str):
                return self._binary(media_type, encoded, value.get("name"))
            if depth == 0:
                return "… (nested too deeply)"
            items = list(value.items())[:_ITEMS]
            seen = {self._string(str(key)): self.see(item, depth - 1) for key, item in items}
            if len(value) > _ITEMS:
                seen["…"] = f"{len(value) - _ITEMS:,} further entries are not shown"
            return seen
        if isinstance(value, list):
            if depth == 0:
                return "… (nested too deeply)"
            listed = [self.see(item, depth - 1) for item in value[:_ITEMS]]
            return [*listed, f"… ({len(value) - _ITEMS:,} further items)"] if len(value) > _ITEMS else listed
        return value

    def _string(self, text: str) -> str:
        if len(text) <= self._string_chars:
            return text
        return f"{text[: self._string_chars]}… ({len(text):,} characters in all)"

    def _binary(self, media_type: str, encoded: str, name: Any) -> dict[str, Any]:
        media_type = clean_text(media_type.partition(";")[0].lower(), 64)
        size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
        seen: dict[str, Any] = {"media_type": media_type, "bytes": size}
        if isinstance(name, str) and (name := clean_text(name, 128)):
            seen["name"] = name
        picture = self._picture(media_type, encoded, size)
        if picture is None:
            return {**seen, "note": "Binary data, not shown; the caller of this turn can ask for it."}
        self.pictures.append((picture, media_type))
        return {**seen, "note": f"Picture {len(self.pictures)}, which follows."}

    def _picture(self, media_type: str, encoded: str, size: int) -> bytes | None:
        if media_type not in PHOTO_TYPES or size > self._picture_bytes or len(self.pictures) >= _PICTURES:
            return None
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
        return content if is_picture(content, media_type) else None
