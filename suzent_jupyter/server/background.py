"""Work that nobody waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("suzent_jupyter")


class Background:
    """Runs coroutines until they end or the gateway stops; what fails goes to the log.

    Parameters
    ----------
    what : str
        What they are about, as the log says.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something; nothing once :meth:`stop` was called."""
        if self._stopped:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self, seconds: float) -> None:
        """Cancel what is under way, and wait for its end, ``seconds`` at the most."""
        self._stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Something about %s failed in the background", self._what, exc_info=error)
