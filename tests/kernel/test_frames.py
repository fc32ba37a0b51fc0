"""Frames: the same columns and types with rows and without, and hostile names in none of their reprs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from suzent_jupyter.kernel import frames

EVIL = "<script>alert(1)</script>\x1b[31m\n\u202e" + "x" * 500 + "🙂"
CAPABILITY = {"name": EVIL, "description": EVIL, "params_schema": {EVIL: EVIL}, "input_schema": None}
NODE = {
    "node_id": "a" * 16,
    "display_name": EVIL,
    "platform": EVIL,
    "status": "connected",
    "scope": "account",
    "connected_at": "2024-05-01T10:00:00.123+00:00",
    "last_seen": "",
    "capabilities": [CAPABILITY],
    "pending_capabilities": [CAPABILITY],
    "latency_ms": 1.5,
    "calls": 2,
    "tags": [EVIL],
    "description": EVIL,
    "remote": "127.0.0.1",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "nodes": [NODE, {"node_id": "b", "display_name": "plain", "latency_ms": None, "status": "odd"}],
    "capabilities": [NODE],
    "pending": [{"pairing_code": "ABC234", "display_name": EVIL, "kind": "device", "capabilities": [CAPABILITY]}],
    "devices": [{"device_id": "d", "display_name": EVIL, "scope": "node", "connected": True, "capabilities": [EVIL]}],
    "connections": [{"gateway_url": EVIL, "display_name": EVIL, "status": "pending", "error": EVIL, "since": "2024"}],
    "audit": [
        {
            "id": 3,
            "at": "2024-05-01T10:00:00+00:00",
            "duration_ms": 2.5,
            "origin": {"execution_count": 4},
            "detail": {EVIL: 1},
        }
    ],
}
MAKE = {name: getattr(frames, name) for name in ROWS}


@pytest.mark.parametrize("kind", ROWS)
def test_empty_frames_have_the_same_columns_and_types(kind: str) -> None:
    empty, full = MAKE[kind]([]), MAKE[kind](ROWS[kind])
    assert len(empty) == 0
    assert len(full) > 0
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)
    assert empty.index.names == full.index.names
    assert [level.dtype for level in _levels(empty)] == [level.dtype for level in _levels(full)]


def _levels(frame: pd.DataFrame) -> list[Any]:
    index = frame.index
    return [index.get_level_values(number) for number in range(index.nlevels)]


def test_types_are_real() -> None:
    frame = MAKE["nodes"](ROWS["nodes"])
    assert frame["status"].dtype == pd.CategoricalDtype(["connected", "paused"])
    assert frame["scope"].dtype == pd.CategoricalDtype(["account", "enterprise"])
    assert str(frame["connected_at"].dtype) == "datetime64[us, UTC]"
    assert frame["connected_at"].iloc[0] == pd.Timestamp("2024-05-01T10:00:00.123Z")
    assert frame["last_seen"].isna().all()
    assert frame["latency"].iloc[0] == pd.Timedelta(milliseconds=1.5)
    assert pd.isna(frame["latency"].iloc[1])
    assert frame["calls"].tolist() == [2, 0]
    devices = MAKE["devices"](ROWS["devices"])
    assert devices["connected"].dtype == bool
    assert devices["scope"].cat.categories.tolist() == ["node", "agent", "full"]
    audit = MAKE["audit"](ROWS["audit"])
    assert audit["duration"].iloc[0] == pd.Timedelta(milliseconds=2.5)
    assert isinstance(audit.index, pd.DatetimeIndex)
    assert audit["cell"].iloc[0] == 4
    assert MAKE["capabilities"](ROWS["capabilities"])["approved"].tolist() == [True, False]


@pytest.mark.parametrize("kind", ROWS)
def test_hostile_names_are_harmless_in_every_repr(kind: str) -> None:
    frame = MAKE[kind](ROWS[kind])
    html = frame.to_html()
    assert "<script" not in html
    text = frame.to_string()
    for shown in (html, text, repr(frame), frame.to_csv()):
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_parameters_for_people() -> None:
    schema = {
        "type": "object",
        "properties": {"format": {"type": "string", "default": "png"}, "w": {"type": "integer"}},
        "required": ["w"],
    }
    assert frames.parameters({"name": "x", "input_schema": schema}) == 'format?: string = "png", w: integer'
    choices = {"properties": {"way": {"type": "string", "enum": ["up", "down"], "default": "up"}}}
    assert frames.parameters({"name": "x", "input_schema": choices}) == 'way?: "up" | "down" = "up"'
    assert frames.parameters({"name": "x", "params_schema": {"text": "str", "how": ""}}) == "text: str, how"
