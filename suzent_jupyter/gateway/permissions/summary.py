"""Exactly what would run, as people are shown it; the same bytes are sent once they have said yes."""

from __future__ import annotations

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
_END_CHARS = 4000  # of those, for the end, where even short values are too much
_SHORTER = ((_TEXT_CHARS, _TAIL_CHARS), (400, 200), (80, 40), (20, 10))
_DEPTH = 32
_FILES = 64
# Only what can be nothing but a file is taken out: a shell would run what merely begins like one.
_DATA_URL = re.compile(r"data:([\w.+-]{1,64}/[\w.+-]{1,64})?(?:;[\w.+-]{1,64}=[\w.+-]{0,64}){0,4};base64,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
# Whatever has no shape of its own, or changes the order of what is read: shown by its number.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
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
    text = params if isinstance(params, str) else "" if params is None else _fitting(params, [])
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
        params=_cut(_unseen_shown(_cut(text))),
        params_bytes=size if isinstance(size, int) and 0 <= size < 2**53 else len(text.encode(errors="replace")),
        files=files,
        sha256=digest if isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) else "",
    )


def _summary(command: str, description: str, value: Any, encoded: bytes) -> PermissionSummary:
    files: list[dict[str, Any]] = []
    return PermissionSummary(
        command=command,
        description=clean_text(description, 500),
        params=_cut(_unseen_shown(_fitting(value, files))),
        params_bytes=len(encoded),
        files=files,
        sha256=hashlib.sha256(encoded).hexdigest(),
    )


def _fitting(value: Any, files: list[dict[str, Any]]) -> str:
    """Return a value as JSON; its texts are cut the more the more of them there are, so that each has its say."""
    text = ""
    for chars in _SHORTER:
        files.clear()
        text = _json(_shown(value, files, 0, chars))
        if len(text) <= _SHOWN_CHARS:
            break
    return text


def _shown(value: Any, files: list[dict[str, Any]], depth: int, chars: tuple[int, int]) -> Any:
    """Return a value with its files taken out and its long texts cut, so that all of its names can be seen."""
    if isinstance(value, str):
        match = _DATA_URL.match(value)
        if match is not None and len(value) > _TEXT_CHARS and _BASE64.fullmatch(value, match.end()):
            return match[0] + _took(files, "", match[1], _decoded_size(value[match.end() :]))
        return _cut_value(value, chars)
    if depth >= _DEPTH:
        return _cut_value(_json(value), chars)
    if isinstance(value, list):
        return [_shown(item, files, depth + 1, chars) for item in value]
    if isinstance(value, dict):
        content, media_type = value.get("base64"), value.get("media_type")
        taken = None
        if isinstance(content, str) and isinstance(media_type, str):
            is_file = _BASE64.fullmatch(content) is not None
            said = _took(files, value.get("name"), media_type, _decoded_size(content) if is_file else len(content))
            taken = said if is_file and len(content) > _TEXT_CHARS else None
        elif isinstance(value.get("url"), str) and isinstance(value.get("sha256"), str):
            size = value.get("size")
            _took(files, value.get("name"), media_type, size if isinstance(size, int) else 0)
        shown: dict[str, Any] = {}
        for key, item in value.items():
            name = _cut_value(str(key), chars)
            if name in shown:  # names that differ in their middle alone
                name = f"{name} (no. {len(shown) + 1})"
            shown[name] = taken if taken is not None and key == "base64" else _shown(item, files, depth + 1, chars)
        return shown
    return value


def _took(files: list[dict[str, Any]], name: Any, media_type: Any, size: int) -> str:
    if len(files) < _FILES:
        files.append(_file(name, media_type, size))
    return f"… a file of {size:,} bytes …"


def _file(name: Any, media_type: Any, size: int) -> dict[str, Any]:
    return {"name": clean_text(name, 128), "media_type": clean_text(media_type, 128), "size": size}


def _decoded_size(content: str) -> int:
    """Return how many bytes base64 stands for."""
    return len(content.rstrip("=")) * 3 // 4


def _cut_value(text: str, chars: tuple[int, int] = _SHORTER[0]) -> str:
    head, tail = chars
    if len(text) <= head + tail:
        return text
    left = len(text) - head - tail
    return f"{text[:head]} … {left:,} characters left out … {text[-tail:]}"


def _cut(text: str) -> str:
    return _cut_value(text, (_SHOWN_CHARS - _END_CHARS, _END_CHARS))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _unseen_shown(text: str) -> str:
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
