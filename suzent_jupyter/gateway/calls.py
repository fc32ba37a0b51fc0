"""One call on its way: from the caller's request to the device's result, under one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..protocol.wire import NULL, Raw, encode
from .principals import Principal


@dataclass(slots=True)
class Outcome:
    """What a device answered: its own words in ``error``, its result as raw JSON."""

    success: bool
    result: Raw = field(default_factory=lambda: NULL)
    error: str | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call that has been accepted.

    Attributes
    ----------
    future : asyncio.Future of Outcome
        Ends with the outcome or a :class:`~suzent_jupyter.protocol.errors.SuzentError`.
    deadline : float
        Loop time at which it fails, sent or not.
    params : bytes
        The parameters as JSON; the frame is made when the call's turn comes, since its ``timeout`` is known then.
    sent : bool
        Whether the device may know of it.
    """

    request_id: str
    node_id: str
    node_name: str
    command: str
    principal: Principal
    future: asyncio.Future[Outcome]
    started: float
    deadline: float
    params: bytes
    on_progress: Callable[[dict[str, Any]], None] | None = None
    origin: dict[str, Any] | None = None
    idempotency: tuple[str, str] | None = None
    fingerprint: bytes = b""
    timer: asyncio.TimerHandle | None = None
    sent: bool = False
    over: bool = False

    @property
    def frame_size(self) -> int:
        """Bytes of the frame, near enough."""
        return len(self.params) + 256

    def frame(self, now: float) -> bytes:
        """Return the invoke frame, with the seconds that remain at loop time ``now``."""
        return b'{"type":"invoke","request_id":"%s","command":%s,"params":%s,"timeout":%.3f}' % (
            self.request_id.encode(),
            encode(self.command),
            self.params,
            max(0.001, self.deadline - now),
        )
