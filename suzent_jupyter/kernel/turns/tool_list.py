"""The tools an agent called, as a list that folds: HTML of ours around escaped text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ...protocol.text import clean_lines
from ..plain import one_line
from ..show import html_block

if TYPE_CHECKING:
    from .answer import ToolCall

SHOWN = 100  # tool calls; of more, the last ones
_NAME, _LINE, _BLOCK = 128, 200, 2000  # characters

_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;max-height:20em;overflow:auto;margin:.3em 0"


def tools_bundle(tools: Sequence[ToolCall]) -> dict[str, Any]:
    """Return tool calls as text and as HTML; each one opens to its arguments and its result."""
    shown = tools[-SHOWN:]
    title = f"{len(tools)} tool call{'s' if len(tools) != 1 else ''}"
    lines = [f"  {one_line(call.name, _NAME)}({_short(call)}){'' if call.ended else ' …'}" for call in shown]
    items = "".join(_item(call) for call in shown)
    last = "" if shown[-1].ended else f": {escape(one_line(shown[-1].name, _NAME))} …"
    start = len(tools) - len(shown) + 1
    html = f'<details><summary>{title}{last}</summary><ol start="{start}" style="margin:0">{items}</ol></details>'
    return {"text/plain": "\n".join([f"{title}:", *lines]), "text/html": html_block(html)}


def _short(call: ToolCall) -> str:
    return one_line(call.arguments[: 8 * _LINE], _LINE)


def _item(call: ToolCall) -> str:
    state = "" if call.ended else " …"
    head = f"<code>{escape(one_line(call.name, _NAME))}</code> <small>{escape(_short(call))}{state}</small>"
    parts = [
        f'<pre style="{_PRE}">{escape(clean_lines(text[: 2 * _BLOCK], _BLOCK))}</pre>'
        for text in (call.arguments, call.result)
        if text
    ]
    return f"<li><details><summary>{head}</summary>{''.join(parts)}</details></li>"
