"""What a capability returns, turned into JSON: science objects included, and never a reason to lose the connection."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import io
import math
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from ..protocol.text import whole_text
from ..protocol.wire import encode

_DEPTH = 64
_SMALL = 256  # values, and as many times 256 characters
_MEDIA_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"PK\x03\x04", "application/zip"),
)


class ResultError(ValueError):
    """A value has no JSON form, or is too large for a frame."""

    def __init__(self, message: str, code: str = "bad_answer") -> None:
        super().__init__(message)
        self.code = code


def binary(data: bytes, media_type: str = "", name: str = "") -> dict[str, str]:
    """Return binary data as it stands in a result: ``{"media_type", "base64", "name"?}``.

    Parameters
    ----------
    data : bytes
        The content.
    media_type : str
        Such as ``image/png``; guessed from the first bytes where it is empty.
    name : str
        A file name to save it under.
    """
    value = {"media_type": media_type or _media_type(data), "base64": base64.b64encode(data).decode("ascii")}
    return {**value, "name": name} if name else value


def _media_type(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(bytes(data[8:12]), "application/octet-stream")
    head = bytes(data[:8])
    return next((kind for magic, kind in _MEDIA_TYPES if head.startswith(magic)), "application/octet-stream")


def to_wire(value: Any) -> Any:
    """Return ``value`` as plain JSON types.

    NaN and infinities become null (RFC 8259 has none), halves of surrogate pairs U+FFFD, bytes and PIL images
    ``{"media_type", "base64"}``, numpy arrays lists, pandas frames lists of records (with the index as columns where it
    says something), times ISO 8601 text, durations seconds, paths, UUIDs and decimals text, enums their values,
    dataclasses, pydantic models and named tuples objects.

    Raises
    ------
    ResultError
        For anything else, and for nesting beyond 64 levels (as in a list that contains itself).
    """
    return _convert(value, 0)


def encode_result(request_id: str, value: Any, limit: int) -> bytes:
    """Return the ``result`` frame of a call that succeeded; see :func:`encode_frame`."""
    return encode_frame({"type": "result", "request_id": request_id, "success": True}, value, limit)


def encode_frame(head: dict[str, Any], value: Any, limit: int) -> bytes:
    """Return a frame that carries ``value`` as its ``result``, at most ``limit`` bytes.

    Raises
    ------
    ResultError
        When ``value`` has no JSON form or the frame would be larger.
    """
    try:
        frame = encode({**head, "result": to_wire(value)})
    except MemoryError:
        raise ResultError("The result is too large for this device's memory.") from None
    if len(frame) > limit:
        raise ResultError(
            f"The result is {len(frame):,} bytes as JSON, and this gateway takes {limit:,} in one frame; "
            "return less, or store it and return a URL.",
            "too_large",
        )
    return frame


def is_small(value: Any) -> bool:
    """Tell whether ``value`` is so small and plain that converting it on the event loop harms nobody."""
    todo, budget = [value], _SMALL
    while todo:
        part = todo.pop()
        budget -= 1 + (len(part) // 256 if isinstance(part, str) else 0)
        if type(part) in (list, tuple, dict):
            if len(part) > budget:
                return False
            todo.extend(part.values() if type(part) is dict else part)
        elif part is not None and type(part) not in (bool, int, float, str):
            return False
        if budget < 0:
            return False
    return True


def _convert(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, enum.Enum):
        return _convert(value.value, depth + 1)
    if isinstance(value, str):
        return whole_text(str(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > _DEPTH:
        raise ResultError(f"The result is nested more than {_DEPTH} levels deep, or contains itself.")
    if isinstance(value, Mapping):
        return {_key(key): _convert(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list):
        return [_convert(part, depth + 1) for part in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return binary(bytes(value))
    return _convert_object(value, depth)


def _convert_object(value: Any, depth: int) -> Any:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat() if value == value else None  # noqa: PLR0124 - pandas' NaT differs from itself
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, PurePath | uuid.UUID | decimal.Decimal):
        return whole_text(str(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _convert(getattr(value, item.name), depth + 1) for item in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _convert(dump(), depth + 1)
    if isinstance(value, tuple) and callable(as_dict := getattr(value, "_asdict", None)):
        return _convert(as_dict(), depth + 1)
    for module, convert in (("numpy", _from_numpy), ("pandas", _from_pandas), ("PIL.Image", _from_pillow)):
        # A value of these types can only exist where the module was imported by somebody else.
        if (loaded := sys.modules.get(module)) is not None:
            converted = convert(value, loaded)
            if converted is not value:
                return _convert(converted, depth + 1)
    if isinstance(value, Iterable) and not isinstance(value, type):
        return [_convert(part, depth + 1) for part in value]
    raise ResultError(f"A value of type {type(value).__name__} has no JSON form; return plain data, bytes or an image.")


def _from_numpy(value: Any, numpy: Any) -> Any:
    if isinstance(value, numpy.generic):
        value = value.reshape(())
    elif not isinstance(value, numpy.ndarray):
        return value
    if value.dtype.kind in "mM":
        value = value.astype(f"{value.dtype.kind}8[us]")  # finer units would come out as bare integers
    return value.tolist()


def _from_pandas(value: Any, pandas: Any) -> Any:
    if value is pandas.NA or value is pandas.NaT:
        return None
    if isinstance(value, pandas.Series):
        if _says_nothing(value.index, pandas):
            return value.tolist()
        value = value.to_frame("value" if value.name is None else value.name)
    elif isinstance(value, pandas.Index):
        return value.tolist()
    if not isinstance(value, pandas.DataFrame):
        return value
    if not _says_nothing(value.index, pandas):
        value = value.reset_index(allow_duplicates=True)
    names = [_key(name) for name in value.columns]
    return [dict(zip(names, row, strict=True)) for row in value.itertuples(index=False, name=None)]


def _says_nothing(index: Any, pandas: Any) -> bool:
    return isinstance(index, pandas.RangeIndex) and index.name is None


def _from_pillow(value: Any, image_module: Any) -> Any:
    if not isinstance(value, image_module.Image):
        return value
    if value.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        value = value.convert("RGB")
    buffer = io.BytesIO()
    value.save(buffer, format="PNG")
    return binary(buffer.getvalue(), "image/png")


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return whole_text(str(key))
    if isinstance(key, tuple):
        return " ".join(_key(part) for part in key)
    return whole_text(str(key))
