"""What a device says it can do, as it arrives (anything) and as we keep it (harmless and typed)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .limits import Limits
from .text import clean_tags, clean_text
from .wire import is_shallow

#: Names of parameter types in ``params_schema`` and the JSON Schema type each stands for.
TYPE_NAMES: dict[str, str] = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
    "path": "path",
    "bytes": "bytes",
}

# Of a device's JSON Schema only these keywords are kept. `pattern` could hold the event loop for minutes, `$ref` could
# make the validator fetch a URL, and combinators could be nested into exponential work.
_SCHEMA_KEYWORDS = frozenset(
    [
        "type",
        "title",
        "description",
        "default",
        "examples",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "anyOf",
        "format",
        "contentEncoding",
        "contentMediaType",
    ]
)
_SCHEMA_DEPTH = 8
_PARAMETER_CHARS = 128
_TEXT_CHARS = 2000
_JSON_TYPES = frozenset(["string", "integer", "number", "boolean", "array", "object", "null"])


class CapabilitySchema(BaseModel):
    """One command a node offers.

    Attributes
    ----------
    name : str
        Such as ``camera.snap``; at most 128 characters.
    description : str
        One sentence for people and models; at most 2,000 characters.
    params_schema : dict of str to str
        Parameter name → type name (:data:`TYPE_NAMES`) or free text, as Suzent devices send it.
    input_schema : dict, optional
        JSON Schema (2020-12) of the parameters object. Only with it are parameters required or unknown ones refused.
    requires_permission : bool, optional
        Whether somebody is asked before it runs; None for what :func:`~.asking.would_ask` says of its name, in turns of
        agents and for callers of other accounts.
    """

    model_config = ConfigDict(extra="ignore", defer_build=True)

    name: str
    description: str = ""
    params_schema: dict[str, str] = Field(default_factory=dict)
    input_schema: dict[str, Any] | None = None
    requires_permission: bool | None = None


def read_capabilities(value: Any, limits: Limits) -> tuple[list[CapabilitySchema], list[str]]:
    """Read the ``capabilities`` of a connect or update frame.

    A device is never refused for what stands here: entries that can't be used are left out.

    Parameters
    ----------
    value : Any
        What the device sent.
    limits : Limits
        Numbers in force.

    Returns
    -------
    capabilities : list of CapabilitySchema
        At most ``limits.capabilities``, with unique names (the first of a name counts).
    warnings : list of str
        One sentence for each kind of thing left out.
    """
    if value is None:
        return [], []
    if not isinstance(value, list):
        return [], ["capabilities must be a list"]
    kept: dict[str, CapabilitySchema] = {}
    warnings: dict[str, None] = {}
    for item in value:
        entry = {"name": item} if isinstance(item, str) else item
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.strip():
            warnings["a capability without a name was left out"] = None
            continue
        name = name.strip()
        if len(name) > limits.capability_name_chars or clean_text(name, limits.capability_name_chars) != name:
            warnings["a capability whose name is too long or unprintable was left out"] = None
        elif name in kept:
            warnings["a capability of the same name was left out"] = None
        elif len(kept) >= limits.capabilities:
            warnings[f"more than {limits.capabilities} capabilities: the rest was left out"] = None
        else:
            kept[name] = _read_capability(name, entry, limits)
    return list(kept.values()), list(warnings)


def _read_capability(name: str, entry: dict[str, Any], limits: Limits) -> CapabilitySchema:
    params = entry.get("params_schema")
    schema = entry.get("input_schema")
    if isinstance(params, dict) and isinstance(params.get("properties"), dict) and schema is None:
        schema, params = params, None  # a JSON Schema where Suzent puts name → type
    safe = safe_schema(schema)
    if safe is not None and not isinstance(params, dict):
        params = {key: value.get("type", "") for key, value in safe.get("properties", {}).items()}
    return CapabilitySchema(
        name=name,
        description=clean_text(entry.get("description"), limits.description_chars),
        params_schema=_read_params_schema(params, limits),
        input_schema=safe,
        requires_permission=entry["requires_permission"]
        if isinstance(entry.get("requires_permission"), bool)
        else None,
    )


def _read_params_schema(value: Any, limits: Limits) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    result = {}
    for key, kind in list(value.items())[: limits.capabilities]:
        if _is_parameter_name(key):
            result[key] = clean_text(_type_text(kind), limits.description_chars)
    return result


def _is_parameter_name(key: Any) -> bool:
    """Tell whether a parameter can be typed and shown; it stands in refusals and forms as it is."""
    return isinstance(key, str) and key != "" and clean_text(key, _PARAMETER_CHARS) == key


def _type_text(kind: Any) -> str:
    if isinstance(kind, dict) and isinstance(kind.get("type"), str):
        kind = kind["type"]
    if kind is None:
        return ""
    return kind if isinstance(kind, str) else json.dumps(kind)


def safe_schema(value: Any, depth: int = 0) -> dict[str, Any] | None:
    """Return the part of a JSON Schema that is safe to validate with, or None where nothing is left of it."""
    if not isinstance(value, dict) or depth > _SCHEMA_DEPTH:
        return None
    kept: dict[str, Any] = {}
    for key, part in value.items():
        if key not in _SCHEMA_KEYWORDS:
            continue
        if key == "properties":
            if isinstance(part, dict):
                named = [(name, sub) for name, sub in part.items() if _is_parameter_name(name)]
                kept[key] = {name: safe_schema(sub, depth + 1) or {} for name, sub in named[:256]}
        elif key in ("items", "additionalProperties"):
            sub = part if isinstance(part, bool) else safe_schema(part, depth + 1)
            if sub is not None:
                kept[key] = sub
        elif key == "anyOf":
            if isinstance(part, list) and part:
                kept[key] = [safe_schema(sub, depth + 4) or {} for sub in part[:8]]
        elif key in ("title", "description"):
            if isinstance(part, str):
                kept[key] = clean_text(part, _TEXT_CHARS)
        elif _well_formed(key, part):
            kept[key] = part
    return kept


def _well_formed(key: str, part: Any) -> bool:
    if key == "type":
        names = part if isinstance(part, list) else [part]
        return bool(names) and all(isinstance(name, str) and name in _JSON_TYPES for name in names)
    if key == "required":
        return isinstance(part, list) and all(isinstance(name, str) for name in part)
    if key in ("enum", "examples"):
        return isinstance(part, list) and bool(part) and is_shallow(part, _SCHEMA_DEPTH)
    if key in ("const", "default"):
        return is_shallow(part, _SCHEMA_DEPTH)
    if key == "uniqueItems":
        return isinstance(part, bool)
    if key in ("format", "contentEncoding", "contentMediaType"):
        return isinstance(part, str)
    return isinstance(part, int | float) and not isinstance(part, bool) and (key != "multipleOf" or part > 0)


def read_tags(value: Any, limits: Limits) -> list[str]:
    """Read the ``tags`` of a connect frame."""
    return clean_tags(value, limits.tags, limits.name_chars)
