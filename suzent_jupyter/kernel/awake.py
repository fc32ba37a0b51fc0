"""An event loop that is awake now and then while a cell awaits something, so that an interrupt of the cell is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_SECONDS = 0.25


@contextmanager
def awake() -> Iterator[None]:
    """Wake the running loop several times a second within.

    ipykernel notes an interrupt in a callback of the loop, and a loop that sleeps until something comes runs none.
    """
    loop = asyncio.get_running_loop()

    timer: asyncio.TimerHandle | None = None

    def again() -> None:
        nonlocal timer
        timer = loop.call_later(_SECONDS, again)

    again()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


__all__ = ["awake"]
