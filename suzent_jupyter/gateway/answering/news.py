"""Something to look at again, for whoever waits."""

from __future__ import annotations

import asyncio
import contextlib


class News:
    """Wakes all that wait on it. Nothing is remembered: look first, and wait for what you did not find."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Wake them."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until there is something new, or for ``seconds``."""
        news = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await news
        finally:
            if news in self._waiting:
                self._waiting.remove(news)
