"""Values are converted to a capability's types where nothing is lost, and refused where something would be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.capabilities import CapabilitySchema
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.params import check_params, read_timeout


def check(kind: str, value: Any) -> Any:
    return check_params(CapabilitySchema(name="c", params_schema={"p": kind}), {"p": value})["p"]


def typed(schema: dict[str, Any], **params: Any) -> dict[str, Any]:
    return check_params(CapabilitySchema(name="c", input_schema=schema), params)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("str", 42, "42"),
        ("str", 1.5, "1.5"),
        ("str", True, "true"),
        ("string", "x", "x"),
        ("int", "5", 5),
        ("int", " -7 ", -7),
        ("int", 5.0, 5),
        ("integer", 2**70, 2**70),
        ("float", "2.5", 2.5),
        ("float", "3", 3),
        ("number", "1e3", 1000.0),
        ("float", 4, 4),
        ("bool", "True", True),
        ("bool", "false", False),
        ("bool", 1, True),
        ("boolean", 0, False),
        ("list", [1], [1]),
        ("dict", {"a": 1}, {"a": 1}),
        ("path", "C:\\x", "C:\\x"),
        ("bytes", "aGk=", "aGk="),
        ("bytes", {"media_type": "image/png", "base64": "aGk="}, {"media_type": "image/png", "base64": "aGk="}),
        ("STR", 42, "42"),
        ("how loud, 0 to 10", 7, 7),
        ("how loud, 0 to 10", {"any": "thing"}, {"any": "thing"}),
    ],
)
def test_lossless_values_are_converted(kind: str, value: Any, expected: Any) -> None:
    got = check(kind, value)
    assert (got, type(got)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value", "expected", "got"),
    [
        ("int", "x", "a whole number", "x"),
        ("int", 5.5, "a whole number", "5.5"),
        ("int", True, "a whole number", "True"),
        ("int", "5.0", "a whole number", "5.0"),
        ("int", [5], "a whole number", "[5]"),
        ("float", "nan", "a number", "nan"),
        ("float", "1e999", "a number", "1e999"),
        ("float", False, "a number", "False"),
        ("str", [1], "text", "[1]"),
        ("str", {"a": 1}, "text", "{'a': 1}"),
        ("bool", "yes", "true or false", "yes"),
        ("bool", 2, "true or false", "2"),
        ("list", "a", "a list", "a"),
        ("dict", [], "an object", "[]"),
        ("path", 3.5, "a path as text", "3.5"),
        ("bytes", {"url": "x"}, 'base64 text or {"media_type", "base64"}', "{'url': 'x'}"),
    ],
)
def test_lossy_values_are_refused_and_the_refusal_says_why(kind: str, value: Any, expected: str, got: str) -> None:
    with pytest.raises(SuzentError) as refused:
        check(kind, value)
    assert refused.value.code == "invalid_params"
    assert refused.value.status == 422
    assert refused.value.details == {"parameter": "p", "expected": expected, "got": got}
    assert "'p'" in refused.value.message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("abc", "'abc'"),
        ("", "''"),
        ("a\x1b[31mb\n\u202ec\u2028d", "'ab c d'"),
        ("x" * 10_000, f"'{'x' * 79}…'"),
        ([1], "[1]"),
        (2.5, "2.5"),
    ],
)
def test_a_refused_value_is_quoted_cut_and_cleaned(value: Any, shown: str) -> None:
    with pytest.raises(SuzentError) as refused:
        check("int", value)
    assert refused.value.message == f"c: parameter 'p' must be a whole number, not {shown}."
    with pytest.raises(SuzentError) as refused:
        read_timeout(value if value != 2.5 else -2.5, 30.0, 600.0)
    assert refused.value.message.endswith(f", not {shown if value != 2.5 else '-2.5'}.")


def test_a_huge_value_is_not_written_out_to_be_refused() -> None:
    class Unlooked(str):
        def __repr__(self) -> str:
            raise AssertionError("it was")

    with pytest.raises(SuzentError, match="must be a whole number, not"):
        check("int", [1] * 30 + [Unlooked()])


def test_without_an_input_schema_every_parameter_is_optional_and_unknown_ones_pass() -> None:
    capability = CapabilitySchema(name="c", params_schema={"text": "str", "level": "int"})
    assert check_params(capability, {}) == {}
    assert check_params(capability, {"level": None, "other": [1]}) == {"level": None, "other": [1]}


def test_required_and_unknown_parameters_of_an_input_schema() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    assert typed(schema, a="5") == {"a": 5}
    with pytest.raises(SuzentError) as missing:
        typed(schema)
    assert missing.value.details == {"parameter": "a", "expected": "a whole number", "got": None}
    with pytest.raises(SuzentError) as unknown:
        typed(schema, a=1, b=2)
    assert unknown.value.details == {"parameter": "b", "expected": "one of: a", "got": "an unknown name"}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "expected"),
    [
        ({"enum": ["png", "jpeg"]}, "png", "gif", "one of 'png', 'jpeg'"),
        ({"type": "integer", "minimum": 1}, "1", 0, "a number of at least 1"),
        ({"type": "number", "maximum": 1.5}, 1.5, 2, "a number of at most 1.5"),
        ({"type": "number", "exclusiveMinimum": 0}, 0.1, 0, "a number above 0"),
        ({"type": "number", "exclusiveMaximum": 1}, 0.9, 1, "a number below 1"),
        ({"type": ["integer", "null"]}, None, "x", "a whole number or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "true", "x", "a whole number or true or false"),
        ({"type": "array", "items": {"type": "integer"}}, [1], ["x"], "a whole number"),
        ({"type": "string", "maxLength": 2}, "ab", "abc", "maxLength 2"),
        ({"type": "string", "contentEncoding": "base64"}, "aGk=", 5, 'base64 text or {"media_type", "base64"}'),
    ],
)
def test_rules_of_an_input_schema(schema: dict[str, Any], good: Any, bad: Any, expected: str) -> None:
    typed({"properties": {"p": schema}}, p=good)
    with pytest.raises(SuzentError) as refused:
        typed({"properties": {"p": schema}}, p=bad)
    assert (refused.value.code, refused.value.details["parameter"]) == ("invalid_params", "p")
    assert refused.value.details["expected"] == expected


def test_null_means_not_given_unless_required() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]}
    assert typed(schema, a=None, b=1) == {"a": None, "b": 1}
    with pytest.raises(SuzentError):
        typed(schema, b=None)


@pytest.mark.parametrize("value", [0, -1, 0.0, float("nan"), float("inf"), -float("inf"), True, False, "5", [], {}])
def test_timeouts_that_are_no_number_above_zero_are_refused(value: Any) -> None:
    with pytest.raises(SuzentError) as refused:
        read_timeout(value, 30.0, 600.0)
    assert (refused.value.code, refused.value.status) == ("invalid_timeout", 422)


@pytest.mark.parametrize(("value", "seconds"), [(None, 30.0), (5, 5.0), (0.25, 0.25), (600, 600.0), (1e308, 600.0)])
def test_timeouts(value: Any, seconds: float) -> None:
    assert read_timeout(value, 30.0, 600.0) == seconds


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_timeout_beyond_floating_point_is_still_an_answer(value: int) -> None:
    if value > 0:
        assert read_timeout(value, 30.0, 600.0) == 600.0
    else:
        with pytest.raises(SuzentError):
            read_timeout(value, 30.0, 600.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["str", "int", "float", "bool", "list", "dict", "path", "bytes", "free text"]), json_values)
def test_any_value_is_converted_or_refused(kind: str, value: Any) -> None:
    try:
        converted = check(kind, value)
    except SuzentError as error:
        assert error.code == "invalid_params"
    else:
        # What was converted is of the type itself, so converting again changes nothing.
        assert check(kind, converted) == converted


@given(st.integers(-(10**17), 10**17))
def test_whole_numbers_survive_the_way_through_text(number: int) -> None:
    assert check("int", check("str", number)) == number


def test_what_is_declared_as_a_path_is_written_as_its_machine_does() -> None:
    schema = {
        "properties": {
            "one": {"type": "string", "format": "path"},
            "maybe": {"anyOf": [{"type": "string", "format": "path"}, {"type": "null"}]},
            "many": {"type": "array", "items": {"type": "string", "format": "path"}},
            "pattern": {"type": "string"},
        }
    }
    capability = CapabilitySchema(name="c", input_schema=schema)
    given = {"one": "a\\b", "maybe": "C:\\b", "many": ["a\\b", "https://x/y"], "pattern": "a\\b", "other": "a\\b"}
    assert check_params(capability, given, "linux") == given | {
        "one": "a/b", "maybe": "C:/b", "many": ["a/b", "https://x/y"]
    }  # fmt: skip
    assert check_params(capability, given) == check_params(capability, given, "toaster") == given
    named = CapabilitySchema(name="c", params_schema={"p": "path", "q": "str"})
    assert check_params(named, {"p": "a/b", "q": "a/b"}, "Windows") == {"p": "a\\b", "q": "a/b"}
