"""What an agent says in one turn: its events made sound and encoded once, and what is kept of them.

Readers of an event stream rely on its order (AG-UI: a message starts, has content, ends), and Suzent's read nothing but
``TEXT_MESSAGE_CONTENT``. Agents come from notebooks, devices and models; here their events get into shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.text import clean_lines, clean_text
from ...protocol.wire import ascii_json, encode_ascii

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

_MESSAGE_CHARS = 2000
_CODE_CHARS = 64
_TOOLS_KEPT = 100
_TOOL_CHARS = 2000
_NOT_THE_AGENTS = frozenset(["RUN_STARTED", "RUN_FINISHED"])


def sound(text: str) -> str:
    """Return text that can be written as UTF-8: halves of surrogate pairs are joined, or replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_event(event: BaseEvent) -> bytes:
    """Return an event as ASCII-escaped JSON.

    Raises
    ------
    ValueError
        When it holds what JSON can't.
    """
    # A field without a value is left out, but the value of a CUSTOM event may be null.
    without_none = event.type != "CUSTOM"
    try:
        return ascii_json(event.model_dump_json(by_alias=True, exclude_none=without_none).encode())
    except ValueError:  # half a surrogate pair, or worse
        return encode_ascii(_sound(event.model_dump(mode="json", by_alias=True, exclude_none=without_none)))


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, list):
        return [_sound(each) for each in value]
    if isinstance(value, dict):
        return {sound(str(name)): _sound(each) for name, each in value.items()}
    return value


class Answer:
    """The events of one turn as they come, and what will be kept of them.

    Attributes
    ----------
    tools : list of dict
        ``{name, arguments, result}`` of the tools that were called.
    """

    def __init__(self) -> None:
        from ag_ui.core import BaseEvent

        self._event_type = BaseEvent
        self._text: list[str] = []
        self._last_message: str | None = None
        self._open: dict[str, bool] = {}  # message → whether it is the assistant's
        self._chunked: str | None = None
        self._open_tools: dict[str, None] = {}
        self._tools: dict[str, dict[str, str]] = {}

    @property
    def text(self) -> str:
        """What the agent has said so far."""
        return sound("".join(self._text))

    @property
    def tools(self) -> list[dict[str, str]]:
        """The tools that were called."""
        return [{name: sound(value) for name, value in tool.items()} for tool in self._tools.values()]

    def take(self, event: BaseEvent) -> list[bytes]:
        """Take an event; return what readers get for it, encoded.

        Raises
        ------
        SuzentError
            When the agent says that the turn failed.
        TypeError, ValueError
            When that is no event, or none that can be encoded.
        """
        if not isinstance(event, self._event_type):
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
        out.append(encode_event(event))
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
        return [encode_event(event)]

    def _content(self, event: BaseEvent) -> list[bytes]:
        message = _text(event, "message_id")
        out = self._ensure_started(message)
        self._gather(message, _text(event, "delta"))
        out.append(encode_event(event))
        return out

    def _ensure_started(self, message: str) -> list[bytes]:
        if message in self._open:
            return []
        self._open[message] = True
        return [_frame("TEXT_MESSAGE_START", messageId=sound(message), role="assistant")]

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
            out.append(_frame("TEXT_MESSAGE_CONTENT", messageId=sound(message), delta=sound(delta)))
        return out

    def _end_chunks(self) -> list[bytes]:
        message, self._chunked = self._chunked, None
        if message is None or self._open.pop(message, None) is None:
            return []
        return [_frame("TEXT_MESSAGE_END", messageId=sound(message))]

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


def run_error(code: str, message: str) -> bytes:
    """Return the last event of a turn that failed."""
    return _frame("RUN_ERROR", message=message, code=code)


def _frame(kind: str, **fields: Any) -> bytes:
    return encode_ascii({"type": kind, **fields})


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
