"""A device's JSON Schema is hostile until shown otherwise: only what is safe to validate with is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.capabilities import CapabilitySchema, read_capabilities, safe_schema
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.protocol.params import check_params
from suzent_jupyter.protocol.rest import NodeInfo, NodeListResponse
from suzent_jupyter.protocol.wire import encode


def read(schema: Any) -> CapabilitySchema:
    [capability], _ = read_capabilities([{"name": "c", "input_schema": schema}], Limits())
    return capability


@pytest.mark.parametrize(
    "keyword",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$dynamicRef": "#x"},
        {"pattern": "(a+)+$"},
        {"patternProperties": {"(a+)+$": {}}},
        {"propertyNames": {"pattern": "(a+)+$"}},
        {"allOf": [{"$ref": "#"}]},
        {"not": {}},
        {"if": {}, "then": False},
        {"$defs": {"x": {}}},
        {"dependentSchemas": {"a": False}},
        {"contains": {"pattern": "x"}},
    ],
)
def test_keywords_that_could_hang_or_fetch_are_dropped(keyword: dict[str, Any]) -> None:
    assert safe_schema({"type": "object", **keyword}) == {"type": "object"}
    assert read({"properties": {"p": keyword}}).input_schema == {"properties": {"p": {}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": 5},
        {"type": "strnig"},
        {"type": []},
        {"type": [["string"]]},
        {"required": "a"},
        {"required": [1]},
        {"enum": "abc"},
        {"enum": []},
        {"minimum": "1"},
        {"minimum": True},
        {"multipleOf": 0},
        {"multipleOf": -1},
        {"maxLength": None},
        {"uniqueItems": 1},
        {"items": 5},
        {"items": [{}]},
        {"properties": []},
        {"anyOf": {}},
        {"anyOf": []},
        {"title": 5},
    ],
)
def test_keywords_of_the_wrong_type_are_dropped(wrong: dict[str, Any]) -> None:
    assert safe_schema({"description": "d", **wrong}) == {"description": "d"}
    capability = read({"properties": {"p": wrong}})
    assert check_params(capability, {"p": [1, "x", None]}) == {"p": [1, "x", None]}


def nested(depth: int, key: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema} if key == "items" else {"properties": {"p": schema}}
    return schema


@pytest.mark.parametrize("key", ["items", "properties"])
def test_deep_nesting_is_cut(key: str) -> None:
    capability = read(nested(300, key))
    assert capability.model_dump_json().count(key) <= 9
    check_params(capability, {"p": {"p": {"p": 1}}})


@pytest.mark.parametrize("keyword", ["const", "default", "enum", "examples"])
def test_deep_values_never_make_a_node_unlistable(keyword: str) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    capability = read({"properties": {"p": {keyword: deep}}})
    node = NodeInfo.model_construct(capabilities=[capability])
    NodeListResponse.model_construct(nodes=[node], count=1).model_dump(mode="json")
    check_params(capability, {})


def test_a_refusal_never_quotes_a_megabyte_of_the_device() -> None:
    capability = read({"properties": {"p": {"enum": ["x" * 1000] * 1000}}, "required": ["p"]})
    with pytest.raises(SuzentError) as refused:
        check_params(capability, {"p": "y"})
    assert len(refused.value.message) < 2000
    many = read({"properties": {f"{number}-{'x' * 500}": {} for number in range(256)}, "additionalProperties": False})
    with pytest.raises(SuzentError) as unknown:
        check_params(many, {"p": "y"})
    assert len(unknown.value.message) < 10_000


@pytest.mark.parametrize("divisor", [1e-300, 5e-324, 0.1, 1e308])
def test_numbers_at_the_edge_of_floating_point(divisor: float) -> None:
    capability = read({"properties": {"p": {"type": "number", "multipleOf": divisor}}})
    for value in (1e308, 5e-324, 10**300, 0):
        try:
            check_params(capability, {"p": value})
        except SuzentError as error:
            assert error.code == "invalid_params"


keywords = st.sampled_from(
    "type properties required items enum const minimum maximum multipleOf anyOf additionalProperties minLength "
    "maxItems uniqueItems default format $ref pattern allOf contentEncoding".split()
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
    | st.sampled_from(["string", "integer", "object", "array", "null", "base64"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(keywords | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(keywords, anything, max_size=5), st.dictionaries(st.text(max_size=3), anything, max_size=3))
def test_no_schema_breaks_reading_or_checking(schema: dict[str, Any], params: dict[str, Any]) -> None:
    capability = read(schema)
    capability.model_dump(mode="json")
    try:
        check_params(capability, params)
    except SuzentError as error:
        assert error.code == "invalid_params"


def test_parameters_nested_to_the_brink_are_refused_not_choked_on() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    capability = read({"properties": {"p": {"type": "integer"}, "q": {"uniqueItems": True}}})
    for params in ({"p": deep}, {"q": [deep, [deep]]}):
        with pytest.raises(SuzentError) as refused:
            check_params(capability, params)
        assert refused.value.code == "invalid_params"
    with pytest.raises(SuzentError) as unwritable:
        encode({"data": deep})
    assert unwritable.value.code == "invalid_request"


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        ({"uniqueItems": True}, {"a": 1}),
        ({"items": {"type": "integer", "minimum": 0}}, 1),
        ({"items": {"enum": list(range(1000))}}, 999),
        ({"items": {"anyOf": [{"type": "string"}] * 7 + [{"type": "integer"}]}}, 1),
    ],
)
def test_what_would_hold_up_the_event_loop_is_left_to_the_device(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], item: Any
) -> None:
    """Both the schema and the parameters are chosen by others; how long they take is the product of the two."""
    capability = read({"properties": {"p": {"type": "array", **schema}}})
    # A few are looked at, and many are passed on: no item is held against anything.
    check_params(capability, {"p": [item] if "uniqueItems" in schema else [item] * 3})
    with pytest.raises(SuzentError):
        check_params(capability, {"p": [item, item] if "uniqueItems" in schema else ["x", item, None]})
    looked_at = 0

    def looks(self: Any, instance: Any, *_: Any) -> Any:
        nonlocal looked_at
        looked_at += 1
        return iter(())

    monkeypatch.setattr("jsonschema.Draft202012Validator.iter_errors", looks)
    many = [item] * 100_000
    assert check_params(capability, {"p": many}) == {"p": many}
    assert looked_at == 0
    with pytest.raises(SuzentError):
        check_params(capability, {"p": 5})  # the type is cheap to see
