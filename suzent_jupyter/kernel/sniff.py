"""Media types told by content: what a device claims is believed only where the first bytes agree."""

from __future__ import annotations

#: Raster images that are shown. SVG is a program and never is.
IMAGES = frozenset(["image/png", "image/jpeg", "image/gif", "image/webp"])
#: Audio that is played.
AUDIO = frozenset(["audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/webm"])

_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-flac": "audio/flac",
    "audio/opus": "audio/ogg",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/aac": "audio/mp4",
}
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "audio/webm": ".webm",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "text/plain": ".txt",
    "text/csv": ".csv",
}


def sniff(data: bytes) -> str | None:
    """Return the media type that the first bytes show, None if they show none we know."""
    head = bytes(data[:16])
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    if head.startswith(b"OggS"):
        return "audio/ogg"
    if head.startswith(b"fLaC"):
        return "audio/flac"
    if head[4:8] == b"ftyp" and head[8:11] in (b"M4A", b"mp4", b"iso"):
        return "audio/mp4"
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "audio/webm"
    if head.startswith(b"ID3") or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2):
        return "audio/mpeg"
    return None


def normal(media_type: str) -> str:
    """Return a media type without parameters, in lower case, by its usual name."""
    kind = media_type.partition(";")[0].strip().casefold()
    return _ALIASES.get(kind, kind)


def shown_as(media_type: str, data: bytes) -> str | None:
    """Return the type under which ``data`` may be shown, None where claim and content disagree or it is not shown."""
    kind = normal(media_type)
    return kind if kind in IMAGES | AUDIO and sniff(data) == kind else None


def suffix(media_type: str, data: bytes) -> str:
    """Return the file name ending for ``data``: by content if known, else a harmless claim, else ``.bin``."""
    return _SUFFIXES.get(sniff(data) or normal(media_type), ".bin")
