"""Long work in short steps: a generator that yields wherever others may get their turn, and returns what it found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]

STEP_SECONDS = 0.002
"""Of the event loop, before others get their turn."""


def whole(steps: Steps[T]) -> T:
    """Do all of some work at once."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


class Pace:
    """Does work in turn with all else on the event loop: one step of all works together in a turn of the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def walk(self, steps: Steps[T]) -> T:
        """Do some work to its end and return what it found."""
        while True:
            async with self._lock:
                until = time.perf_counter() + STEP_SECONDS
                while True:
                    try:
                        next(steps)
                    except StopIteration as over:
                        return over.value  # type: ignore[no-any-return]
                    if time.perf_counter() >= until:
                        break
                await asyncio.sleep(0)
