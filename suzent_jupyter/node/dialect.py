"""How what a call says is written: the frames differ between the two protocols, nothing else."""

from __future__ import annotations

from typing import Any, Protocol

from ..protocol.wire import Raw, encode
from .results import encode_result


class Dialect(Protocol):
    """The device's side of one protocol, for one call."""

    def progress(self, seq: int, payload: dict[str, Any]) -> bytes:
        """Return the frame that says how far it is."""

    def event(self, event: bytes) -> bytes | None:
        """Return the frame of the next event of a turn, given as JSON; None where events are not wanted."""

    def result(self, value: Any, limit: int) -> bytes:
        """Return the frame that ends it well, at most ``limit`` bytes; ``ResultError`` where there is none."""

    def failure(self, error: str, code: str) -> bytes:
        """Return the frame that ends it otherwise; ``code`` is one of :mod:`~suzent_jupyter.protocol.errors`."""


class DeviceDialect:
    """Suzent's frames, of ``/ws/node``."""

    def __init__(self, request_id: str, *, events: bool = False) -> None:
        self._request_id = request_id
        self._events = events
        self._seq = 0

    def progress(self, seq: int, payload: dict[str, Any]) -> bytes:
        """Return a ``progress``."""
        return encode({"type": "progress", "request_id": self._request_id, "seq": seq, **payload})

    def event(self, event: bytes) -> bytes | None:
        """Return an ``agent.event``."""
        if not self._events:
            return None
        seq, self._seq = self._seq, self._seq + 1
        return encode({"type": "agent.event", "request_id": self._request_id, "seq": seq, "event": Raw(event)})

    def result(self, value: Any, limit: int) -> bytes:
        """Return a ``result``."""
        return encode_result(self._request_id, value, limit)

    def failure(self, error: str, code: str) -> bytes:
        """Return a ``result`` with its error, which has no code here."""
        return encode({"type": "result", "request_id": self._request_id, "success": False, "error": error})
