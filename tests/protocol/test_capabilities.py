"""What a device declares is read leniently: what can't be used is left out, the device never refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol import read_capabilities
from suzent_jupyter.protocol.limits import Limits

LIMITS = Limits()


def test_params_schema_as_suzent_devices_send_it() -> None:
    schema = {
        "text": "str",
        "level": "loudness, 0 to 10",
        "count": 3,
        "nothing": None,
        "flags": ["a", "b"],
        "nested": {"type": "integer", "minimum": 1},
        "odd": {"anything": True},
        "flag": True,
    }
    [capability], warnings = read_capabilities([{"name": "speak", "params_schema": schema}], LIMITS)
    assert warnings == []
    assert capability.params_schema == {
        "text": "str",
        "level": "loudness, 0 to 10",
        "count": "3",
        "nothing": "",
        "flags": '["a", "b"]',
        "nested": "integer",
        "odd": '{"anything": true}',
        "flag": "true",
    }
    assert capability.input_schema is None


@pytest.mark.parametrize("schema", [None, "text", 5, [], ["a"], True, {}])
def test_params_schema_of_any_shape_is_accepted(schema: Any) -> None:
    [capability], warnings = read_capabilities([{"name": "c", "params_schema": schema}], LIMITS)
    assert (capability.params_schema, warnings) == ({}, [])


def test_a_json_schema_in_the_place_of_params_schema_is_taken_as_one() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    [capability], _ = read_capabilities([{"name": "c", "params_schema": schema}], LIMITS)
    assert capability.input_schema == schema
    assert capability.params_schema == {"a": "integer"}


def test_the_first_of_a_name_counts() -> None:
    capabilities, warnings = read_capabilities(
        [{"name": "a", "description": "first"}, {"name": " a ", "description": "second"}, "b"], LIMITS
    )
    assert [(each.name, each.description) for each in capabilities] == [("a", "first"), ("b", "")]
    assert warnings == ["a capability of the same name was left out"]


@pytest.mark.parametrize("name", ["", "   ", None, 5, ["a"], "x" * 129, "a\nb", "a\x1b[31m", "a\u202eb", "a  b"])
def test_names_that_can_not_be_used_are_left_out(name: Any) -> None:
    capabilities, warnings = read_capabilities([{"name": name}, {"name": "ok"}], LIMITS)
    assert [each.name for each in capabilities] == ["ok"]
    assert len(warnings) == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "a\nb", "\x1b[31mred", "a\u202eb"])
def test_parameter_names_that_can_not_be_shown_are_left_out(key: str) -> None:
    [capability], _ = read_capabilities([{"name": "c", "params_schema": {key: "int", "ok": "int"}}], LIMITS)
    assert capability.params_schema == {"ok": "int"}
    schema = {"properties": {key: {"type": "integer"}, "ok": {}}}
    [typed], _ = read_capabilities([{"name": "c", "input_schema": schema}], LIMITS)
    assert typed.input_schema == {"properties": {"ok": {}}}


def test_texts_inside_an_input_schema_are_cleaned() -> None:
    schema = {"properties": {"p": {"title": "a\x1b[31mb", "description": "x" * 5000}}}
    [capability], _ = read_capabilities([{"name": "c", "input_schema": schema}], LIMITS)
    assert capability.input_schema == {"properties": {"p": {"title": "ab", "description": "x" * 2000}}}


def test_at_most_256_capabilities() -> None:
    capabilities, warnings = read_capabilities([{"name": f"c{number}"} for number in range(300)], LIMITS)
    assert [each.name for each in capabilities] == [f"c{number}" for number in range(256)]
    assert warnings == ["more than 256 capabilities: the rest was left out"]


def test_descriptions_are_cut_and_cleaned() -> None:
    [capability], _ = read_capabilities([{"name": "c", "description": "a\nb\x07" + "x" * 3000}], LIMITS)
    assert capability.description == "a b" + "x" * 1997


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "description", "params_schema", "input_schema"]) | st.text(max_size=4), inner
        )
    ),
    max_leaves=15,
)


@given(anything)
def test_anything_at_all_can_be_read(value: Any) -> None:
    capabilities, _ = read_capabilities(value, LIMITS)
    names = [capability.name for capability in capabilities]
    assert len(set(names)) == len(names)
    assert all(0 < len(name) <= 128 for name in names)
    for capability in capabilities:
        capability.model_dump_json()
