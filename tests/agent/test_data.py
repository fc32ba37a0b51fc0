"""What a model gets to see of results."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from suzent_jupyter.agent.data import show, show_error
from suzent_jupyter.protocol.errors import SuzentError

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
JPEG = b"\xff\xd8\xff\xe0picture"


def binary(content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
    return {"media_type": media_type, "base64": base64.b64encode(content).decode(), **more}


@pytest.mark.parametrize("value", [None, True, 7, 0.5, "text", [1, "two"], {"a": {"b": [None]}}, '\u2028 {"data":'])
def test_results_are_data(value: Any) -> None:
    assert json.loads(show(value, 1000).text) == {"data": value}


@pytest.mark.parametrize(("content", "media_type"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (PNG, "Image/PNG")])
def test_small_pictures_come_beside_it(content: bytes, media_type: str) -> None:
    shown = show({"photo": binary(content, media_type, name="a\nb.png")}, 1000, 1000)
    assert shown.pictures == [(content, media_type.lower())]
    seen = json.loads(shown.text)["data"]["photo"]
    assert seen["bytes"] == len(content) and seen["name"] == "a b.png" and "base64" not in seen


@pytest.mark.parametrize(
    "part",
    [
        binary(PNG, "audio/wav"),
        binary(b"<svg/>", "image/svg+xml"),
        binary(b"no picture", "image/png"),
        binary(JPEG, "image/png"),
        binary(PNG + bytes(1000), "image/png"),
        {"media_type": "image/png", "base64": "not base64!"},
        {"media_type": "x" * 1000, "base64": ""},
    ],
)
def test_all_else_is_described(part: dict[str, Any]) -> None:
    shown = show([part], 1000, 500)
    assert shown.pictures == []
    (seen,) = json.loads(shown.text)["data"]
    assert "not shown" in seen["note"] and "base64" not in seen and len(shown.text) < 500


def test_a_few_pictures_are_enough() -> None:
    assert len(show([binary(PNG, "image/png")] * 20, 10_000, 1000).pictures) == 4


@pytest.mark.parametrize(
    "value",
    ["x" * 100_000, ["é" * 90] * 5000, {str(n): n for n in range(50_000)}, [[["x" * 300] * 30] * 30] * 30, "\0" * 9999],
)
def test_long_results_are_cut(value: Any) -> None:
    shown = show(value, 2000).text
    assert len(shown.encode()) < 6 * 2000 and len(show(value, 2000).text) == len(shown)
    parsed = json.loads(shown)
    assert "data" in parsed or ("data_cut" in parsed and "Cut" in parsed["note"])


def test_deep_results_are_cut() -> None:
    value: Any = "bottom"
    for _ in range(500):
        value = [value]
    assert "nested too deeply" in show(value, 5000).text


def test_any_json_can_be_shown() -> None:
    dice = random.Random(7)

    def make(depth: int) -> Any:
        kind = dice.randrange(7 if depth else 4)
        if kind < 4:
            return [None, dice.random(), dice.randrange(9), "".join(chr(dice.randrange(1, 0xD7FF)) for _ in range(5))][
                kind
            ]
        if kind < 6:
            return [make(depth - 1) for _ in range(3)]
        return {dice.choice(["media_type", "base64", "name", "a"]): make(depth - 1) for _ in range(3)}

    for _ in range(500):
        json.loads(show(make(4), 300, 300).text)


def test_errors_are_one_line() -> None:
    shown = json.loads(show_error(SuzentError("deadline", "It\x1b[31m took\ntoo long.")))
    assert shown == {
        "error": {"code": "deadline", "message": "It took too long.", "hint": SuzentError("deadline", "").hint}
    }
