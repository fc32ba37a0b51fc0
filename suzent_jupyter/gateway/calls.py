"""One call on its way: from the caller's request to the device's result, under one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..protocol.wire import NULL, Raw, ascii_json
from .principals import Principal

#: What the rest of a call's frame takes, near enough.
FRAME_HEAD_BYTES = 256


@dataclass(slots=True)
class Outcome:
    """What a device answered: its own words in ``error``, its result as raw JSON.

    ``ascii`` says that the result is known to hold nothing but ASCII.
    """

    success: bool
    result: Raw = field(default_factory=lambda: NULL)
    error: str | None = None
    ascii: bool = False

    def ascii_result(self) -> bytes | memoryview:
        """Return the result as ASCII-escaped JSON; as it came, without a copy, where it is that already."""
        return memoryview(self.result) if self.ascii else ascii_json(bytes(self.result))


@dataclass(slots=True, eq=False)
class Call:
    """A call that has been accepted.

    Attributes
    ----------
    future : asyncio.Future of Outcome
        Ends with the outcome or a :class:`~suzent_jupyter.protocol.errors.SuzentError`.
    deadline : float
        Loop time at which it fails, sent or not.
    params : bytes or memoryview
        The parameters as JSON; the frame is made when the call's turn comes, since its ``timeout`` is known then.
    addresses : tuple of str
        Addresses elsewhere at which the node finds files of ours.
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
    params: bytes | memoryview
    on_progress: Callable[[dict[str, Any]], None] | None = None
    on_agent_event: Callable[[Any, int], None] | None = None
    origin: dict[str, Any] | None = None
    idempotency: tuple[str, str] | None = None
    fingerprint: bytes = b""
    addresses: tuple[str, ...] = ()
    timer: asyncio.TimerHandle | None = None
    sent: bool = False
    over: bool = False

    @property
    def frame_size(self) -> int:
        """Bytes of the frame, near enough."""
        return len(self.params) + sum(map(len, self.addresses)) + FRAME_HEAD_BYTES
