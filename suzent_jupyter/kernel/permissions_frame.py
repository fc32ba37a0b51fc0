"""Permission prompts as a frame that shows exactly what would run, and what to type."""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

import pandas as pd

from ..protocol.text import clean_lines
from .asking import words
from .frames import build
from .plain import one_line
from .show import html_block

Record = dict[str, Any]

_SHOWN = 50  # prompts that are shown whole; a frame of more says how many there are


class PermissionsFrame(pd.DataFrame):
    """Prompts that wait or are over, indexed by id; what is cut out of it is an ordinary frame.

    Columns: ``command``, ``node`` (empty for this gateway itself), ``caller``, ``params`` (JSON, all that would be
    sent as far as it is shown; ``params_bytes`` is its whole size), ``files``, ``description``, ``relation``
    (category), ``asked_at``, ``expires_at`` and ``resolved_at`` (UTC), ``decision``, ``reason`` and ``remember``
    (categories; missing while it waits), ``by``, ``run_id``, ``conversation_id``, ``node_id`` and ``sha256``.
    """

    _metadata: ClassVar = ["is_history"]

    #: Whether these are over.
    is_history: bool

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        if not len(self):
            return _NONE[self.is_history]
        return "\n\n".join("\n".join([title, *lines, typed]) for title, lines, typed in self._prompts()) + self._rest()

    def _repr_html_(self) -> str:
        if not len(self):
            return html_block(f"<p>{escape(_NONE[self.is_history])}</p>")
        parts = []
        for title, lines, typed in self._prompts():
            body = "\n".join(lines)
            parts.append(
                f"<p><b>{escape(title)}</b></p>"
                + (f'<pre style="white-space: pre-wrap">{escape(body)}</pre>' if body else "")
                + (f"<p><code>{escape(typed)}</code></p>" if typed else "")
            )
        return html_block("".join(parts) + f"<p>{escape(self._rest().strip())}</p>" * bool(self._rest()))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Record:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _prompts(self) -> list[tuple[str, list[str], str]]:
        """Return the title, the lines of what would run, and what to type, of each."""
        found: list[tuple[str, list[str], str]] = []
        for prompt_id, row in zip(self.index[:_SHOWN], self.iloc[:_SHOWN].to_dict("records"), strict=True):
            where = row["node"] or "this gateway"
            who = row["caller"] or "Somebody"
            lines = [row["description"]] if row["description"] else []
            if row["params"] not in ("", "{}"):
                lines.append(f"with {row['params']}")
            lines += [f"sends {file}" for file in row["files"].split("; ") if file]
            if self.is_history:
                why = row["reason"] if isinstance(row["reason"], str) else ""
                actor = words.by({"by": row["by"], "node_id": row["node_id"], "node_name": row["node"]})
                by = f" by {actor}" if row["by"] else ""
                how = f"{row['decision']} ({why}{by})"
                title = (
                    f"[{words.short(prompt_id)}] {_time(row['asked_at'])}: {who}, {row['command']} on {where}: {how}"
                )
                found.append((title, lines, ""))
                continue
            title = f"[{words.short(prompt_id)}] {who} wants to run {row['command']} on {where}"
            title += f" (until {_time(row['expires_at'])})"
            typed = f"%suzent answer {self._typed(str(prompt_id))} allow   (or deny; --session: for its conversation)"
            found.append((title, lines, typed))
        return found

    def _typed(self, prompt_id: str) -> str:
        """Return as much of an id as no other here begins with."""
        start = words.short(prompt_id)
        return start if sum(str(each).startswith(start) for each in self.index) == 1 else prompt_id

    def _rest(self) -> str:
        return f"\n\n… and {len(self) - _SHOWN} more." if len(self) > _SHOWN else ""


_NONE = {
    False: "Nothing waits for your permission. %suzent permissions --history shows what was asked.",
    True: "Nothing was asked in the last 30 days.",
}


def permissions_frame(items: list[Record], *, over: bool = False) -> PermissionsFrame:
    """Return prompts as a frame; ``over`` for those that are closed."""
    frame = PermissionsFrame(build("permissions", [_row(item) for item in items]))
    frame.is_history = over
    return frame


def _row(item: Record) -> Record:
    said = item.get("summary")
    summary: Record = said if isinstance(said, dict) else {}
    return {
        **item,
        "command": words.command(item),
        "node": item.get("node_name") or item.get("node_id"),
        "params": clean_lines(str(summary.get("params") or "")),
        "files": "; ".join(words.files(item)),
        "remember": item.get("remember") if item.get("decision") else None,
        **{name: summary.get(name) for name in ("params_bytes", "description", "sha256")},
    }


def _time(value: Any) -> str:
    return "" if pd.isna(value) else one_line(value.strftime("%H:%M:%S UTC"))
