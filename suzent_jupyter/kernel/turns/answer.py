"""What a peer's or node's agent answered: its text, the tools it called, and every event of the turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ERRORS
from ...protocol.text import clean_lines
from ..errors import TurnFailed
from ..plain import one_line
from .remote_file import RemoteFile

if TYPE_CHECKING:
    import pandas as pd

    from ..route import Route

Record = dict[str, Any]

SHOWN_CHARS = 1_000_000  # of an answer that a cell shows; more would make the notebook unusable


@dataclass(slots=True)
class ToolCall:
    """One tool that the agent called.

    Attributes
    ----------
    name : str
        Cleaned.
    arguments : str
        As the agent wrote them, mostly JSON.
    result : str or None
        What the tool gave back; None while it runs, or where the peer does not tell.
    """

    name: str
    result: str | None = None
    ended: bool = False
    _arguments: list[str] = field(default_factory=list, repr=False)

    @property
    def arguments(self) -> str:
        """What it was called with, as far as it came."""
        if len(self._arguments) > 1:
            self._arguments = ["".join(self._arguments)]
        return self._arguments[0] if self._arguments else ""


@dataclass(slots=True)
class _Taken:
    at: datetime
    data: Record


@dataclass
class Answer:
    """The answer to one prompt, complete or as far as it came.

    Attributes
    ----------
    peer : str
        The name of the peer, or of the node, whose agent answered.
    conversation : str
        The conversation there; the same ``chat`` continues it.
    run_id : str
        This turn.
    tools : list of ToolCall
        What the agent called, in order.
    files : list of RemoteFile
        Files on the peer that it named; ``.data`` fetches one.
    error : TurnFailed or None
        Why the turn ended early.
    seconds : float
        From the prompt to the end, as seen from here.
    node_id : str
        The node that answered a chat; ``""`` for a peer.
    routing : dict or None
        The gateway's decision on which node answers a chat; ``route`` shows it.
    """

    peer: str
    conversation: str = ""
    run_id: str = ""
    tools: list[ToolCall] = field(default_factory=list)
    files: list[RemoteFile] = field(default_factory=list)
    error: TurnFailed | None = None
    seconds: float = 0.0
    node_id: str = ""
    routing: Record | None = None
    _find_files: Callable[[Any], list[RemoteFile]] = field(default=lambda value: [], repr=False)

    def __post_init__(self) -> None:
        self._pieces: list[str] = []
        self._message: Any = None
        self._calls: dict[str, ToolCall] = {}
        self._events: list[_Taken] = []
        self._shown_in: int | None = None
        self.on_text: Callable[[str], None] | None = None
        self.chars = 0
        self.is_over = False

    # -- taking events ----------------------------------------------------------------------------------------

    def take(self, event: Record) -> None:
        """Take the next event of the turn."""
        self._events.append(_Taken(datetime.now(UTC), event))
        match event.get("type"):
            case "RUN_STARTED":
                self.conversation = one_line(_either(event, "threadId", "thread_id"), 256)
                self.run_id = one_line(_either(event, "runId", "run_id"), 256)
            case "TEXT_MESSAGE_START":
                self._begin(_either(event, "messageId", "message_id"))
            case "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK":
                self._begin(_either(event, "messageId", "message_id"))
                self._add(event.get("delta"))
            case "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_CHUNK" | "TOOL_CALL_END" | "TOOL_CALL_RESULT":
                self._take_tool(event)
            case "CUSTOM":
                self._take_files(event.get("value"))
            case "RUN_ERROR":
                self.is_over = True
                self.error = self._failure(event)
            case "RUN_FINISHED":
                self.is_over = True
                self._take_files(event.get("result"))

    def _begin(self, message: Any) -> None:
        if message is not None and message != self._message:
            if self._message is not None and self._pieces:
                self._add("\n\n")
            self._message = message

    def _add(self, delta: Any) -> None:
        if isinstance(delta, str) and delta:
            self._pieces.append(delta)
            self.chars += len(delta)
            if self.on_text is not None:
                self.on_text(delta)

    def _take_tool(self, event: Record) -> None:
        kind, key = event["type"], str(_either(event, "toolCallId", "tool_call_id") or "")
        call = self._calls.get(key)
        if call is None or (kind == "TOOL_CALL_START" and call.ended):
            if kind == "TOOL_CALL_RESULT" and key not in self._calls:
                return
            call = self._calls[key] = ToolCall(one_line(_either(event, "toolCallName", "tool_call_name"), 128))
            self.tools.append(call)
        match kind:
            case "TOOL_CALL_ARGS" | "TOOL_CALL_CHUNK":
                if isinstance(delta := event.get("delta"), str):
                    call._arguments.append(delta)
            case "TOOL_CALL_END":
                call.ended = True
            case "TOOL_CALL_RESULT":
                content = event.get("content")
                call.ended = True
                call.result = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
                self._take_files(_json(content))

    def _take_files(self, value: Any) -> None:
        self.files += [found for found in self._find_files(value) if found not in self.files]

    def _failure(self, event: Record) -> TurnFailed:
        code = event.get("code")
        code = code if isinstance(code, str) and code else "agent_failed"
        said = one_line(event.get("message"), 1000) or "it failed, and did not say why"
        spec = ERRORS.get(code)
        hint = event.get("hint")
        hint = one_line(hint, 500) if isinstance(hint, str) and hint else spec.hint if spec else ""
        return TurnFailed(
            said if said.startswith(self.peer) else f"{self.peer}: {said}",
            code=one_line(code, 64),
            hint="" if hint in said else hint,  # a peer may say in its message what is to be done
            answer=self,
        )

    # -- what came --------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The answer's text, mostly Markdown; control characters are removed."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return clean_lines(self._pieces[0]) if self._pieces else ""

    @property
    def events(self) -> pd.DataFrame:
        """Every event of the turn; see :func:`.frames.events` for the columns."""
        from .. import frames

        return frames.events([(taken.at, taken.data) for taken in self._events])

    @property
    def route(self) -> Route:
        """Which node was chosen for a chat, and why, with every candidate.

        Raises
        ------
        ContentError
            A peer answered: nothing was chosen.
        """
        from ..errors import ContentError
        from ..route import Route

        if self.routing is None:
            raise ContentError(f"{self.peer} was named: no node was chosen for this prompt.")
        return Route(self.routing)

    def check(self) -> Answer:
        """Return this answer, or raise :class:`~.errors.TurnFailed` if the turn ended in an error."""
        __tracebackhide__ = True
        if self.error is not None:
            raise self.error
        return self

    # -- how it shows itself ----------------------------------------------------------------------------------

    def shown(self) -> None:
        """Note that the cell which runs now has shown it already: it is not drawn a second time there."""
        self._shown_in = _cell()

    def __repr__(self) -> str:
        called = f", {len(self.tools)} tool call{'s' if len(self.tools) != 1 else ''}" if self.tools else ""
        state = "" if self.error is None else f", ended by {self.error.code}"
        return f"<Answer of {self.peer}: {self.chars:,} characters{called}, {self.seconds:.1f} s{state}>"

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if self._shown_in is not None and self._shown_in == _cell():
            return {"text/plain": repr(self)}
        return answer_bundle(self)


def answer_bundle(answer: Answer, note: str = "") -> dict[str, Any]:
    """Return an answer as safe Markdown and as plain text; ``note`` is a closing sentence of ours."""
    from ..render import safe_markdown

    text = answer.text
    if len(text) > SHOWN_CHARS:
        left = len(text) - SHOWN_CHARS
        text = text[:SHOWN_CHARS]
        note = f"{left:,} more characters: `.text` of the answer holds them. {note}".strip()
    markdown = safe_markdown(text)
    return {
        "text/plain": f"{text}\n\n[{note}]" if note else text,
        "text/markdown": f"{markdown}\n\n*{safe_markdown(note)}*" if note else markdown,
    }


def _cell() -> int | None:
    """Return the number of the cell that runs now."""
    from ..plain import shell

    running = shell()
    return None if running is None else running.displayhook.prompt_count


def _either(event: Record, name: str, older: str) -> Any:
    return event.get(name, event.get(older))


def _json(text: Any) -> Any:
    if isinstance(text, str) and text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
    return text
