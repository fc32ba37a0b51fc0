"""What is found in JSON to be kept as a file, and how it is decoded."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suzent_jupyter.gateway.artifacts.hoisting import decoded, find, may_hold, size_of
from suzent_jupyter.protocol.errors import SuzentError

LIMIT = 64 * 1024
BLOB = os.urandom(LIMIT + 1)


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def part(data: bytes, **more: Any) -> dict[str, Any]:
    return {"media_type": "image/png", "base64": text(data), **more}


def found(params: Any, limit: float | None = LIMIT) -> list[tuple[str, bytes]]:
    """Return where content is found, and what it is."""
    encoded = json.dumps(params).encode()
    inline, _ = find(params, limit)
    if inline:
        assert may_hold(encoded, limit)
        assert may_hold(memoryview(encoded), limit)
    return [(each.path, b"".join(each.pieces())) for each in inline]


@pytest.mark.parametrize(("size", "kept"), [(LIMIT - 1, False), (LIMIT, False), (LIMIT + 1, True), (20_000_000, True)])
@pytest.mark.parametrize("as_url", [False, True])
def test_content_is_found_from_one_byte_more_than_the_limit_on(size: int, kept: bool, as_url: bool) -> None:
    data = BLOB[:size] if size <= len(BLOB) else os.urandom(size)
    value = f"data:image/png;base64,{text(data)}" if as_url else part(data)
    assert found({"image": value}) == ([("image", data)] if kept else [])


def test_it_is_found_wherever_it_stands() -> None:
    other = BLOB[::-1]
    params = {"a": [[{"b": part(BLOB, name="x.png")}], 1, [f"data:;base64,{text(other)}"]], "c": "x", "d": part(b"no")}
    assert sorted(found(params)) == [("a[0][0].b", BLOB), ("a[2][0]", other)]
    deep: Any = part(BLOB)
    for _ in range(200):
        deep = [deep]
    assert [data for _, data in found({"deep": deep})] == [BLOB]


@pytest.mark.parametrize(
    "value",
    [
        text(BLOB),  # nothing says what it is
        "data:image/png;base64," + text(BLOB) + " is what I got",
        "data:text/plain," + "x" * 2 * LIMIT,
        "data: " + "words " * LIMIT,
        "see data:image/png;base64," + text(BLOB),
        {"base64": text(BLOB)},
        {"media_type": 3, "base64": text(BLOB)},
        {"media_type": "image/png", "base64": [1] * LIMIT},
    ],
)
def test_what_is_something_else_stays_as_it_is(value: Any) -> None:
    assert found({"value": value}) == []


def test_nodes_that_know_no_references_get_everything_inside() -> None:
    assert found({"image": part(BLOB)}, None) == []
    assert not may_hold(json.dumps({"image": part(BLOB)}).encode(), None)


@pytest.mark.parametrize(
    "broken",
    [
        lambda good: good[:1000] + "!" + good[1001:],
        lambda good: good[:-1] + "é",
        lambda good: good[:1000] + "==" + good[1002:],
        lambda good: good + "A",
        lambda good: "=" + good[1:],
        lambda good: good[:1000] + "-_" + good[1002:],
        lambda good: good + "====",
        lambda good: good[: len(good) // 2] + "=" + good,
    ],
)
@pytest.mark.parametrize("size", [LIMIT + 32, 1_000_000])
def test_what_is_no_base64_is_refused_by_its_place(broken: Any, size: int) -> None:
    value = {"media_type": "image/png", "base64": broken(text(os.urandom(size)))}
    with pytest.raises(SuzentError, match=r"`images\[1\]` holds no valid base64") as error:
        found({"images": ["x", value]})
    assert error.value.code == "invalid_params"


def test_white_space_and_missing_padding_are_taken_as_browsers_take_them() -> None:
    data = os.urandom(1_000_001)
    lines = base64.encodebytes(data).decode()
    for written in (lines, lines.replace("\n", "\r\n"), text(data).rstrip("="), " " + text(data) + "\n\t"):
        assert size_of(written) == len(data)
        assert b"".join(decoded(written, 0, "x")) == data


@given(data=st.binary(max_size=300), width=st.integers(1, 80), padded=st.booleans(), before=st.text(max_size=5))
@settings(deadline=None, max_examples=200)
def test_decoding_undoes_encoding(data: bytes, width: int, padded: bool, before: str) -> None:
    written = text(data) if padded else text(data).rstrip("=")
    written = before + "\n".join(written[at : at + width] for at in range(0, len(written), width))
    assert size_of(written, len(before)) == len(data)
    assert b"".join(decoded(written, len(before), "x")) == data


REFERENCE = {"url": "/artifacts/af_x?expires=1&signature=2", "media_type": "a/b", "size": 3, "sha256": "0" * 64}


def test_references_are_found_for_every_node() -> None:
    params = {"a": [REFERENCE, {"b": {**REFERENCE, "name": "n"}}], "c": {**REFERENCE, "base64": "AA=="}}
    for limit in (LIMIT, None):
        _, named = find(params, limit)
        assert [each.reference.get("name") for each in named] == [None, "n"]
        assert may_hold(json.dumps(params).encode(), limit)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"text": "hello", "sha256 of": 3},
        {"text": 'he said "base64"'},
        {"rows": [{"name": "x", "value": at} for at in range(1000)]},
        {"text": "x" * 1_000_000},
        {"base64": "small", "media_type": "image/png"},
    ],
)
def test_nearly_all_calls_are_not_looked_into(params: Any) -> None:
    encoded = json.dumps(params).encode()
    assert not may_hold(encoded, LIMIT)
    assert not may_hold(memoryview(encoded), None)


def test_a_reference_after_many_other_things_is_seen() -> None:
    params = {"rows": [{"name": "x", "value": at} for at in range(1000)], "file": REFERENCE}
    assert may_hold(json.dumps(params).encode(), None)
