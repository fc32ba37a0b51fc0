"""The events of a turn, as ``ag_ui.core`` defines them: read, written, and made of text.

Import this module off the event loop: ``ag_ui`` takes some tenths of a second to load. :func:`.agents.load_events`
does.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    Event,
    EventType,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from pydantic import TypeAdapter, ValidationError

from .errors import SuzentError
from .text import clean_text, whole_text, whole_texts
from .wire import encode

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_TYPES = frozenset(kind.value for kind in EventType)
_DELTA_CHARS = 64 * 1024  # an event of this much text stays below 1 MiB, however it is escaped


def is_event(value: Any) -> bool:
    """Tell whether a value is an event, or a dict that names the type of one."""
    if isinstance(value, BaseEvent):
        return True
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in _TYPES


def read_event(value: Any) -> BaseEvent | None:
    """Return the event a dict or model stands for; None for one that speaks of the run itself.

    Raises
    ------
    SuzentError
        ``agent_failed``, for what is no event of ``ag_ui.core``, and for a RUN_ERROR, with its message.
    """
    event = value
    if not isinstance(value, BaseEvent):
        try:
            event = _EVENT.validate_python(value)
        except (ValidationError, RecursionError) as error:
            raise SuzentError("agent_failed", f"The agent sent something else than an event: {_why(error)}.") from None
    if isinstance(event, RunStartedEvent | RunFinishedEvent):
        return None
    if isinstance(event, RunErrorEvent):
        raise SuzentError("agent_failed", clean_text(event.message, 500) or "The agent failed without saying why.")
    return event  # type: ignore[no-any-return]


def write_event(event: BaseEvent) -> bytes:
    """Return an event as JSON, with halves of surrogate pairs made whole (:func:`.text.whole_text`).

    Raises
    ------
    SuzentError
        ``agent_failed`` when it holds what JSON can't.
    """
    without_none = event.type != "CUSTOM"  # a field without a value is left out, but a CUSTOM event's may be null
    try:
        try:
            return event.model_dump_json(by_alias=True, exclude_none=without_none).encode()
        except ValueError:  # half a surrogate pair, or worse
            return encode(whole_texts(event.model_dump(mode="json", by_alias=True, exclude_none=without_none)))
    except (ValueError, TypeError, RecursionError) as error:
        why = clean_text(str(error), 200)
        raise SuzentError("agent_failed", f"An event of the agent has no JSON form: {why}.") from None


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it nests too deeply"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found", "model_attributes_type", "model_type"):
        return "its type is unknown"
    return clean_text(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 200)


class Shaper:
    """Makes events of what an agent's program gives: text, events, dicts that are such, and anything that has a text.

    Text that follows text belongs to one message; any other event closes it first.
    """

    def __init__(self) -> None:
        self._message = ""

    def take(self, item: Any) -> list[BaseEvent]:
        """Return the events of one item; none for None and empty text.

        Raises
        ------
        SuzentError
            As :func:`read_event`.
        """
        if item is None:
            return []
        if is_event(item):
            event = read_event(item)
            return [] if event is None else [*self.end(), event]
        return self._text(item if isinstance(item, str) else str(item))

    def end(self) -> list[BaseEvent]:
        """Return what closes a message that is open."""
        message, self._message = self._message, ""
        return [TextMessageEndEvent(message_id=message)] if message else []

    def _text(self, text: str) -> list[BaseEvent]:
        if not text:
            return []
        events: list[BaseEvent] = []
        if not self._message:
            self._message = uuid4().hex
            events.append(TextMessageStartEvent(message_id=self._message, role="assistant"))
        text = whole_text(text)
        for start in range(0, len(text), _DELTA_CHARS):
            delta = text[start : start + _DELTA_CHARS]
            events.append(TextMessageContentEvent(message_id=self._message, delta=delta))
        return events
