from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from suzent_jupyter.node import ParameterError, Progress, progress
from suzent_jupyter.node.signature import Signature
from suzent_jupyter.protocol import CapabilitySchema, Limits, SuzentError, read_capabilities
from suzent_jupyter.protocol.capabilities import safe_schema
from suzent_jupyter.protocol.params import check_params


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclasses.dataclass
class Point:
    x: int
    mode: Mode = Mode.FAST


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def property_of(annotation: Any, default: Any = ...) -> tuple[dict[str, Any], str]:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    if default is not ...:
        function.__defaults__ = (default,)
    signature = Signature(function)
    return signature.input_schema["properties"]["value"], signature.params_schema["value"]


@pytest.mark.parametrize(
    ("annotation", "schema", "name"),
    [
        (str, {"type": "string"}, "str"),
        (int, {"type": "integer"}, "int"),
        (float, {"type": "number"}, "float"),
        (bool, {"type": "boolean"}, "bool"),
        (list, {"type": "array", "items": {}}, "list"),
        (list[int], {"type": "array", "items": {"type": "integer"}}, "list"),
        (dict, {"type": "object", "additionalProperties": True}, "dict"),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}, "dict"),
        (Path, {"type": ["string", "object"], "format": "path"}, "path"),
        (bytes, {"type": ["string", "object"], "contentEncoding": "base64"}, "bytes"),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "str"),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, "int"),
        (Mode, {"type": "string", "enum": ["fast", "slow"], "title": "Mode"}, "str"),
        (Optional[int], {"type": ["integer", "null"]}, "int"),  # noqa: UP045
        (str | None, {"type": ["string", "null"]}, "str"),
        (bytes | None, {"type": ["string", "object", "null"], "contentEncoding": "base64"}, "bytes"),
        (Mode | None, {"type": ["string", "null"], "enum": ["fast", "slow", None], "title": "Mode"}, "str"),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "int or str"),
        (Any, {}, ""),
        (Annotated[int, Field(ge=0, le=9)], {"type": "integer", "minimum": 0, "maximum": 9}, "int"),
    ],
)
def test_types(annotation: Any, schema: dict[str, Any], name: str) -> None:
    found, found_name = property_of(annotation)
    # How pydantic writes "anything inside" differs between its versions.
    found.pop("items", None) if annotation is list else None
    schema = {key: part for key, part in schema.items() if not (annotation is list and key == "items")}
    assert (found, found_name) == (schema, name)


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (int, 3, 3),
        (Mode, Mode.SLOW, "slow"),
        (Path, Path("/tmp"), "/tmp"),
        (bytes, b"hi", "aGk="),
        (Point, Point(1), {"x": 1, "mode": "fast"}),
    ],
)
def test_defaults_are_shown_as_json(annotation: Any, default: Any, shown: Any) -> None:
    assert property_of(annotation, default)[0]["default"] == shown


@pytest.mark.parametrize("default", [float("nan"), float("inf"), threading.Lock()])
def test_defaults_without_a_json_form_are_left_out(default: Any) -> None:
    schema = property_of(Any, default)[0]
    assert "default" not in schema


def test_models_are_written_out_and_recursion_ends() -> None:
    schema, name = property_of(Tree)
    assert name == "dict"
    assert schema["properties"]["children"]["items"]["type"] == "object"
    assert "$ref" not in repr(schema) and "$defs" not in repr(schema)


def test_required_open_and_described() -> None:
    def function(a: int, b: str = "x", *rest: Any, c: float, **more: Any) -> None: ...

    signature = Signature(function, {"a": "First."})
    schema = signature.input_schema
    assert schema["required"] == ["a", "c"] and schema["additionalProperties"] is True
    assert schema["properties"]["a"]["description"] == "First."
    assert signature.bind({"a": 1, "c": 2, "z": 3}, progress) == ([], {"a": 1, "c": 2.0, "z": 3})


_LEAVES = st.sampled_from([str, int, float, bool, bytes, Path, Mode, Point, Tree, Any, Literal["a", 1], type(None)])
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda part: list[part]),
        inner.map(lambda part: dict[str, part]),
        inner.map(lambda part: Optional[part]),  # noqa: UP045
        st.tuples(inner, inner).map(lambda parts: parts[0] | parts[1] if Any not in parts else Any),
    ),
    max_leaves=5,
)


@given(_TYPES)
def test_every_schema_passes_the_gateways_sieve_unchanged(annotation: Any) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    schema = Signature(function).input_schema
    assert safe_schema(schema) == schema
    jsonschema.Draft202012Validator.check_schema(schema)
    declared = CapabilitySchema(name="x", params_schema=Signature(function).params_schema, input_schema=schema)
    [read], warnings = read_capabilities([declared.model_dump()], Limits())
    assert read == declared and not warnings


PHOTO = base64.b64encode(b"photo").decode()


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (str, 42, "42"),
        (int, "5", 5),
        (int, 5.0, 5),
        (float, 1, 1.0),
        (bool, "true", True),
        (Path, "a/b", Path("a/b")),
        (bytes, PHOTO, b"photo"),
        (bytes, {"media_type": "image/png", "base64": PHOTO}, b"photo"),
        (bytes, f"data:image/png;base64,{PHOTO}", b"photo"),
        (list[bytes], [PHOTO], [b"photo"]),
        (dict[str, bytes | None], {"a": PHOTO, "b": None}, {"a": b"photo", "b": None}),
        (Mode, "slow", Mode.SLOW),
        (list[Mode] | None, ["slow"], [Mode.SLOW]),
        (Point, {"x": "3"}, Point(3)),
        (Any, {"x": [1]}, {"x": [1]}),
    ],
)
def test_arguments_become_what_the_function_wants(annotation: Any, given: Any, value: Any) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    assert Signature(function).bind({"value": given}, progress)[1] == {"value": value}


@pytest.mark.parametrize(
    ("annotation", "given", "told"),
    [
        (int, "x", "Parameter 'value' should be a valid integer"),
        (Mode, "quick", "should be 'fast' or 'slow'"),
        (bytes, "***", "base64"),
        (list[int], [1, "x"], r"'value\[1\]'"),
        (Point, {}, "'value.x'"),
        (str, ["a" * 500], "…"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(annotation: Any, given: Any, told: str) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    with pytest.raises(ParameterError, match=told) as caught:
        Signature(function).bind({"value": given}, progress)
    assert "\n" not in str(caught.value) and "pydantic" not in str(caught.value)


def test_missing_and_unknown_parameters() -> None:
    def function(level: int, *, mode: str = "a") -> None: ...

    signature = Signature(function)
    with pytest.raises(ParameterError, match=r"'level' is missing \(int\)"):
        signature.bind({}, progress)
    with pytest.raises(ParameterError, match=r"no parameter 'lvl'; it takes: level, mode"):
        signature.bind({"level": 1, "lvl": 2}, progress)


def test_null_means_not_given_unless_the_type_speaks_of_it() -> None:
    def function(a: int = 1, b: int | None = 2, c: Any = 3, d: Literal["x"] = "x") -> None: ...

    assert Signature(function).bind(dict.fromkeys("abcd"), progress)[1] == {"b": None, "c": None}


def test_positional_only_parameters_and_partials_and_methods() -> None:
    class Stage:
        def move(self, x: int, /, y: int = 0, *, speed: float = 1.0) -> tuple[int, int, float]:
            return x, y, speed

    signature = Signature(Stage().move)
    positional, named = signature.bind({"x": "1", "y": 2}, progress)
    assert Stage().move(*positional, **named) == (1, 2, 1.0)
    assert list(Signature(functools.partial(Stage().move, 1)).params_schema) == ["y", "speed"]


def test_the_calls_own_progress_is_passed_and_not_declared() -> None:
    def function(n: int, report: Progress) -> None: ...

    signature = Signature(function)
    own = Progress()
    assert list(signature.params_schema) == ["n"]
    assert signature.bind({"n": 1}, own)[1] == {"n": 1, "report": own}


def test_types_without_a_json_form_are_refused_when_declared() -> None:
    def lock(value: threading.Lock) -> None: ...  # type: ignore[valid-type]

    def callback(value: Callable[[], None]) -> None: ...

    def unresolved(value: NoSuchType) -> None: ...  # type: ignore[name-defined] # noqa: F821

    for function in (lock, callback):
        with pytest.raises(TypeError, match="has no JSON form"):
            Signature(function)
    with pytest.raises(TypeError, match="define it at module level"):
        Signature(unresolved)


def test_an_unresolvable_return_type_does_not_matter() -> None:
    def function(a: int) -> NoSuchType: ...  # type: ignore[name-defined] # noqa: F821

    assert Signature(function).params_schema == {"a": "int"}


@example({"level": "0\x1f"})
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "text": st.text(max_size=5) | st.integers(),
            "level": st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3),
            "mode": st.sampled_from(["fast", "slow", "odd", 3]),
            "data": st.just(PHOTO) | st.just({"media_type": "x", "base64": PHOTO}) | st.text(max_size=4),
            "flag": st.booleans() | st.sampled_from([0, 1, "true", "no"]),
        },
    )
)
def test_what_the_gateway_lets_through_the_device_can_use(params: dict[str, Any]) -> None:
    def function(
        text: str = "", level: int = 0, mode: Mode = Mode.FAST, data: bytes = b"", flag: bool = False
    ) -> None: ...

    signature = Signature(function)
    declared = CapabilitySchema(name="x", params_schema=signature.params_schema, input_schema=signature.input_schema)
    try:
        checked = check_params(declared, params)
    except SuzentError:
        return
    try:
        signature.bind(checked, progress)
    except ParameterError as error:
        assert "base64" in str(error)  # only the device decodes it
