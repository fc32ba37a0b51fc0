"""A decision as a frame and as a display: real types with and without rows, and no markup of a node's own."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import pytest

from suzent_jupyter.kernel import frames
from suzent_jupyter.kernel.route import Route

EVIL = "<script>alert(1)</script>\x1b[31m"
DECISION: dict[str, Any] = {
    "query": "camera",
    "choice": {"node_id": "b", "display_name": EVIL, "tier": "bm25", "confidence": None, "reason": EVIL},
    "candidates": [
        {"node_id": "b", "display_name": EVIL, "bm25": 2.0, "matched_terms": ["camera"], "executes": True},
        {"node_id": "c", "display_name": "Desk", "bm25": None, "connected_at": "2024-05-01T10:00:00+00:00"},
    ],
    "tiers": [
        {"tier": "llm", "outcome": "skipped", "reason": "no router_model"},
        {"tier": "bm25", "outcome": "chosen"},
    ],
}


def test_types_are_the_same_with_rows_and_without() -> None:
    empty, full = frames.candidates({}), frames.candidates(DECISION)
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)
    assert empty.index.names == full.index.names == ["node"]
    assert str(full.dtypes["score"]) == str(full.dtypes["confidence"]) == "Float64"
    assert str(full.dtypes["chosen"]) == "bool"
    assert list(full["chosen"]) == [True, False]
    assert full["score"].iloc[0] == 2.0
    assert full["score"].isna().iloc[1]


def test_it_says_who_was_chosen_and_why_without_foreign_markup() -> None:
    shown = Route(DECISION)._repr_mimebundle_()
    assert "by tier 2 (shared words)" in shown["text/plain"]
    assert "tier 1 (the model): skipped: no router_model" in shown["text/plain"]
    assert "█" in shown["text/plain"]
    assert "<script" not in shown["text/html"]
    assert "\x1b" not in shown["text/html"] + shown["text/plain"]


def test_without_a_choice_it_says_so() -> None:
    nothing = Route({"query": "x", "choice": None})
    assert nothing.node_id is None
    assert "No node was chosen" in repr(nothing)
    assert len(nothing.frame) == 0
    assert nothing.bars == ""


def test_the_scores_are_a_picture_or_bars_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are drawn as they are: what looks like a formula must not be typeset, nor fail."""
    decision = {**DECISION, "candidates": [{**DECISION["candidates"][0], "display_name": "$\\frac$ 部屋 <b>"}]}
    route = Route(decision)
    assert route.png is not None and route.png.startswith(b"\x89PNG")
    assert "data:image/png;base64," in route._repr_mimebundle_()["text/html"]
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    plain = Route(decision)._repr_mimebundle_()["text/html"]
    assert "data:image" not in plain and "width:100px" in plain and "部屋 &lt;b&gt;" in plain
