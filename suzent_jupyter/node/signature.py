"""The parameters of a function: their schema for the gateway, and the conversion of what arrives to what it wants."""

from __future__ import annotations

import base64
import binascii
import inspect
import json
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticUserError

from ..protocol.artifacts import is_reference
from ..protocol.capabilities import safe_schema
from ..protocol.text import clean_text
from .local_file import LocalFile
from .progress import Progress
from .results import to_wire

_SHORT_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


class ParameterError(ValueError):
    """A parameter of a call does not fit the function; the message names it."""

    def __init__(self, message: str, code: str = "invalid_params") -> None:
        super().__init__(message)
        self.code = code


def read_binary(value: Any) -> Any:
    """Return the bytes of base64 text, a ``data:`` URL, ``{"media_type", "base64"}`` or a file; others as they are.

    Blocks, for a file.
    """
    if isinstance(value, LocalFile):
        return value.read()
    if is_reference(value):
        raise ValueError("names a file that this device's gateway does not vouch for")
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        value = value["base64"]
    if not isinstance(value, str):
        return value
    if value.startswith("data:") and ";base64," in value:
        value = value.partition(",")[2]
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError('should be base64 text or {"media_type", "base64"}') from None


_Binary = Annotated[
    bytes, BeforeValidator(read_binary), WithJsonSchema({"type": ["string", "object"], "contentEncoding": "base64"})
]


def _read_path(value: Any) -> Any:
    """Return where a file of the call lies; other values as they are."""
    return value.file if isinstance(value, LocalFile) else value


_File = Annotated[Path, BeforeValidator(_read_path), WithJsonSchema({"type": ["string", "object"], "format": "path"})]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: how it is declared and how a value for it is read."""

    name: str
    adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    required: bool
    positional: bool

    @property
    def type_name(self) -> str:
        """Return the type as ``params_schema`` names it: ``str``, ``path``, ``int or str``; empty for anything."""
        return _type_name(self.schema)

    @property
    def file_kinds(self) -> frozenset[str]:
        """Return as what files are wanted, anywhere inside: ``path``, ``bytes``, both, or neither."""
        return frozenset(_file_kinds(self.schema))

    def read(self, value: Any) -> Any:
        """Return ``value`` as the function's type, or raise :class:`ParameterError`."""
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = self.name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
            raise ParameterError(f"Parameter '{place}' {reason}, not {_short(first['input'])}.") from None


class Signature:
    """The parameters of one function.

    Parameters
    ----------
    function : callable
        Its annotations give the types: ``str int float bool list dict Path bytes``, ``Literal``, enums, dataclasses,
        pydantic models, and unions and lists of these. Where a file comes for a ``Path`` that is where it lies until
        the call is over, for ``bytes`` its content. A parameter annotated :class:`~.progress.Progress` is not declared:
        the call's own progress is passed.
    documented : dict of str to str
        Parameter name → description.

    Raises
    ------
    TypeError
        When a parameter has a type that can't cross the wire.
    """

    def __init__(self, function: Callable[..., Any], documented: dict[str, str] | None = None) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.open = False
        self._progress: str | None = None
        for name, item in inspect.signature(function).parameters.items():
            annotation = _annotation(function, name, item.annotation)
            if annotation is Progress or Progress in get_args(annotation):
                self._progress = name
            elif item.kind is item.VAR_KEYWORD:
                self.open = True
            elif item.kind is not item.VAR_POSITIONAL:
                self.parameters[name] = _parameter(function, item, annotation, (documented or {}).get(name, ""))

    @property
    def params_schema(self) -> dict[str, str]:
        """Return name → type name, the shape Suzent devices send."""
        return {name: item.type_name for name, item in self.parameters.items()}

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the parameters object, within the keywords every gateway keeps."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: item.schema for name, item in self.parameters.items()},
            "additionalProperties": self.open,
        }
        if required := [name for name, item in self.parameters.items() if item.required]:
            schema["required"] = required
        return safe_schema(schema) or {}

    def bind(self, params: dict[str, Any], progress: Progress) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments made of ``params``.

        A null for a parameter that has a default and does not speak of null means "not given".

        Raises
        ------
        ParameterError
            When one is missing, unknown or of the wrong type.
        """
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, item in self.parameters.items():
            value = params.get(name)
            if name not in params or (value is None and not item.required and not _speaks_of_null(item.schema)):
                if item.required:
                    raise ParameterError(f"Parameter '{name}' is missing{_kind_hint(item)}.")
                if item.positional:
                    break  # a later one can't be passed by position without it
                continue
            if item.positional:
                positional.append(item.read(value))
            else:
                named[name] = item.read(value)
        for name, value in params.items():
            if name in self.parameters:
                continue
            if not self.open:
                known = ", ".join(self.parameters) or "none"
                raise ParameterError(f"There is no parameter '{clean_text(name, 80)}'; it takes: {known}.")
            named[name] = value
        if self._progress is not None:
            named[self._progress] = progress
        return positional, named


def _parameter(function: Any, item: inspect.Parameter, annotation: Any, description: str) -> Parameter:
    adapter = _adapter(function, item.name, annotation)
    try:
        full = adapter.json_schema()
    except PydanticUserError as error:
        raise _no_wire_type(function, item.name, annotation) from error
    schema = _merge_null(_inline(full, full.get("$defs", {}), ()))
    if description:
        schema.setdefault("description", description)
    required = item.default is item.empty
    if not required:
        default = _json_default(adapter, item.default)
        if default is not item.empty:
            schema["default"] = default
    return Parameter(
        item.name, adapter, safe_schema(schema) or {}, required, positional=item.kind is item.POSITIONAL_ONLY
    )


def _annotation(function: Any, name: str, annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    # One by one rather than with get_type_hints: a return type imported for type checkers only must not matter.
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return eval(annotation, scope)  # noqa: S307 - the author's own annotation, as typing.get_type_hints does
    except Exception as error:
        raise TypeError(
            f"The type '{annotation}' of parameter '{name}' of {_name(function)} can't be resolved ({error}); "
            "define it at module level and before the function."
        ) from None


def _adapter(function: Any, name: str, annotation: Any) -> TypeAdapter[Any]:
    # Command lines can't tell text from numbers, so `text=42` must reach a str parameter.
    config = ConfigDict(coerce_numbers_to_str=True)
    target = _with_binary(annotation)
    try:
        try:
            return TypeAdapter(target, config=config)
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            return TypeAdapter(target)  # models and dataclasses bring their own configuration
    except PydanticUserError as error:
        raise _no_wire_type(function, name, annotation) from error


def _with_binary(annotation: Any) -> Any:
    """Return the type with every ``bytes`` in it reading base64, and every ``Path`` taking a file."""
    if annotation is bytes:
        return _Binary
    if annotation is Path:
        return _File
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not args:
        return annotation
    if origin is Annotated:
        return Annotated[(_with_binary(args[0]), *args[1:])]
    parts = tuple(map(_with_binary, args))
    if parts == args:
        return annotation
    return Union[parts] if origin in (Union, types.UnionType) else origin[parts]  # noqa: UP007 - made at run time


def _no_wire_type(function: Any, name: str, annotation: Any) -> TypeError:
    kind = getattr(annotation, "__name__", None) or str(annotation)
    return TypeError(f"Parameter '{name}' of {_name(function)} has the type {kind}, which has no JSON form.")


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _json_default(adapter: TypeAdapter[Any], value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    try:
        plain = to_wire(adapter.dump_python(value, mode="json", warnings=False))
        json.dumps(plain, allow_nan=False)
    except Exception:  # a default that has no JSON form is simply not shown
        return inspect.Parameter.empty
    return inspect.Parameter.empty if plain is None and value is not None else plain


def _inline(schema: Any, defs: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """Put definitions in the place of references, which gateways don't follow; a recursive one becomes an object."""
    if isinstance(schema, list):
        return [_inline(part, defs, inside) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: _inline(part, defs, inside) for key, part in schema.items() if key not in ("$defs", "$ref")}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return rest
    name = reference.rpartition("/")[2]
    if name in inside:
        return {"type": "object", **rest}
    return {**_inline(defs.get(name, {}), defs, (*inside, name)), **rest}


def _merge_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Write ``X or null`` as one type with null rather than as two alternatives: shorter, and read by all."""
    parts = schema.get("anyOf")
    if not isinstance(parts, list) or len(parts) != 2 or {"type": "null"} not in parts:
        return schema
    part: dict[str, Any] = next((part for part in parts if part != {"type": "null"}), {})
    kind = part.get("type")
    if kind is None or "const" in part:
        return schema
    merged = {**{key: value for key, value in schema.items() if key != "anyOf"}, **part}
    merged["type"] = [*(kind if isinstance(kind, list) else [kind]), "null"]
    if "enum" in part:
        merged["enum"] = [*part["enum"], None]
    return merged


def _kinds(schema: dict[str, Any]) -> list[str]:
    if isinstance(schema.get("anyOf"), list):
        return list(dict.fromkeys(kind for part in schema["anyOf"] for kind in _kinds(part)))
    if schema.get("contentEncoding") == "base64":
        return ["bytes"]
    if schema.get("format") == "path":
        return ["path"]
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _file_kinds(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {kind for part in schema for kind in _file_kinds(part)}
    if not isinstance(schema, dict):
        return set()
    own = (
        {"bytes"}
        if schema.get("contentEncoding") == "base64"
        else {"path"}
        if schema.get("format") == "path"
        else set()
    )
    return own | {kind for part in schema.values() for kind in _file_kinds(part)}


def _type_name(schema: dict[str, Any]) -> str:
    return " or ".join(_SHORT_NAMES.get(kind, kind) for kind in _kinds(schema) if kind != "null")


def _speaks_of_null(schema: dict[str, Any]) -> bool:
    kind, parts = schema.get("type"), schema.get("anyOf")
    if parts is not None:
        return any(_speaks_of_null(part) for part in parts)
    if "const" in schema or "enum" in schema:
        return None in schema.get("enum", [schema.get("const")])
    return kind is None or "null" in (kind if isinstance(kind, list) else [kind])


def _kind_hint(item: Parameter) -> str:
    return f" ({item.type_name})" if item.type_name else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
