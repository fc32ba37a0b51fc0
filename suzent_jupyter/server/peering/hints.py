"""Hints that a grant has changed, from whoever sends one: they cost a look at a time, and a second between two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

_PAUSE = 1.0
_ADDRESSES = 8


class Hints:
    """Takes hints without making their senders wait.

    Parameters
    ----------
    look : callable
        Looks again whether grants hold; it is given the addresses that were named meanwhile, with the host that each
        came from.
    run : callable
        Runs a coroutine in the background.
    """

    def __init__(
        self,
        look: Callable[[dict[str, str]], Awaitable[None]],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._look = look
        self._run = run
        self._named: dict[str, str] = {}
        self._working = False
        self._again = False

    def heard(self, base_url: str, host: str) -> None:
        """Take one hint; what it says is not believed."""
        if base_url and host and len(self._named) < _ADDRESSES:
            self._named[base_url] = host
        self._again = True
        if not self._working:
            self._working = True
            self._run(self._work())

    async def _work(self) -> None:
        try:
            while self._again:
                named, self._named, self._again = self._named, {}, False
                await self._look(named)
                await asyncio.sleep(_PAUSE)
        finally:
            self._working = False
