"""Names and kinds of files that come from other machines, made harmless."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from .text import clean_text

_NAME_BYTES = 200  # file systems take 255, and we put something before it
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]')
# Names that Windows gives to devices, whatever follows the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"([a-z]+)/([a-z0-9][a-z0-9.+_-]{0,100})")
_IMAGES = frozenset(["png", "jpeg", "gif", "webp", "bmp", "tiff", "avif"])
_OTHERS = frozenset(
    ["application/pdf", "application/json", "application/zip", "text/plain", "text/csv", "text/markdown"]
)
_HEADER_CHARS = 4096
_EXTENDED = re.compile(r"filename\*\s*=\s*UTF-8'[^']*'([^;\s]+)", re.IGNORECASE)
_PLAIN = re.compile(r'filename\s*=\s*(?:"([^"]*)"|([^;\s]+))', re.IGNORECASE)

#: What photos are taken for, and how each begins.
PHOTO_TYPES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
#: What is only to be kept, never to be shown.
OCTETS = "application/octet-stream"


def clean_file_name(value: Any, fallback: str = "file") -> str:
    """Return the last part of a path as a name that every file system takes and that hides nothing."""
    text = value if isinstance(value, str) else ""
    name = clean_text(re.split(r"[/\\]", text)[-1], 4 * _NAME_BYTES)
    name = _FORBIDDEN.sub("_", name).strip(" .")
    if not name:
        return fallback
    if _DEVICES.fullmatch(name):
        name = f"_{name}"
    while len(name.encode()) > _NAME_BYTES:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem[:-1]}{dot}{suffix}" if len(stem) > 1 and len(suffix) <= 16 else name[:-1]
    return name.strip(" .")  # where it was cut


def safe_media_type(value: Any) -> str:
    """Return a media type that no browser takes for a page or a program, without parameters; else that of bytes."""
    text = value.partition(";")[0].strip().lower() if isinstance(value, str) else ""
    found = _MEDIA_TYPE.fullmatch(text)
    if found is None:
        return OCTETS
    kind, name = found.groups()
    harmless = name in _IMAGES if kind == "image" else kind in ("audio", "video") or text in _OTHERS
    return text if harmless else OCTETS


def photo_type(head: bytes) -> str | None:
    """Return the media type of a photo by its first bytes; None for what is no PNG or JPEG."""
    return next((kind for kind, signature in PHOTO_TYPES.items() if head.startswith(signature)), None)


def attachment_header(name: str) -> str:
    """Return ``Content-Disposition`` for a file to be kept (RFC 6266, with the name as in RFC 8187)."""
    plain = re.sub(r"[^ !#$&+.0-9A-Z^_`a-z|~()\[\]-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def named_in(header: str) -> str:
    """Return the name in a ``Content-Disposition``, cleaned; ``""`` if there is none."""
    header = header[:_HEADER_CHARS]
    if (extended := _EXTENDED.search(header)) is not None:
        return clean_file_name(unquote(extended[1]), "")
    plain = _PLAIN.search(header)
    return clean_file_name(plain[1] if plain[1] is not None else plain[2], "") if plain is not None else ""
