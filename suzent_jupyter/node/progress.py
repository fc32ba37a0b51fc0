"""How a running capability says how far it is, and hears that nobody waits any more."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any, Protocol

from .results import to_wire


class CallCancelled(BaseException):
    """The call is over for its caller: raised inside the capability by ``progress()``.

    Like :class:`asyncio.CancelledError` it is no ``Exception``, so that a measuring loop that survives every error
    still ends.
    """


class Reporter(Protocol):
    """What a running call offers to :class:`Progress`."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled or has run out of time."""

    def report(self, payload: dict[str, Any]) -> None:
        """Send a progress frame soon; may be called from any thread."""

    async def agent_event(self, event: bytes) -> None:
        """Send an event of a turn, as JSON, where the call answers one."""


#: The call this task or thread works for.
current_call: ContextVar[Reporter | None] = ContextVar("current_call", default=None)


class Progress:
    """Reports how far the current call is.

    Use the ready-made ``progress``, or annotate a parameter with this class to get the call's own, which also works in
    threads that the capability starts itself. Outside a call it does nothing, so capabilities stay plain functions.

    Examples
    --------
    >>> @capability("scan.run")
    ... def scan(points: int = 100):
    ...     for point in range(points):
    ...         progress(point / points, f"point {point}")
    """

    def __init__(self, call: Reporter | None = None) -> None:
        self._call = call

    def __call__(self, fraction: float | None = None, message: str | None = None, *, data: Any = None) -> None:
        """Report; frames are spaced out, and of those that come too fast only the newest is sent.

        Parameters
        ----------
        fraction : float, optional
            Done so far, 0 to 1.
        message : str, optional
            One line for people.
        data : optional
            Anything a result may be; keep it small.

        Raises
        ------
        CallCancelled
            When nobody waits for this call any more.
        ResultError
            When ``data`` has no JSON form.
        """
        call = self._call or current_call.get()
        if call is None:
            return
        if call.cancelled:
            raise CallCancelled
        payload: dict[str, Any] = {}
        if fraction is not None and math.isfinite(fraction):
            payload["fraction"] = min(1.0, max(0.0, float(fraction)))
        if message is not None:
            payload["message"] = to_wire(str(message))
        if data is not None:
            payload["data"] = to_wire(data)
        call.report(payload)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this call any more; for loops that want to tidy up before they end."""
        call = self._call or current_call.get()
        return call is not None and call.cancelled


progress = Progress()
