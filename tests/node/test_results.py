from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import io
import json
import math
import uuid
from collections import namedtuple
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import BaseModel

from suzent_jupyter.node import ResultError, binary
from suzent_jupyter.node.results import encode_result, is_small, to_wire

UTC = datetime.UTC


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Reading:
    at: datetime.datetime
    value: float


class Model(BaseModel):
    name: str
    data: bytes


Size = namedtuple("Size", "width height")


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        ("\ud800x", "\ufffdx"),
        ("\ud83d\ude00", "😀"),
        (
            b"\x89PNG\r\n\x1a\nrest",
            {"media_type": "image/png", "base64": base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()},
        ),
        (bytearray(b"x"), {"media_type": "application/octet-stream", "base64": "eA=="}),
        ((1, {2}), [1, [2]]),
        ({1: "a", Colour.RED: 2, ("x", 1): 3}, {"1": "a", "red": 2, "x 1": 3}),
        (Colour.RED, "red"),
        (PurePosixPath("/a/b"), "/a/b"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(minutes=1.5), 90.0),
        (Reading(datetime.datetime(2026, 1, 2, tzinfo=UTC), 1.5), {"at": "2026-01-02T00:00:00+00:00", "value": 1.5}),
        (
            Model(name="x", data=b"y"),
            {"name": "x", "data": {"media_type": "application/octet-stream", "base64": "eQ=="}},
        ),
        (Size(1, 2), {"width": 1, "height": 2}),
        ((part for part in (1, 2)), [1, 2]),
        (np.float32(1.5), 1.5),
        (np.int64(2**62), 2**62),
        (np.bool_(True), True),
        (np.float64("nan"), None),
        (np.array([[1.0, np.nan], [3.0, 4.0]]), [[1.0, None], [3.0, 4.0]]),
        (np.datetime64("2026-01-02T03:04:05"), "2026-01-02T03:04:05"),
        (np.array(["2026-01-02", "NaT"], "datetime64[ns]"), ["2026-01-02T00:00:00", None]),
        (np.timedelta64(1500, "ms"), 1.5),
        (pd.NA, None),
        (pd.NaT, None),
        (pd.Timestamp("2026-01-02", tz="UTC"), "2026-01-02T00:00:00+00:00"),
        (pd.Timedelta("1.5s"), 1.5),
        (pd.Series([1, 2]), [1, 2]),
        (pd.Series([1.5], index=pd.Index(["a"], name="where"), name="level"), [{"where": "a", "level": 1.5}]),
        (pd.DataFrame({"a": [1, 2], "b": [np.nan, "x"]}), [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        (pd.DataFrame({"a": [1]}, index=["r"]), [{"index": "r", "a": 1}]),
        (pd.DataFrame({("a", "b"): [pd.NA]}), [{"a b": None}]),
        (pd.DataFrame(), []),
    ],
)
def test_encodings(value: Any, wire: Any) -> None:
    assert to_wire(value) == wire


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "F", "I;16"])
def test_images_become_png(mode: str) -> None:
    wire = to_wire({"photo": Image.new(mode, (3, 2))})["photo"]
    assert wire["media_type"] == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(wire["base64"]))).size == (3, 2)


@pytest.mark.parametrize("value", [object(), int, len, [object()], {"a": {"b": object()}}])
def test_what_has_no_json_form_is_told(value: Any) -> None:
    with pytest.raises(ResultError, match="has no JSON form"):
        to_wire(value)


def test_what_contains_itself_is_told() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ResultError, match="contains itself"):
        to_wire(ring)


def test_too_large_names_the_size_and_the_limit() -> None:
    assert len(encode_result("r", "x" * 900, 1000)) <= 1000
    with pytest.raises(ResultError, match=r"2,0\d\d bytes as JSON.*takes 1,000"):
        encode_result("r", "x" * 2000, 1000)


def test_binary_guesses_and_keeps_names() -> None:
    assert binary(b"RIFF0000WAVEfmt ", name="a.wav") == {
        "media_type": "audio/wav",
        "base64": base64.b64encode(b"RIFF0000WAVEfmt ").decode(),
        "name": "a.wav",
    }
    assert binary(b"", "text/csv")["media_type"] == "text/csv"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary(max_size=20)
    | st.dates()
    | st.decimals(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec=None)) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def _strict(constant: str) -> Any:
    raise AssertionError(constant)


@given(_VALUES)
def test_anything_plain_becomes_strict_json(value: Any) -> None:
    frame = json.loads(encode_result("r", value, 10**9), parse_constant=_strict)
    assert frame["success"] is True and frame["request_id"] == "r"


@given(_VALUES)
def test_small_is_only_what_is_plain_and_short(value: Any) -> None:
    if is_small(value):
        assert len(encode_result("r", value, 10**9)) < 2_000_000


def test_small() -> None:
    assert is_small({"a": [1, "x", None, {"b": 2.0}]}) and is_small(math.pi)
    assert not is_small("x" * 10**6) and not is_small(list(range(10**6))) and not is_small(b"x")
