"""What was found, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from .rules import RuleResult

_MARKS = {"kept": "✓", "broken": "✗", "skipped": "–"}


def as_line(result: RuleResult) -> str:
    """Return one rule as a line, with a second one for what was seen where that matters."""
    level = "" if result.level == "must" else " (should)"
    line = f"{_MARKS[result.status]} {result.id:<22} {result.sentence}{level}"
    return line if result.status == "kept" else f"{line}\n  {'':<22} {result.status}: {result.seen}"


def summary(results: Sequence[RuleResult]) -> str:
    """Return the counts in one line."""
    counts = Counter(result.status for result in results)
    must = sum(result.status == "broken" and result.level == "must" for result in results)
    return f"{counts['kept']} kept, {counts['broken']} broken ({must} of them a must), {counts['skipped']} skipped"


def as_json(results: Sequence[RuleResult]) -> str:
    """Return all of it as one JSON object."""
    return json.dumps({"ok": passed(results), "rules": [asdict(result) for result in results]}, indent=2)


def passed(results: Sequence[RuleResult]) -> bool:
    """Tell whether no rule that must be kept is broken."""
    return not any(result.status == "broken" and result.level == "must" for result in results)
