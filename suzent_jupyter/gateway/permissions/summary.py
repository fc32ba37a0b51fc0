"""Exactly what would run, as people are shown it; the same bytes are sent once they have said yes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from ...protocol.permissions import PermissionSummary
from ...protocol.text import clean_text, whole_texts
from ...protocol.wire import decode, encode

_TEXT_CHARS = 2000  # of one value; its end is shown too, or what matters could hide behind blanks
_TAIL_CHARS = 500
_SHOWN_CHARS = 16_000
_DEPTH = 32
_FILES = 64
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,200},")
# Whatever has no shape of its own, or changes the order of what is read: shown by its number.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Parameters that can't change any more, and their summary."""

    params: bytes
    summary: PermissionSummary


def freeze(command: str, description: str, params: bytes | memoryview) -> Frozen:
    """Return parameters as they will be sent, and what is shown of them.

    They are written anew from what was read: of a name that stands there twice only the value that is shown is left.
    """
    value = decode(params)
    return Frozen(encoded := encode(value), _summary(command, description, value, encoded))


def summarize(command: str, description: str, value: dict[str, Any]) -> PermissionSummary:
    """Return the summary of a tool's arguments."""
    return _summary(command, description, value, encode(whole_texts(value)))


def clean_summary(value: Any, tool: str) -> PermissionSummary:
    """Return what a node says that its agent wants to do, as far as it can be shown."""
    said = value if isinstance(value, dict) else {}
    params = said.get("params")
    text = params if isinstance(params, str) else "" if params is None else _json(_shown(params, [], 0))
    files = []
    listed = said.get("files")
    for each in listed[:_FILES] if isinstance(listed, list) else []:
        if isinstance(each, dict):
            size = each.get("size")
            files.append(_file(each.get("name"), each.get("media_type"), size if isinstance(size, int) else 0))
    digest = said.get("sha256")
    size = said.get("params_bytes")
    return PermissionSummary(
        command=clean_text(said.get("command"), 128) or tool,
        description=clean_text(said.get("description"), 500),
        params=_unseen_shown(_cut(text)),
        params_bytes=size if isinstance(size, int) and 0 <= size < 2**53 else len(text.encode(errors="replace")),
        files=files,
        sha256=digest if isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) else "",
    )


def _summary(command: str, description: str, value: Any, encoded: bytes) -> PermissionSummary:
    files: list[dict[str, Any]] = []
    return PermissionSummary(
        command=command,
        description=clean_text(description, 500),
        params=_cut(_unseen_shown(_json(_shown(value, files, 0)))),
        params_bytes=len(encoded),
        files=files,
        sha256=hashlib.sha256(encoded).hexdigest(),
    )


def _shown(value: Any, files: list[dict[str, Any]], depth: int) -> Any:
    """Return a value with its files taken out and its long texts cut, so that all of its names can be seen."""
    if isinstance(value, str):
        match = _DATA_URL.match(value)
        if match is not None and len(value) > _TEXT_CHARS:
            return _took(files, "", match[1], _decoded_size(value[match.end() :]))
        return _cut_value(value)
    if depth >= _DEPTH:
        return _cut_value(_json(value))
    if isinstance(value, list):
        return [_shown(item, files, depth + 1) for item in value]
    if isinstance(value, dict):
        content, media_type = value.get("base64"), value.get("media_type")
        if isinstance(content, str) and isinstance(media_type, str):
            taken = _took(files, value.get("name"), media_type, _decoded_size(content))
            rest = {_cut_value(str(name)): _shown(item, files, depth + 1) for name, item in value.items()}
            return {**rest, "base64": taken} if len(content) > _TEXT_CHARS else rest
        if isinstance(value.get("url"), str) and isinstance(value.get("sha256"), str):
            size = value.get("size")
            _took(files, value.get("name"), media_type, size if isinstance(size, int) else 0)
        return {_cut_value(str(name)): _shown(item, files, depth + 1) for name, item in value.items()}
    return value


def _took(files: list[dict[str, Any]], name: Any, media_type: Any, size: int) -> str:
    if len(files) < _FILES:
        files.append(_file(name, media_type, size))
    return f"… a file of {size:,} bytes …"


def _file(name: Any, media_type: Any, size: int) -> dict[str, Any]:
    return {"name": clean_text(name, 128), "media_type": clean_text(media_type, 128), "size": size}


def _decoded_size(content: str) -> int:
    """Return how many bytes base64 stands for; of what is none, how many there are."""
    try:
        base64.b64decode(content[:4096][: min(len(content), 4096) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return len(content)
    return max(0, len(content) * 3 // 4 - content[-2:].count("="))


def _cut_value(text: str) -> str:
    if len(text) <= _TEXT_CHARS + _TAIL_CHARS:
        return text
    left = len(text) - _TEXT_CHARS - _TAIL_CHARS
    return f"{text[:_TEXT_CHARS]} … {left:,} characters left out … {text[-_TAIL_CHARS:]}"


def _cut(text: str) -> str:
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[:_SHOWN_CHARS]} … {len(text) - _SHOWN_CHARS:,} characters left out"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _unseen_shown(text: str) -> str:
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
