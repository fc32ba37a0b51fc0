"""A prompt for a peer's agent, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import KernelError, UsageError
from ..plain import one_line
from ..rest import segment
from .answer import Answer
from .remote_file import list_files
from .stream import TurnStream

if TYPE_CHECKING:
    from ..rest import Rest
    from .live import NotebookView, TerminalView

T = TypeVar("T")
Record = dict[str, Any]

STOP_TIMEOUT = 5.0  # s an interrupted cell waits for the other side to stop
_LOOK = 1.0  # s


class Turn:
    """One turn on a peer; :meth:`run` waits for its end, on any thread."""

    def __init__(self, rest: Rest, peer: Record, prompt: str, chat: str | None, files: Sequence[Any]) -> None:
        if not prompt.strip():
            raise UsageError("There is nothing to ask: the prompt is empty.", hint="Write it after the peer's name.")
        peer_id = str(peer["peer_id"])
        self._rest = rest
        self._path = f"/nodes/peers/{segment(peer_id)}"
        self._left = threading.Event()
        self._body: Record = {"prompt": prompt}
        self._chat: Record = {} if chat is None else {"chat_id": chat}
        if files:
            self._body["attachments"] = [attachment(path, rest.is_local) for path in files]
        self.name = one_line(peer.get("name"), 64) or peer_id
        self.answer = Answer(self.name, _find_files=lambda value: list_files(value, peer_id, self._rest.download))

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
        answer, began = self.answer, time.perf_counter()
        stream = TurnStream(self._rest, f"{self._path}/trigger", {**self._body, **self._chat})
        note = ""
        try:
            while not answer.is_over and not self._left.is_set():
                try:
                    event = stream.take(min(view.due(), _LOOK) if view else _LOOK)
                except TimeoutError:
                    if view:
                        view.draw()
                    continue
                if event is None:
                    break
                answer.take(event.data)
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
            stream.leave()
            answer.seconds = time.perf_counter() - began
            if view:
                view.finish(note)
        return answer

    def stop(self) -> str:
        """Tell the other side to stop, and return what came of that as a sentence."""
        try:
            self._rest.post(f"{self._path}/stop", self._chat, timeout=STOP_TIMEOUT)
        except KernelError as error:
            if error.code == "nothing_running":
                return f"Interrupted; the turn on {self.name} was over already."
            return f"Interrupted; whether the turn on {self.name} stopped is unknown: {error.line}"
        return f"Interrupted: the turn on {self.name} is stopped."

    async def arun(self, on_event: Callable[[Record], None] | None = None) -> Answer:
        """Ask without blocking the event loop; cancelling the task stops the turn over there."""
        loop = asyncio.get_running_loop()

        def report(event: Record) -> None:
            if on_event is not None:
                loop.call_soon_threadsafe(on_event, event)

        try:
            return await on_thread(lambda: self.run(report))
        except asyncio.CancelledError:
            self._left.set()
            await asyncio.shield(on_thread(self.stop))
            raise


def attachment(path: Any, is_local: bool) -> Record:
    """Return a file as the gateway wants it named: by its absolute path on the gateway's machine.

    Raises
    ------
    UsageError
        The gateway runs on this machine, and there is no such file.
    """
    if not is_local:
        return {"path": os.fspath(path)}
    found = Path(path).expanduser().absolute()
    if not found.is_file():
        raise UsageError(
            f"There is no file '{one_line(os.fspath(path), 300)}'.", hint="Name a file on the gateway's machine."
        )
    return {"path": str(found)}


async def on_thread(function: Callable[[], T]) -> T:
    """Run ``function`` on a thread of its own: turns take minutes, and asyncio's own threads are few."""
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
    return await future
