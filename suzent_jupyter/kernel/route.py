"""Which node a prompt would go to: the choice, what came of each tier, and every candidate with its scores."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from . import frames
from .plain import one_line
from .show import html_block, table_bundle

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]

_BARS = 12  # bars that are still read at a glance
_WIDTH = 24  # characters of the longest one
_TIERS = {"llm": "the model", "bm25": "shared words", "recent": "the newest connection", "manual": "you named it"}


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
        return choice.get("node_id") if choice else None

    @property
    def lines(self) -> list[str]:
        """Who was chosen, by which tier and why, then what came of each tier."""
        choice = self.decision.get("choice")
        if not choice:
            said = ["No node was chosen: none is connected that could take part."]
        else:
            tier = str(choice.get("tier"))
            sure = choice.get("confidence")
            sure = f", confidence {sure:.2f}" if isinstance(sure, int | float) else ""
            said = [f"{one_line(choice.get('display_name'), 64)}, by {_TIERS.get(tier, one_line(tier, 20))}{sure}."]
            if choice.get("reason"):
                said.append(one_line(choice["reason"], 300))
        for item in self.decision.get("tiers") or ():
            reason = f": {one_line(item.get('reason'), 300)}" if item.get("reason") else ""
            said.append(f"  {one_line(item.get('tier'), 20)} {one_line(item.get('outcome'), 20)}{reason}")
        return said

    @property
    def bars(self) -> str:
        """The tier-2 scores as horizontal bars of text; empty where no word was shared."""
        scored = [item for item in self.decision.get("candidates") or () if item.get("bm25")][:_BARS]
        if not scored:
            return ""
        most = max(item["bm25"] for item in scored)
        names = [one_line(item.get("display_name"), 24) for item in scored]
        wide = max(map(len, names))
        return "\n".join(
            f"{name.ljust(wide)}  {'█' * max(1, round(_WIDTH * item['bm25'] / most))} {item['bm25']:.2f}"
            for name, item in zip(names, scored, strict=True)
        )

    def __repr__(self) -> str:
        return "\n".join(part for part in ["\n".join(self.lines), self.bars] if part)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        said = "<br>".join(escape(line) for line in self.lines)
        bars = f"<pre>{escape(self.bars)}</pre>" if self.bars else ""
        shown = table_bundle(self.frame)
        return {
            "text/plain": f"{self!r}\n\n{shown['text/plain']}",
            "text/html": html_block(f"<p>{said}</p>{bars}") + shown["text/html"],
        }
