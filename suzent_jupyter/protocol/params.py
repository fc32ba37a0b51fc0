"""Parameters of a call, held against what the capability declared.

A value of another type is converted where nothing is lost by it (``42`` for a ``str``, ``"5"`` for an ``int``), since
command lines can't tell text from numbers; otherwise the call is refused before the device sees it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from reprlib import Repr
from typing import Any

from .artifacts import is_reference
from .capabilities import TYPE_NAMES, CapabilitySchema
from .errors import SuzentError
from .paths import convert_path
from .text import clean_lines

_SHOWN = 80  # characters of a value in a message
_MOST_WORK = 20_000  # values of the parameters times those of the schema; some tenths of a second
_repr = Repr()  # a value may be megabytes: only its first parts are looked at
_repr.maxlevel, _repr.maxlist, _repr.maxdict, _repr.maxstring, _repr.maxlong = 6, 20, 20, _SHOWN, _SHOWN
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_REFUSED = object()
_EXPECTED = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "path": "a path as text",
    "bytes": 'base64 text or {"media_type", "base64"}',
    "null": "null",
}


def check_params(capability: CapabilitySchema, params: dict[str, Any], platform: str = "") -> dict[str, Any]:
    """Return ``params`` with lossless conversions made, and paths written as ``platform`` does.

    Raises
    ------
    SuzentError
        ``invalid_params``, naming the parameter, what was expected and what came.
    """
    try:
        return _check(capability, params, platform)
    except RecursionError:
        raise SuzentError("invalid_params", f"The parameters of {capability.name} are nested too deeply.") from None


def _check(capability: CapabilitySchema, params: dict[str, Any], platform: str) -> dict[str, Any]:
    schema = capability.input_schema
    properties: dict[str, Any] = schema.get("properties", {}) if schema else {}
    if not properties and not capability.params_schema and not schema:
        return params
    checked = dict(params)
    for name, value in params.items():
        kinds = _kinds(properties.get(name), capability.params_schema.get(name, ""))
        if kinds and value is not None:
            converted = _convert(value, kinds)
            if converted is _REFUSED:
                raise _invalid(capability.name, name, " or ".join(_EXPECTED[kind] for kind in kinds), value)
            checked[name] = converted
        checked[name] = _with_paths(
            checked[name], properties.get(name), capability.params_schema.get(name, ""), platform
        )
    if schema:
        _validate(capability, schema, checked)
    return checked


def _kinds(schema: Any, type_text: str) -> tuple[str, ...]:
    """Return the types a parameter may have: from its JSON Schema, else from its type name; () for free text."""
    named = TYPE_NAMES.get(type_text.strip().casefold())
    if isinstance(schema, dict):
        if schema.get("contentEncoding") == "base64":
            return ("bytes",)
        kind = schema.get("type")
        if kind is None and isinstance(schema.get("anyOf"), list):
            parts = [part.get("type") for part in schema["anyOf"]]
            return tuple(parts) if all(isinstance(part, str) for part in parts) else ()
        if kind is not None:
            return tuple(kind) if isinstance(kind, list) else (kind,)
        return ()
    return (named,) if named else ()


def _with_paths(value: Any, schema: Any, type_text: str, platform: str) -> Any:
    """Return a value in which what is declared as a path is written as the platform does."""
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema, dict) else None
        return [_with_paths(item, items, "", platform) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, str):
        return value
    parts = [schema, *(schema.get("anyOf") or [])] if isinstance(schema, dict) else []
    declared = any(part.get("format") == "path" for part in parts)
    return convert_path(value, platform) if declared or TYPE_NAMES.get(type_text) == "path" else value


def _convert(value: Any, kinds: tuple[str, ...]) -> Any:
    if any(_fits(value, kind) for kind in kinds):
        return value
    for kind in kinds:
        converted = _lossless(value, kind)
        if converted is not _REFUSED:
            return converted
    return _REFUSED


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    match kind:
        case "string" | "path":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int)
        case "number":
            return isinstance(value, int | float)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "bytes":
            part = isinstance(value, dict) and isinstance(value.get("base64"), str)
            return isinstance(value, str) or part or is_reference(value)
        case "null":
            return value is None
    return False


def _lossless(value: Any, kind: str) -> Any:
    match kind:
        case "string":
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, int | float):
                return str(value)
        case "integer":
            if isinstance(value, str) and _INTEGER.fullmatch(text := value.strip()):
                return int(text)
            if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
                return int(value)
        case "number":
            if isinstance(value, str) and _NUMBER.fullmatch(text := value.strip()):
                number = float(text)
                if math.isfinite(number):
                    return int(text) if _INTEGER.fullmatch(text) else number
        case "boolean":
            if isinstance(value, str) and (text := value.strip().casefold()) in ("true", "false"):
                return text == "true"
            if not isinstance(value, bool) and isinstance(value, int) and value in (0, 1):
                return bool(value)
    return _REFUSED


@lru_cache(maxsize=1024)
def _validator(key: str) -> tuple[Any, int, bool]:
    """Return what validates with a schema, how much there is to look at for each value, and whether all of them are
    held against each other.
    """
    from jsonschema import Draft202012Validator

    from .wire import decode

    schema = decode(key)
    return Draft202012Validator(schema), _count(schema, _MOST_WORK), '"uniqueItems":true' in key


def _count(value: Any, most: int) -> int:
    """Return how many values there are in one, itself among them; it is not counted on beyond ``most``."""
    if not isinstance(value, list | dict):
        return 1
    count = 1
    for part in value.values() if isinstance(value, dict) else value:
        count += _count(part, most - count)
        if count > most:
            break
    return count


def _validate(capability: CapabilitySchema, schema: dict[str, Any], params: dict[str, Any]) -> None:
    from .wire import encode

    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in params:
            kinds = _kinds(properties.get(name), "")
            expected = " or ".join(_EXPECTED[kind] for kind in kinds) or "a value"
            raise SuzentError(
                "invalid_params",
                f"{capability.name} needs the parameter '{name}' ({expected}).",
                details={"parameter": name, "expected": expected, "got": None},
            )
    if schema.get("additionalProperties") is False:
        for name in params:
            if name not in properties:
                known = _listed(properties) or "none"
                raise SuzentError(
                    "invalid_params",
                    f"{capability.name} has no parameter '{_short(name)}'; it takes: {known}.",
                    details={"parameter": _short(name), "expected": f"one of: {known}", "got": "an unknown name"},
                )
    # A parameter given as null means "not given" unless the schema speaks of null itself.
    given = {name: value for name, value in params.items() if value is not None or name in schema.get("required", [])}
    validator, weight, compares = _validator(encode(schema).decode())
    values = _count(given, _MOST_WORK)
    if values * (max(values, weight) if compares else weight) > _MOST_WORK:
        return  # both are chosen by others, and the event loop would stand still: the device looks for itself
    error = next(iter(validator.iter_errors(given)), None)
    if error is not None:
        name = str(error.absolute_path[0]) if error.absolute_path else "params"
        raise _invalid(capability.name, name, _explain(error), error.instance)


def _explain(error: Any) -> str:
    rule = error.validator_value
    match error.validator:
        case "enum":
            return "one of " + _listed(map(repr, rule))
        case "minimum" | "exclusiveMinimum":
            return f"a number {'of at least' if error.validator == 'minimum' else 'above'} {rule}"
        case "maximum" | "exclusiveMaximum":
            return f"a number {'of at most' if error.validator == 'maximum' else 'below'} {rule}"
        case "type":
            kinds = rule if isinstance(rule, list) else [rule]
            return " or ".join(_EXPECTED.get(kind, str(kind)) for kind in kinds)
    return f"{error.validator} {_short(rule)}"


def _invalid(command: str, name: str, expected: str, value: Any) -> SuzentError:
    return SuzentError(
        "invalid_params",
        f"{command}: parameter '{_short(name)}' must be {expected}, not {_quoted(value)}.",
        details={"parameter": _short(name), "expected": expected, "got": _short(value)},
    )


def _listed(names: Iterable[str]) -> str:
    """Join names chosen by a device, as many as one can read."""
    first = list(islice(names, 21))
    return ", ".join([_short(name) for name in first[:20]] + ["…"] * (len(first) > 20))


def _short(value: Any) -> str:
    """Return a value as one clean line that a message can hold."""
    text = value[: _SHOWN * 8] if isinstance(value, str) else _repr.repr(value)
    return clean_lines(" ".join(clean_lines(text).split()), _SHOWN)


def _quoted(value: Any) -> str:
    return f"'{_short(value)}'" if isinstance(value, str) else _short(value)


def read_timeout(value: Any, default: float, maximum: float) -> float:
    """Return the seconds a call may take, at most ``maximum``.

    Raises
    ------
    SuzentError
        ``invalid_timeout`` for anything but a finite number greater than 0; a boolean is not a number.
    """
    if value is None:
        return default
    # NaN and infinity fail the comparison; it also holds for whole numbers beyond what a float takes.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SuzentError(
            "invalid_timeout", f"timeout must be a number of seconds greater than 0, not {_quoted(value)}."
        )
    return float(min(value, maximum))
