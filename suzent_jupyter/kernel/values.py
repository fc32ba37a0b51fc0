"""Parameters as people type them and as Python holds them, made into JSON."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import InvalidParams, UsageError
from .sniff import sniff


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_PAIR = re.compile(r"([A-Za-z_][\w.\-]*)=", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_PLAIN = (str, int, bool, type(None))
_JSON = json.JSONDecoder(parse_constant=_refuse)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line: its text, where it began, whether any of it was quoted, and all quotes closed."""

    text: str
    start: int
    quoted: bool = False
    closed: bool = True


def split(line: str, *, partial: bool = False) -> list[Word]:
    """Split a line as a shell does, keeping JSON whole.

    Quotes group, a backslash takes the next character as it is, and an object or array at the start of a word or right
    after ``key=`` is one word with its braces, blanks and quotes.

    Parameters
    ----------
    partial : bool
        Accept a quote that is not closed yet (for completion).

    Raises
    ------
    UsageError
        A quote is not closed.
    """
    words: list[Word] = []
    index, end = 0, len(line)
    while index < end:
        if line[index].isspace():
            index += 1
            continue
        start, text, quoted, closed = index, "", False, True
        while index < end and not line[index].isspace():
            char = line[index]
            if char in "{[" and (not text or _PAIR.fullmatch(text)) and not quoted:
                whole = _json_end(line, index)
                if whole:
                    text += line[index:whole]
                    index = whole
                    continue
            if char in "'\"":
                quoted = True
                piece, after, closed = _quoted(line, index)
                if not closed and not partial:
                    raise UsageError(
                        f"The quote {char} is not closed.", hint=f"Write \\{char} for the character itself."
                    )
                text += piece
                index = after
            elif char == "\\" and index + 1 < end:
                text += line[index + 1]
                quoted = True
                index += 2
            else:
                text += char
                index += 1
        words.append(Word(text, start, quoted, closed))
    return words


def _json_end(line: str, start: int) -> int:
    try:
        _, after = _JSON.raw_decode(line, start)
    except (ValueError, RecursionError):
        return 0
    return after if after == len(line) or line[after].isspace() else 0


def _quoted(line: str, start: int) -> tuple[str, int, bool]:
    quote, index, text = line[start], start + 1, ""
    while index < len(line):
        char = line[index]
        if char == quote:
            return text, index + 1, True
        if char == "\\" and quote == '"' and index + 1 < len(line) and line[index + 1] in '"\\':
            text += line[index + 1]
            index += 2
            continue
        text += char
        index += 1
    return text, index, False


def typed_code(code: str) -> str:
    """Return a code as it stands in a command that people copy; what a stranger calls one must not be part of it."""
    return code if code.isascii() and code.isalnum() else "CODE"


def quote(text: str) -> str:
    """Return ``text`` as one word that :func:`split` reads back."""
    if text and not re.search(r"[\s'\"\\{}\[\]$]", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def typed(text: str) -> Any:
    """Return the JSON that ``text`` is (``true``, ``None`` in any case), else the text itself."""
    word = text.strip().casefold()
    if word in _WORDS:
        return _WORDS[word]
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def pair(word: Word, namespace: Mapping[str, Any] | None = None) -> tuple[str, Any]:
    """Read one ``key=value``; ``key=$name`` takes the object ``name`` from ``namespace``, as JSON unless it is large.

    Raises
    ------
    UsageError
        There is no ``=``, or no such name.
    """
    match = _PAIR.match(word.text)
    if match is None:
        shown = word.text if len(word.text) <= 40 else word.text[:39] + "…"
        raise UsageError(
            f"'{shown}' is not a parameter.",
            hint="Parameters look like key=value, such as format=png or text='two words'.",
        )
    key, value = match.group(1), word.text[match.end() :]
    reference = None if word.quoted or namespace is None else _REFERENCE.fullmatch(value)
    if reference is None:
        return key, typed(value)
    name = reference.group(1)
    assert namespace is not None
    if name not in namespace:
        raise UsageError(
            f"There is no variable '{name}' in this notebook.", hint=f"For the text itself write {key}='${name}'."
        )
    value = namespace[name]
    if type(value) not in _PLAIN:
        from .uploads import holds_large

        if holds_large(value):
            return key, value  # sent ahead, not inside the call
    return key, jsonable(value, key)


def read_json(text: str, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    UsageError
        It is not one.
    """
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not valid JSON: {error}.", hint='It looks like {"format": "png"}.') from None
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object.", hint='It looks like {"format": "png"}.')
    return value


def read_body(text: str) -> dict[str, Any]:
    """Read the body of a cell: JSON, else YAML (its safe subset), an object either way."""
    if not text.strip():
        return {}
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError):
        import yaml

        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" (line {mark.line + 1})" if mark else ""
            raise UsageError(
                f"The cell's body is neither JSON nor YAML{where}.", hint="Write one `key: value` a line."
            ) from None
    if not isinstance(value, dict):
        raise UsageError("The cell's body must be an object of parameters.", hint="Write one `key: value` a line.")
    return {str(key): jsonable(item, str(key)) for key, item in value.items()}


def jsonable(value: Any, name: str = "params", depth: int = 0) -> Any:
    """Return what ``value`` looks like as JSON.

    Bytes, images and :class:`~.results.Binary` become ``{"media_type", "base64"}``, frames their records, arrays lists,
    paths and times text (ISO 8601).

    Raises
    ------
    InvalidParams
        There is no sensible JSON for it.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > 64:
        raise InvalidParams(f"Parameter '{name}' is nested too deeply.")
    if isinstance(value, float):
        if not math.isfinite(value):
            if depth:
                return None
            raise InvalidParams(
                f"Parameter '{name}' is {value}, which JSON can't carry.", hint="Pass None or text instead."
            )
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item, name, depth + 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return binary(bytes(value))
    return _object(value, name, depth)


def binary(data: bytes, media_type: str | None = None, name: str | None = None) -> dict[str, str]:
    """Return bytes as the protocol carries them."""
    result = {
        "media_type": media_type or sniff(data) or "application/octet-stream",
        "base64": base64.b64encode(data).decode("ascii"),
    }
    return {**result, "name": name} if name else result


def _object(value: Any, name: str, depth: int) -> Any:
    if (found := _scientific(value, name, depth)) is not None:
        return found[0]
    import datetime
    import decimal
    import enum
    import os
    import uuid

    if isinstance(value, enum.Enum):
        return jsonable(value.value, name, depth + 1)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, str | int):
        return str(value) if isinstance(value, str) else int(value)
    for method in ("as_json", "model_dump"):
        if callable(getattr(value, method, None)) and not isinstance(value, type):
            return jsonable(getattr(value, method)(), name, depth + 1)
    raise InvalidParams(
        f"Parameter '{name}' is a {type(value).__name__}, which can't be sent as JSON.",
        hint="Pass numbers, text, lists, dicts, bytes, a DataFrame, an array or an image.",
    )


def _scientific(value: Any, name: str, depth: int) -> tuple[Any] | None:
    """Convert what numpy, pandas and PIL make, importing none of them: their objects prove them imported."""
    if (numpy := sys.modules.get("numpy")) is not None:
        if isinstance(value, numpy.ndarray):
            return (jsonable(value.tolist(), name, depth + 1),)
        if isinstance(value, numpy.datetime64 | numpy.timedelta64):
            return (None if numpy.isnat(value) else str(value),)
        if isinstance(value, numpy.generic):
            return (jsonable(value.item(), name, depth + 1),)
    if (pandas := sys.modules.get("pandas")) is not None:
        if value is pandas.NaT or value is pandas.NA:
            return (None,)
        if isinstance(value, pandas.DataFrame):
            if not isinstance(value.index, pandas.RangeIndex):
                value = value.reset_index()
            return (json.loads(value.to_json(orient="records", date_format="iso", date_unit="us")),)
        if isinstance(value, pandas.Series | pandas.Index):
            return (json.loads(pandas.Series(value).to_json(orient="values", date_format="iso", date_unit="us")),)
    if (image := sys.modules.get("PIL.Image")) is not None and isinstance(value, image.Image):
        from io import BytesIO

        stream = BytesIO()
        value.save(stream, "PNG")
        return (binary(stream.getvalue(), "image/png"),)
    return None


def prepare(params: Mapping[str, Any] | None) -> Any:
    """Return the parameters of a call ready to be encoded; the common case of plain values costs one pass."""
    if not params:
        return {}
    if not isinstance(params, Mapping):
        raise InvalidParams("The parameters of a call are a dict.", hint='Such as {"format": "png"}.')
    for key, value in params.items():
        if type(value) not in _PLAIN or type(key) is not str:
            return {str(name): jsonable(item, str(name)) for name, item in params.items()}
    return params
