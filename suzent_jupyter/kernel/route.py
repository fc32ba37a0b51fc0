"""Which node a prompt would go to: the choice, what came of each tier, and every candidate with its scores."""

from __future__ import annotations

import base64
import math
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_lines
from . import frames
from .chart import bar_chart
from .plain import display_width, one_line
from .show import html_block

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]

_BARS = 12  # bars that are still read at a glance
_WIDTH = 24  # characters of the longest one
_ROWS = 60  # candidates that a display lists
_LEFT = "text-align:left"
_TIERS = {
    "llm": "tier 1 (the model)",
    "bm25": "tier 2 (shared words)",
    "recent": "tier 3 (newest connection)",
    "manual": "your own choice",
}


class Route:
    """A decision of ``POST /route``.

    Attributes
    ----------
    decision : dict
        The gateway's own record of it.
    """

    def __init__(self, decision: Record) -> None:
        self.decision = decision

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per candidate, indexed by name; see :func:`.frames.candidates`."""
        return frames.candidates(self.decision)

    @property
    def node_id(self) -> str | None:
        """The chosen node's id; None where there was nothing to choose from."""
        choice = self.decision.get("choice")
        return str(choice.get("node_id")) if choice else None

    @property
    def lines(self) -> list[str]:
        """Who was chosen, by which tier and why, then what came of each tier."""
        choice = self.decision.get("choice")
        said = [
            f"{chosen_line(choice)}"
            if choice
            else "No node was chosen: none is connected that could take part. `%suzent status` says what to do."
        ]
        for item in self.decision.get("tiers") or ():
            reason = f": {one_line(item.get('reason'), 300)}" if item.get("reason") else ""
            said.append(f"  {_tier(item.get('tier'))}: {one_line(item.get('outcome'), 20)}{reason}")
        return said

    @property
    def bars(self) -> str:
        """The tier-2 scores as horizontal bars of text; empty where no word was shared."""
        scored = self._scored()
        if not scored:
            return ""
        most = max(score for _, score, _ in scored)
        wide = max(display_width(name) for name, _, _ in scored)
        return "\n".join(
            f"{name}{' ' * (wide - display_width(name))}  {'█' * max(1, round(_WIDTH * score / most))} {score:.2f}"
            for name, score, _ in scored
        )

    @cached_property
    def png(self) -> bytes | None:
        """The same as a picture; None where no word was shared, or matplotlib is missing."""
        scored = self._scored()
        if not scored:
            return None
        names, scores, chosen = zip(*scored, strict=True)
        return bar_chart(names, scores, chosen)

    def _scored(self) -> list[tuple[str, float, bool]]:
        """Return name, score and whether it was chosen, of the candidates with the best scores."""
        found = [
            (one_line(item.get("display_name"), 24), float(item["bm25"]), item.get("node_id") == self.node_id)
            for item in self.decision.get("candidates") or ()
            if _is_score(item.get("bm25")) and item["bm25"] > 0
        ]
        return sorted(found, key=lambda each: -each[1])[:_BARS]

    def __repr__(self) -> str:
        return "\n".join(part for part in ["\n".join(self.lines), self.bars] if part)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        who, *tiers = self.lines
        items = "".join(f"<li>{escape(line.strip())}</li>" for line in tiers)
        tiers_html = f'<ul style="margin:0">{items}</ul>' if items else ""
        text = self.frame.drop(columns=["node_id", "platform"]).to_string(max_rows=30, max_colwidth=40)
        picture = ""
        if self.png is not None:
            data = base64.b64encode(self.png).decode("ascii")
            picture = f'<img alt="{escape(self.bars)}" src="data:image/png;base64,{data}">'
        return {
            "text/plain": f"{self!r}\n\n{clean_lines(text)}",
            "text/html": html_block(f"<p><b>{escape(who)}</b></p>{tiers_html}{self._table(bars=not picture)}{picture}"),
        }

    def _table(self, *, bars: bool) -> str:
        """Return the candidates as a table; with ``bars`` each score carries one."""
        frame = self.frame
        shown = frame.iloc[:_ROWS]
        most = max((score for score in frame["score"].dropna()), default=0.0)
        head = "".join(
            f'<th style="{_LEFT}">{title}</th>'
            for title in (
                "",
                "node",
                "score",
                "matched",
                "confidence",
                "reason",
                "executes",
                "scope",
                "connected since",
            )
        )
        rows = []
        for name, row in zip(shown.index, shown.to_dict("records"), strict=True):
            since = row["connected_at"]
            score = "" if _missing(row["score"]) else f"{row['score']:.2f}"
            if bars and score and most > 0:
                width = max(1, round(100 * row["score"] / most))
                score += f'<div style="width:{width}px;height:6px;background-color:#1f77b4"></div>'
            cells = [
                "✔" if row["chosen"] else "",
                escape(one_line(name, 64)),
                score,
                escape(one_line(row["matched"], 200)),
                "" if _missing(row["confidence"]) else f"{row['confidence']:.2f}",
                escape(one_line(row["reason"], 300)),
                "yes" if row["executes"] else "no",
                "" if _missing(row["scope"]) else escape(str(row["scope"])),
                "" if _missing(since) else since.strftime("%Y-%m-%d %H:%M:%S"),
            ]
            rows.append("<tr>" + "".join(f'<td style="{_LEFT}">{cell}</td>' for cell in cells) + "</tr>")
        more = f"<p>{len(frame) - _ROWS} more: <code>.frame</code> holds them.</p>" if len(frame) > _ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}" if rows else ""


def chosen_line(choice: Record) -> str:
    """Return who was chosen, by which tier and why, as one line."""
    sure = choice.get("confidence")
    sure = f" with confidence {sure:.2f}" if _is_score(sure) else ""
    name = one_line(choice.get("display_name"), 64) or one_line(choice.get("node_id"), 64)
    reason = one_line(choice.get("reason"), 300)
    return f"{name}, by {_tier(choice.get('tier'))}{sure}{f': {reason}' if reason else ''}"


def _tier(tier: Any) -> str:
    return _TIERS.get(str(tier)) or one_line(tier, 20)


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.isna(value))
