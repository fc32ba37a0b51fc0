"""What an agent says in one turn: its events made sound and encoded once, and what is kept of them.

Import this module off the event loop, as :mod:`~suzent_jupyter.protocol.events`.

Readers of an event stream rely on its order (AG-UI: a message starts, has content, ends), and Suzent's read nothing but
``TEXT_MESSAGE_CONTENT``. Agents come from notebooks, devices and models; here their events get into shape.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import BaseEvent

from ...protocol.errors import SuzentError
from ...protocol.events import write_event
from ...protocol.text import clean_lines, clean_text, whole_text
from ...protocol.wire import ascii_json, encode_ascii

_MESSAGE_CHARS = 2000
_CODE_CHARS = 64
_TOOLS_KEPT = 100
_TOOL_CHARS = 2000
_NOT_THE_AGENTS = frozenset(["RUN_STARTED", "RUN_FINISHED"])


class Answer:
    """The events of one turn as they come, and what will be kept of them.

    Attributes
    ----------
    tools : list of dict
        ``{name, arguments, result}`` of the tools that were called.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._last_message: str | None = None
        self._open: dict[str, bool] = {}  # message → whether it is the assistant's
        self._chunked: str | None = None
        self._open_tools: dict[str, None] = {}
        self._tools: dict[str, dict[str, str]] = {}

    @property
    def text(self) -> str:
        """What the agent has said so far."""
        return whole_text("".join(self._text))

    @property
    def tools(self) -> list[dict[str, str]]:
        """The tools that were called."""
        return [{name: whole_text(value) for name, value in tool.items()} for tool in self._tools.values()]

    def take(self, event: BaseEvent) -> list[bytes]:
        """Take an event; return what readers get for it, encoded.

        Raises
        ------
        SuzentError
            When the agent says that the turn failed.
        TypeError, ValueError
            When that is no event, or none that can be encoded.
        """
        if not isinstance(event, BaseEvent):
            raise TypeError(f"the agent gave a {type(event).__name__} where events of ag_ui.core are due")
        kind: str = event.type
        if kind in _NOT_THE_AGENTS:
            return []
        if kind == "RUN_ERROR":
            raise _failure(event)
        if kind == "TEXT_MESSAGE_CHUNK":
            return self._chunk(event)
        out = self._end_chunks()
        match kind:
            case "TEXT_MESSAGE_START":
                return out + self._start(event)
            case "TEXT_MESSAGE_CONTENT":
                return out + self._content(event)
            case "TEXT_MESSAGE_END":
                if self._open.pop(_text(event, "message_id"), None) is None:
                    return out
            case "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" | "TOOL_CALL_RESULT" | "TOOL_CALL_CHUNK":
                self._tool(kind, event)
        out.append(_encoded(event))
        return out

    def close(self) -> list[bytes]:
        """Return the ends of what is still open, encoded: no reader shall wait for them."""
        self._chunked = None
        ends = [_frame("TEXT_MESSAGE_END", messageId=each) for each in self._open]
        ends += [_frame("TOOL_CALL_END", toolCallId=each) for each in self._open_tools]
        self._open.clear()
        self._open_tools.clear()
        return ends

    def _start(self, event: BaseEvent) -> list[bytes]:
        message = _text(event, "message_id")
        if message in self._open:
            return []
        self._open[message] = getattr(event, "role", None) in (None, "assistant")
        return [_encoded(event)]

    def _content(self, event: BaseEvent) -> list[bytes]:
        message = _text(event, "message_id")
        out = self._ensure_started(message)
        self._gather(message, _text(event, "delta"))
        out.append(_encoded(event))
        return out

    def _ensure_started(self, message: str) -> list[bytes]:
        if message in self._open:
            return []
        self._open[message] = True
        return [_frame("TEXT_MESSAGE_START", messageId=whole_text(message), role="assistant")]

    def _chunk(self, event: BaseEvent) -> list[bytes]:
        message = getattr(event, "message_id", None) or self._chunked
        if message is None:
            raise ValueError("the first chunk of a message has no message id")
        out = self._end_chunks() if self._chunked not in (None, message) else []
        out += self._ensure_started(message)
        self._chunked = message
        delta = getattr(event, "delta", None)
        if delta:
            self._gather(message, delta)
            out.append(_frame("TEXT_MESSAGE_CONTENT", messageId=whole_text(message), delta=whole_text(delta)))
        return out

    def _end_chunks(self) -> list[bytes]:
        message, self._chunked = self._chunked, None
        if message is None or self._open.pop(message, None) is None:
            return []
        return [_frame("TEXT_MESSAGE_END", messageId=whole_text(message))]

    def _gather(self, message: str, delta: str) -> None:
        if not self._open.get(message, True):
            return
        if self._last_message not in (None, message) and self._text:
            self._text.append("\n\n")
        self._last_message = message
        self._text.append(delta)

    def _tool(self, kind: str, event: BaseEvent) -> None:
        call = getattr(event, "tool_call_id", None) or ""
        if kind == "TOOL_CALL_START":
            self._open_tools[call] = None
        elif kind == "TOOL_CALL_END":
            self._open_tools.pop(call, None)
        tool = self._tools.get(call)
        name = getattr(event, "tool_call_name", None)
        if tool is None and name and len(self._tools) < _TOOLS_KEPT:
            tool = self._tools[call] = {"name": clean_text(name, 128), "arguments": "", "result": ""}
        if tool is None:
            return
        if kind in ("TOOL_CALL_ARGS", "TOOL_CALL_CHUNK"):
            tool["arguments"] = (tool["arguments"] + (getattr(event, "delta", None) or ""))[:_TOOL_CHARS]
        elif kind == "TOOL_CALL_RESULT":
            content = getattr(event, "content", "")
            tool["result"] = content[:_TOOL_CHARS] if isinstance(content, str) else "…"


def run_started(conversation_id: str, run_id: str) -> bytes:
    """Return the first event of a turn, encoded."""
    return _frame("RUN_STARTED", threadId=conversation_id, runId=run_id)


def run_finished(conversation_id: str, run_id: str, *, cancelled: bool) -> bytes:
    """Return the last event of a turn that came to its end, or was stopped."""
    outcome = {"outcome": {"type": "cancelled"}} if cancelled else {}
    return _frame("RUN_FINISHED", threadId=conversation_id, runId=run_id, **outcome)


def _frame(kind: str, **fields: Any) -> bytes:
    return encode_ascii({"type": kind, **fields})


def _encoded(event: BaseEvent) -> bytes:
    try:
        return ascii_json(write_event(event))
    except SuzentError as error:
        raise ValueError(error.message) from None  # of no use to a reader: for the log


def _failure(event: BaseEvent) -> SuzentError:
    message = clean_lines(_text(event, "message"), _MESSAGE_CHARS)
    return SuzentError(
        clean_text(getattr(event, "code", None), _CODE_CHARS) or "agent_failed", message or "The agent failed."
    )


def _text(event: BaseEvent, name: str) -> str:
    value = getattr(event, name, None)
    if not isinstance(value, str):
        raise TypeError(f"a {event.type} event has no text as its {name}")
    return value
