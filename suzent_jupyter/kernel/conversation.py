"""A conversation: what was said, who answered, and why that one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_lines
from .icons import icon
from .plain import one_line
from .route import chosen_line

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]

_SHOWN = 100  # messages, the newest
_CHARS = 20_000  # of one message that is shown
_WELL = ("", "done")


class Conversation:
    """A conversation as the gateway keeps it.

    Attributes
    ----------
    record : dict
        The gateway's own, with its messages.
    """

    def __init__(self, record: Record, names: dict[str, str] | None = None) -> None:
        self.record = record
        self._names = names or {}

    @property
    def id(self) -> str:
        """Its id, for ``--conversation``."""
        return one_line(self.record.get("conversation_id"), 256)

    @property
    def messages(self) -> pd.DataFrame:
        """Its messages, oldest first; see :func:`.frames.messages`."""
        from . import frames

        return frames.messages(self.record.get("messages") or ())

    @cached_property
    def node(self) -> str:
        """The name of the node that answered last; ``""`` for this gateway's own agent."""
        return node_name(self.record, self._names)

    def __repr__(self) -> str:
        return "\n\n".join(f"{head}\n{text}" if text else head for head, text in self._parts())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .render import safe_markdown

        blocks = [
            f"**{safe_markdown(head)}**\n\n{safe_markdown(text)}" if text else f"*{safe_markdown(head)}*"
            for head, text in self._parts()
        ]
        return {"text/plain": repr(self), "text/markdown": "\n\n".join(blocks)}

    def _parts(self) -> list[tuple[str, str]]:
        messages = self.record.get("messages") or []
        title = one_line(self.record.get("title"), 200) or self.id
        kind = f"{sign} {self.record['icon']} · " if (sign := icon(self.record)) else ""
        parts = [(f"{kind}{title}", "")]
        if len(messages) > _SHOWN:
            parts.append((f"{len(messages) - _SHOWN} older messages: `.messages` holds them.", ""))
        for message in messages[-_SHOWN:]:
            parts.append((self._head(message), clean_lines(str(message.get("content") or ""), _CHARS)))
            choice = _choice(message)
            if choice:
                parts.append((f"→ {chosen_line(choice)}", ""))
        parts.append((go_on(self.record), ""))
        return parts

    def _head(self, message: Record) -> str:
        outcome = one_line(message.get("outcome"), 64)
        role = one_line(message.get("role"), 20)
        who = self._answered(message) or role if role == "assistant" else role
        error = one_line((message.get("detail") or {}).get("error"), 300)
        ended = f" (ended by {outcome}{f': {error}' if error else ''})" if outcome not in _WELL else ""
        return f"{who}{ended}"

    def _answered(self, message: Record) -> str:
        """Return who gave an answer: nodes may take turns within a conversation."""
        choice = self._choices.get(str(message.get("run_id") or ""))
        if choice is not None:
            return one_line(choice.get("display_name"), 64) or one_line(choice.get("node_id"), 64)
        return one_line((message.get("detail") or {}).get("agent"), 64) or self.node

    @cached_property
    def _choices(self) -> dict[str, Record]:
        found = ((str(item.get("run_id") or ""), _choice(item)) for item in self.record.get("messages") or ())
        return {run_id: choice for run_id, choice in found if run_id and choice is not None}


def node_name(record: Record, names: dict[str, str]) -> str:
    """Return the name of the node that answered a conversation last, its id where nobody knows it any more."""
    node_id = str(record.get("target_node_id") or "")
    return one_line(names.get(node_id) or node_id, 64)


def go_on(record: Record) -> str:
    """Return what to type to go on with a conversation; ``""`` where it is somebody else's."""
    if record.get("device_id") or record.get("folder"):
        return "A peer's own conversation: it goes on over there."
    return f"%suzent chat --conversation {one_line(record.get('conversation_id'), 256)} PROMPT"


def _choice(message: Record) -> Record | None:
    routing = (message.get("detail") or {}).get("routing")
    choice = routing.get("choice") if isinstance(routing, dict) else None
    return choice if isinstance(choice, dict) else None


__all__ = ["Conversation", "go_on", "node_name"]
