"""How calls and runs are answered on ``/ws/gateway``."""

from __future__ import annotations

from typing import Any

from ...protocol.wire import Raw, encode
from ..results import encode_frame


class InvokeDialect:
    """The answers to a ``node.invoke.request``."""

    def __init__(self, call_id: str | int) -> None:
        self._id = call_id

    def progress(self, seq: int, payload: dict[str, Any]) -> bytes:
        """Return a ``node.invoke.progress``."""
        return encode({"type": "node.invoke.progress", "id": self._id, "seq": seq, **payload})

    def event(self, event: bytes) -> bytes | None:
        """Return nothing: of an agent that is asked this way the text is wanted."""
        return None

    def result(self, value: Any, limit: int) -> bytes:
        """Return a ``node.invoke.result``."""
        return encode_frame({"type": "node.invoke.result", "id": self._id, "ok": True}, value, limit)

    def failure(self, error: str, code: str) -> bytes:
        """Return a ``node.invoke.result`` with its error."""
        problem = {"code": code, "message": error}
        return encode({"type": "node.invoke.result", "id": self._id, "ok": False, "error": problem})


class RunDialect:
    """The events of a run, numbered from 0 without a gap; its end is one of them."""

    def __init__(self, run_id: str, session_id: str) -> None:
        self._run_id = run_id
        self._session_id = session_id
        self._seq = 0

    def progress(self, seq: int, payload: dict[str, Any]) -> bytes:
        """Return progress as an event of its own kind (``CUSTOM`` of AG-UI)."""
        return self._event(Raw(encode({"type": "CUSTOM", "name": "progress", "value": payload})))

    def event(self, event: bytes) -> bytes | None:
        """Return a ``chat.event``."""
        return self._event(Raw(event))

    def result(self, value: Any, limit: int) -> bytes:
        """Return ``RUN_FINISHED``; the text was said by the events before."""
        return self._event({"type": "RUN_FINISHED", "threadId": self._session_id, "runId": self._run_id})

    def failure(self, error: str, code: str) -> bytes:
        """Return ``RUN_ERROR``."""
        return self._event({"type": "RUN_ERROR", "message": error, "code": code})

    def _event(self, event: Any) -> bytes:
        seq, self._seq = self._seq, self._seq + 1
        return encode({"type": "chat.event", "run_id": self._run_id, "seq": seq, "event": event})
