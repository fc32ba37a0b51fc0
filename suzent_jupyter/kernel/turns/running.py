"""An answer that is waited for: read event by event, shown, and stopped where whoever waits is interrupted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..awake import awake
from ..errors import KernelError
from .answer import Answer

if TYPE_CHECKING:
    from ...protocol.sse import Event
    from ..asking.asker import Asker
    from .live import NotebookView, TerminalView

T = TypeVar("T")
Record = dict[str, Any]

STOP_TIMEOUT = 5.0  # s an interrupted cell waits for the other side to stop
_LOOK = 1.0  # s


class Stream(Protocol):
    """The events of one turn."""

    def take(self, timeout: float | None = None) -> Event | None:
        """Return the next event, None after the last one; ``TimeoutError`` if none came in time."""

    def leave(self) -> None:
        """Stop listening; the turn itself goes on."""


class Running:
    """One turn; :meth:`run` waits for its end, on any thread."""

    #: Asks whoever waits for permission, where something may need it.
    asker: Asker | None = None

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._left = threading.Event()

    def open(self) -> Stream:
        """Ask; return what the answer comes in by."""
        raise NotImplementedError

    def stop(self) -> str:
        """Tell the other side to stop, and return what came of that as a sentence."""
        raise NotImplementedError

    def took(self, event: Record) -> None:
        """Do what is to be done after an event was added to the answer."""

    def run(
        self, on_event: Callable[[Record], None] | None = None, view: NotebookView | TerminalView | None = None
    ) -> Answer:
        """Ask, and return the answer when it is complete; also one that ended in an error.

        Raises
        ------
        KernelError
            The request was refused, or the connection to our own gateway is lost for good.
        KeyboardInterrupt
            After the other side was told to stop.
        """
        __tracebackhide__ = True
        answer, began, asker = self.answer, time.perf_counter(), self.asker
        if asker is not None and view is not None:
            asker.say = view.note
        stream: Stream | None = None
        note = ""
        try:
            stream = self.open()
            while not answer.is_over and not self._left.is_set():
                look = _LOOK if asker is None else asker.step()
                try:
                    event = stream.take(min(view.due(), look) if view else look)
                except TimeoutError:
                    if view:
                        view.draw()
                    continue
                if event is None:
                    break
                answer.take(event.data)
                self.took(event.data)
                if view:
                    view.changed(event.data)
                if on_event:
                    on_event(event.data)
        except KeyboardInterrupt as interrupt:
            note = "Stopped here."
            said = self.stop()
            interrupt._render_traceback_ = lambda: [said]  # type: ignore[attr-defined]
            raise
        except KernelError:
            note = "The answer broke off here." if answer.chars else ""
            raise
        finally:
            if stream is not None:
                stream.leave()
            answer.seconds = time.perf_counter() - began
            if asker is not None:
                asker.close()
            if view:
                view.finish(note)
        return answer

    async def arun(self, on_event: Callable[[Record], None] | None = None) -> Answer:
        """Ask without blocking the event loop; cancelling the task stops the turn over there."""
        __tracebackhide__ = True
        loop = asyncio.get_running_loop()
        stopping = False

        def report(event: Record) -> None:
            if on_event is not None and not stopping:
                loop.call_soon_threadsafe(on_event, event)

        # Who waits is asked here, beside the loop's other work, and not on the thread.
        asker, self.asker = self.asker, None
        attending = asyncio.ensure_future(asker.attend()) if asker is not None else None
        try:
            return await on_thread(partial(self.run, report))
        except asyncio.CancelledError:
            stopping = True
            try:
                # It is listened to until it has said that it ended; only then does nobody listen any more.
                await asyncio.shield(on_thread(self.stop))
            finally:
                self._left.set()
            raise
        finally:
            if attending is not None:
                attending.cancel()
                await asyncio.wait([attending])


async def on_thread(function: Callable[[], T]) -> T:
    """Run ``function`` on a thread of its own: turns take minutes, and asyncio's own threads are few."""
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        __tracebackhide__ = True
        result, problem = None, None
        try:
            result = function()
        except BaseException as error:
            problem = error
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            pass  # that loop has ended, and with it whoever waited

    threading.Thread(target=work, name="suzent-work", daemon=True).start()
    with awake():
        return await future
