"""What the router chooses in every situation that is written down in ``golden.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.routing.candidates import Candidate, Candidates
from suzent_jupyter.routing.documents import NodeText
from suzent_jupyter.routing.keyword import KeywordIndex
from suzent_jupyter.routing.router import Router

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


def candidates_of(nodes: list[dict[str, Any]]) -> Candidates:
    index = KeywordIndex()
    found = Candidates(index)
    for number, node in enumerate(nodes):
        text = NodeText(
            node["id"],
            node.get("name", ""),
            node.get("description", ""),
            node.get("tags", []),
            node.get("platform", ""),
            [(name, about) for name, about in node.get("capabilities", [])],
        )
        index.put(text)
        found.put(Candidate(text, node.get("connected", 1000.0 + number)))
    return found


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(CASES) >= 60
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_golden(case: dict[str, Any]) -> None:
    decision = await Router(Limits()).route(case["query"], candidates_of(case["nodes"]), limit=case.get("limit"))
    assert decision.choice is not None
    assert (decision.choice.node_id, decision.choice.tier) == (case["chosen"], case["tier"])
    rows = {row.node_id: row for row in decision.candidates}
    assert case["chosen"] in rows
    assert decision.considered == case.get("considered", len(case["nodes"]))
    assert len(rows) == case.get("shown", len(case["nodes"]))
    if case["tier"] == "recent":
        assert all(row.bm25 is None and not row.matched_terms for row in rows.values())
    else:
        assert all(row.bm25 is not None and row.bm25 >= 0 for row in rows.values())
        assert rows[case["chosen"]].bm25 and rows[case["chosen"]].matched_terms
    if "terms" in case:
        assert sorted(rows[case["chosen"]].matched_terms) == case["terms"]
    assert all((rows[node].bm25 or 0) > 0 for node in case.get("positive", []))
    assert all(rows[node].bm25 == 0 for node in case.get("zero", []))
    assert all("speaks to the chooser" in (rows[node].llm_reason or "") for node in case.get("withheld", []))
    assert all(rows[node].llm_reason is None for node in case.get("trusted", []))
    outcomes = {tier.tier: tier.outcome for tier in decision.tiers}
    assert outcomes == {
        "llm": "skipped",
        "bm25": "chosen" if case["tier"] == "bm25" else "passed",
        "recent": "skipped" if case["tier"] == "bm25" else "chosen",
    }
    assert all(tier.reason for tier in decision.tiers)
