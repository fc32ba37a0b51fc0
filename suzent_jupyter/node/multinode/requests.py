"""What this device asks of others, each with exactly one answer."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.exceptions import ConnectionClosed

from ...protocol.errors import SuzentError
from ...protocol.multinode import NodeInvokeCancel
from ...protocol.text import clean_text
from ...protocol.wire import encode

log = logging.getLogger(__name__)

_WAITING = 256
_TEXT = 500

#: Called with fraction, message and data of each progress frame.
OnProgress = Callable[[float | None, str | None, Any], None]


class Requests:
    """Those of one connection.

    Parameters
    ----------
    send : callable
        Sends one frame.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[asyncio.Future[Any], OnProgress | None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def ask(
        self, frame: dict[str, Any], seconds: float, limit: int, on_progress: OnProgress | None = None
    ) -> Any:
        """Send a frame under an id of its own and return what answers it.

        Parameters
        ----------
        frame : dict
            Without ``id``.
        seconds : float
            After which the gateway is taken to have lost it.
        limit : int
            Bytes the frame may have.

        Raises
        ------
        SuzentError
            What the gateway answers, ``node_disconnected`` when it goes, ``deadline``, ``too_large``, ``node_busy``.
        """
        if self._closed:
            raise _gone()
        if len(self._waiting) >= _WAITING:
            raise SuzentError("node_busy", f"{_WAITING} calls of this node wait for their answers.")
        request_id = f"n{next(self._numbers)}"
        data = encode({**frame, "id": request_id})
        if len(data) > limit:
            raise SuzentError("too_large", f"The call is {len(data):,} bytes, and this gateway takes {limit:,}.")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future, on_progress
        try:
            async with asyncio.timeout(seconds):
                await self._send(data)
                return await future
        except ConnectionClosed:
            raise _gone() from None
        except TimeoutError:
            self._cancel(request_id, "deadline")
            raise SuzentError("deadline", f"No answer came within {seconds:.3g} s.") from None
        except asyncio.CancelledError:
            self._cancel(request_id, "cancelled")
            raise
        finally:
            del self._waiting[request_id]

    def take(self, frame: dict[str, Any]) -> bool:
        """Take what answers a request, such as a result, a list, progress or an error. False: it answers none."""
        future, on_progress = self._waiting.get(str(frame.get("id")), (None, None))
        if future is None or future.done():
            return False
        match frame.get("type"):
            case "node.invoke.progress":
                if on_progress is not None:
                    _report(on_progress, frame)
            case "node.list":
                nodes = frame.get("nodes")
                future.set_result(nodes if isinstance(nodes, list) else [])
            case "node.invoke.result" if frame.get("ok") is True:
                future.set_result(frame.get("result"))
            case "memory.result" if frame.get("ok") is True:
                future.set_result(frame)
            case "node.invoke.result" | "memory.result":
                future.set_exception(_error(frame.get("error")))
            case "permission.resolved" if frame.get("decision") == "allow":
                future.set_result(None)
            case "permission.resolved":
                future.set_exception(_denied(frame))
            case "error":
                future.set_exception(_error(frame))
        return True

    def close(self) -> None:
        """Fail what waits: the connection is gone."""
        self._closed = True
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(_gone())

    def _cancel(self, request_id: str, reason: str) -> None:
        if self._closed:
            return
        frame = NodeInvokeCancel(id=request_id, reason=reason).encode()
        task = asyncio.get_running_loop().create_task(self._tell(frame))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _tell(self, frame: bytes) -> None:
        try:
            await self._send(frame)
        except ConnectionClosed:
            pass  # the gateway cancels what a socket asked when it goes


def _report(on_progress: OnProgress, frame: dict[str, Any]) -> None:
    fraction = frame.get("fraction")
    is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    message = clean_text(frame.get("message"), _TEXT) or None
    try:
        on_progress(fraction if is_number else None, message, frame.get("data"))
    except Exception:
        log.exception("The callback for progress failed")


def _error(told: Any) -> SuzentError:
    fields = told if isinstance(told, dict) else {}
    code = clean_text(fields.get("code"), 64) or "bad_answer"
    message = clean_text(fields.get("message"), 2000) or "The other node failed without saying why."
    return SuzentError(code, message, hint=clean_text(fields.get("hint"), _TEXT) or None)


def _denied(frame: dict[str, Any]) -> SuzentError:
    match frame.get("reason"):
        case "expired":
            return SuzentError("permission_expired", "Nobody answered whether it may.")
        case "no_interface":
            return SuzentError("permission_needed", "It needs somebody's permission, and nobody can be asked.")
    return SuzentError("permission_denied", "Somebody who was asked said no.")


def _gone() -> SuzentError:
    return SuzentError("node_disconnected", "The connection to the gateway ended.")
