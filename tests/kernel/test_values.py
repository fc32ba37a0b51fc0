"""Words, typed values and Python objects as JSON."""

from __future__ import annotations

import base64
import datetime
import enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from suzent_jupyter.kernel.errors import InvalidParams, UsageError
from suzent_jupyter.kernel.results import Binary
from suzent_jupyter.kernel.values import jsonable, pair, quote, read_body, split, typed


def words(line: str) -> list[str]:
    return [word.text for word in split(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ('\'Lab PC\' "My \\"Phone\\"" it\\\'s', ["Lab PC", 'My "Phone"', "it's"]),
        ("text='two words' x=", ["text=two words", "x="]),
        ('opts={"a": 1, "b": "x } y"} z=1', ['opts={"a": 1, "b": "x } y"}', "z=1"]),
        ('--params {"a": [1, 2]}', ["--params", '{"a": [1, 2]}']),
        ("list=[1, 2]", ["list=[1, 2]"]),
        ("text={not json}", ["text={not", "json}"]),
        ("", []),
    ],
)
def test_split(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_an_open_quote_is_an_error_or_accepted_for_completion() -> None:
    with pytest.raises(UsageError, match="not closed"):
        split("a 'b")
    assert split("a 'b c", partial=True)[1].text == "b c"
    assert not split("a 'b c", partial=True)[1].closed


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_quote_and_split_are_inverse(text: str) -> None:
    assert words(quote(text)) == [text]


@given(st.text(max_size=200))
def test_split_never_fails_otherwise(text: str) -> None:
    try:
        split(text)
    except UsageError:
        split(text, partial=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("None", None),
        ("null", None),
        ("[1]", [1]),
        ('{"a": 1}', {"a": 1}),
        ('"5"', "5"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("1e999", "1e999"),
        ("1_000", "1_000"),
        ("two words", "two words"),
        ("", ""),
    ],
)
def test_typed(text: str, value: Any) -> None:
    assert typed(text) == value
    assert type(typed(text)) is type(value)


def test_pairs_take_objects_of_the_notebook() -> None:
    names = {"photo": b"\x89PNG\r\n\x1a\nrest", "n": np.int64(3)}
    assert pair(split("image=$photo")[0], names) == (
        "image",
        {"media_type": "image/png", "base64": base64.b64encode(names["photo"]).decode()},  # type: ignore[arg-type]
    )
    assert pair(split("n=$n")[0], names) == ("n", 3)
    assert pair(split("n='$n'")[0], names) == ("n", "$n")
    assert pair(split("price=$5")[0], names) == ("price", "$5")
    with pytest.raises(UsageError, match="no variable 'gone'"):
        pair(split("n=$gone")[0], names)
    with pytest.raises(UsageError, match="key=value"):
        pair(split("hello")[0], names)


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([1.0, np.nan]), [1.0, None]),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
        (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (pd.DataFrame({"v": [1]}, index=pd.Index(["r"], name="k")), [{"k": "r", "v": 1}]),
        (pd.Series([1, 2]), [1, 2]),
        (pd.NaT, None),
        (Path("a/b"), "a/b"),
        ((1, {2}), [1, [2]]),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-02T00:00:00+00:00"),
        (datetime.timedelta(seconds=2), 2.0),
        (Colour.RED, "red"),
        ({1: "x"}, {"1": "x"}),
        (Binary(b"hi", "text/plain", "a.txt"), {"media_type": "text/plain", "base64": "aGk=", "name": "a.txt"}),
        (bytearray(b"hi"), {"media_type": "application/octet-stream", "base64": "aGk="}),
    ],
)
def test_jsonable(value: Any, expected: Any) -> None:
    assert jsonable(value) == expected


def test_images_travel_as_png() -> None:
    value = jsonable(Image.new("RGB", (2, 2)))
    assert value["media_type"] == "image/png"
    assert base64.b64decode(value["base64"]).startswith(b"\x89PNG")


@pytest.mark.parametrize("value", [object(), float("nan"), float("inf"), lambda: 1, type])
def test_what_has_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParams, match="'x'"):
        jsonable(value, "x")


def test_a_loop_of_objects_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidParams, match="too deeply"):
        jsonable(loop)


def test_bodies_are_json_or_safe_yaml() -> None:
    assert read_body('{"a": {"b": [1]}}') == {"a": {"b": [1]}}
    assert read_body("a: 1\nb:\n  - x\nwhen: 2024-01-02\n") == {"a": 1, "b": ["x"], "when": "2024-01-02"}
    assert read_body("  \n") == {}
    with pytest.raises(UsageError):
        read_body("- a\n- b")
    with pytest.raises(UsageError, match="neither JSON nor YAML"):
        read_body("a: [1")
    with pytest.raises(UsageError):
        read_body("!!python/object/apply:os.system ['true']")
