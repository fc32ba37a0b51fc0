"""Threads for capabilities that block, bounded in number.

They are daemons: a camera driver that hangs must not keep the program from ending, as the standard library's executor
would. A thread whose caller has given up keeps its slot until it really ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .progress import CallCancelled

Value = TypeVar("Value")

_MOST = 32


class Threads:
    """Runs functions in a bounded number of threads at once; further ones wait their turn."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_MOST)

    async def run(self, function: Callable[[], Value]) -> Value:
        """Return what ``function`` returns in a thread that sees this task's context variables.

        A function that ends the thread (``sys.exit()``) raises ``RuntimeError`` here.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()

        def finish(value: Any, error: BaseException | None) -> None:
            self._free.release()
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def work() -> None:
            value: Value | None = None
            error: BaseException | None = None
            try:
                value = function()
            except (StopIteration, SystemExit, KeyboardInterrupt) as caught:  # a future or task can't carry these
                error = RuntimeError(f"{type(caught).__name__}: {caught}")
            except (Exception, CallCancelled) as caught:
                error = caught
            try:
                loop.call_soon_threadsafe(finish, value, error)
            except RuntimeError:
                pass  # the loop is gone, and with it whoever waited

        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(work,), daemon=True, name="suzent-capability").start()
        except RuntimeError:
            self._free.release()
            raise
        return await future
