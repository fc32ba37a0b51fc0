"""The calls one connection works on: side by side, each with its deadline, its progress and exactly one answer."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from websockets.exceptions import ConnectionClosed

from ..protocol.text import clean_text
from ..protocol.wire import encode
from .call_files import CallFiles
from .capability import Capability
from .dialect import DeviceDialect, Dialect
from .fetching import Fetcher
from .progress import CallCancelled, Progress, current_call
from .results import ResultError, is_small, to_wire
from .signature import ParameterError
from .threads import Threads

log = logging.getLogger(__name__)

#: The code of what a capability's own function raised.
FAILED = "capability_failed"
_ERROR_CHARS = 2000
_LONGEST = 86400.0  # seconds; a whole number may be one that no float can hold
_CLOSE_PATIENCE = 2.0  # seconds for coroutines to tidy up after a lost connection

Value = TypeVar("Value")

Send = Callable[[bytes], Awaitable[None]]
#: Called after each call with command, seconds and, where it failed, the error.
OnCall = Callable[[str, float, str | None], None]


class Call:
    """One call under way."""

    def __init__(
        self, request_id: str, send: Send, dialect: Dialect, *, frame_limit: int, progress_interval: float | None
    ) -> None:
        self.request_id = request_id
        self.dialect = dialect
        self.cancelled = False
        self.interruptible = False
        self.task: asyncio.Task[None] | None = None
        self.files: CallFiles | None = None
        self._send = send
        self._frame_limit = frame_limit
        self._interval = progress_interval
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._latest: dict[str, Any] | None = None
        self._seq = 0
        self._pumping = False
        self._pump_task: asyncio.Task[None] | None = None

    def report(self, payload: dict[str, Any]) -> None:
        """Send a progress frame soon, from any thread; a newer one takes the place of one not yet sent."""
        if self._interval is None:
            return
        with self._lock:
            self._latest = payload
            if self._pumping:
                return
            self._pumping = True
        try:
            self._loop.call_soon_threadsafe(self._start_pump)
        except RuntimeError:
            pass  # the loop is gone

    async def agent_event(self, event: bytes) -> None:
        """Send an event of a turn, given as JSON; nothing to a gateway that does not know these frames.

        Raises
        ------
        ResultError
            When it is larger than a frame may be.
        """
        if len(event) + 256 > self._frame_limit:  # before it is numbered
            raise ResultError(f"An event of {len(event):,} bytes is more than this gateway takes in one frame.")
        if (frame := self.dialect.event(event)) is not None:
            await self._send(frame)

    def _start_pump(self) -> None:
        self._pump_task = self._loop.create_task(self._pump(self._interval or 0.0))

    async def _pump(self, interval: float) -> None:
        try:
            sent = await self.flush_progress()
            while sent:
                await asyncio.sleep(interval)
                sent = await self.flush_progress()
        except ConnectionClosed:
            pass  # the answer will find out too

    async def flush_progress(self) -> bool:
        """Send the newest report if it has not been sent; tell whether there was one."""
        with self._lock:
            payload, self._latest = self._latest, None
            if payload is None:
                self._pumping = False
                return False
            seq, self._seq = self._seq, self._seq + 1
        if "data" in payload and len(encode(payload)) + 256 > self._frame_limit:
            payload = {"fraction": payload.get("fraction")}
        await self._send(self.dialect.progress(seq, payload))
        return True

    def close(self) -> None:
        """Send no more progress."""
        with self._lock:
            self._latest, self._pumping = None, True
        if self._pump_task is not None:
            self._pump_task.cancel()
        if self.files is not None:
            self._loop.run_in_executor(None, self.files.remove)


class Calls:
    """Runs capabilities for one connection.

    Parameters
    ----------
    send : callable
        Sends one frame.
    threads : Threads
        Where functions that block run.
    frame_limit : int
        Bytes a result frame may have.
    progress_interval : float, optional
        Seconds between two progress frames of a call; None sends none.
    events : bool
        Whether the gateway takes the events of turns.
    on_call : callable, optional
        Hears of each finished call.
    fetcher : Fetcher, optional
        Gets the files that parameters refer to; they stay references otherwise.
    """

    def __init__(
        self,
        send: Send,
        threads: Threads,
        *,
        frame_limit: int,
        progress_interval: float | None = 0.1,
        events: bool = False,
        on_call: OnCall | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._send = send
        self._threads = threads
        self._frame_limit = frame_limit
        self._interval = progress_interval
        self._events = events
        self._on_call = on_call
        self._closed = False
        self._running: dict[str, Call] = {}

    def start(self, frame: dict[str, Any], known: Mapping[str, Capability], dialect: Dialect | None = None) -> None:
        """Begin the call of an ``invoke`` frame; one that can't be answered (no ``request_id``) is ignored.

        Parameters
        ----------
        frame : dict
            ``request_id``, ``command``, ``params``, ``timeout`` in seconds, and ``artifacts``, the absolute addresses
            of files that are the gateway's own word.
        known : mapping
            Name → capability.
        dialect : Dialect, optional
            How what the call says is written; as on ``/ws/node`` otherwise.
        """
        request_id = frame.get("request_id")
        if not isinstance(request_id, str) or request_id in self._running:
            log.debug("An invoke without an id of its own was ignored.")
            return
        call = Call(
            request_id,
            self._send,
            dialect or DeviceDialect(request_id, events=self._events),
            frame_limit=self._frame_limit,
            progress_interval=self._interval,
        )
        self._running[request_id] = call
        call.task = asyncio.get_running_loop().create_task(self._answer(call, frame, known))

    def cancel(self, request_id: Any) -> None:
        """Tell a call that nobody waits: a coroutine is cancelled, a thread hears it at its next ``progress()``."""
        call = self._running.get(request_id) if isinstance(request_id, str) else None
        if call is None or call.cancelled:
            return
        call.cancelled = True
        if call.task is not None and call.interruptible:
            call.task.cancel()

    async def close(self) -> None:
        """End every call without an answer: the connection is gone."""
        self._closed = True
        tasks = []
        for call in self._running.values():
            call.cancelled = True
            if call.task is not None:
                call.task.cancel()
                tasks.append(call.task)
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_PATIENCE)

    async def _answer(self, call: Call, frame: dict[str, Any], known: Mapping[str, Capability]) -> None:
        started = time.monotonic()
        command = frame.get("command")
        command = command if isinstance(command, str) else ""
        current_call.set(call)
        try:
            answer, error = await self._outcome(call, command, frame, known)
            if not self._closed:
                await self._send(answer)
        except ConnectionClosed:
            error = "the connection was lost"
        except asyncio.CancelledError:
            error = "the connection was lost"
            raise
        finally:
            call.close()
            self._running.pop(call.request_id, None)
            self._tell(command, time.monotonic() - started, error)

    async def _outcome(
        self, call: Call, command: str, frame: dict[str, Any], known: Mapping[str, Capability]
    ) -> tuple[bytes, str | None]:
        seconds = _timeout(frame.get("timeout"))
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await self._run(call, command, frame, known), None
        except asyncio.CancelledError:
            if self._closed or not call.cancelled:
                raise
            code, error = "cancelled", "The call was cancelled."
        except CallCancelled:
            code, error = "cancelled", "The call was cancelled."
        except (ParameterError, ResultError) as problem:
            code, error = problem.code, str(problem)
        except (Exception, SystemExit) as problem:
            if isinstance(problem, TimeoutError) and deadline.expired():
                code, error = "deadline", f"It took longer than the {seconds:.3g} s this call had."
            else:
                log.info("%s failed", command, exc_info=True)
                code, error = FAILED, f"{type(problem).__name__}: {problem}"
            call.cancelled = True  # a thread that still works on it hears so
        error = to_wire(error)[:_ERROR_CHARS]
        await call.flush_progress()  # before the end gets its number, where events have one
        return call.dialect.failure(error, code), error

    async def _run(self, call: Call, command: str, frame: dict[str, Any], known: Mapping[str, Capability]) -> bytes:
        capability = known.get(command)
        if capability is None:
            names = ", ".join(known) or "nothing"
            raise ParameterError(
                f"Unknown command: {clean_text(command, 128)!r}; this device offers: {names}.", "unknown_command"
            )
        params = frame.get("params")
        if not isinstance(params, dict | None):
            raise ParameterError("The parameters must be one JSON object.")
        if call.cancelled:  # before it began
            raise CallCancelled
        bind = functools.partial(capability.signature.bind, params or {}, Progress(call))
        if await self._lay_down(call, capability, params, frame.get("artifacts")):
            positional, named = await self._threads.run(bind)  # it may read them
        else:
            positional, named = bind()
        function = functools.partial(capability.function, *positional, **named)
        if capability.is_async:
            value = await self._interruptible(call, function())
        else:
            value = await self._threads.run(lambda: self._work(call, function))
            if isinstance(value, _Done):
                await call.flush_progress()
                return value.frame
            value = await self._interruptible(call, value)
        await call.flush_progress()
        if is_small(value):
            return call.dialect.result(value, self._frame_limit)
        return await self._threads.run(lambda: call.dialect.result(value, self._frame_limit))

    async def _lay_down(
        self, call: Call, capability: Capability, params: dict[str, Any] | None, addresses: Any
    ) -> bool:
        """Fetch the files of a call; tell whether there are any."""
        if not params or self._fetcher is None:
            return False
        vouched = frozenset(each for each in addresses if isinstance(each, str)) if isinstance(addresses, list) else ()
        look = functools.partial(CallFiles, self._fetcher, params, capability.signature, vouched)
        files = look() if is_small(params) else await self._threads.run(look)
        if not files.places:
            return False
        call.files = files
        await self._interruptible(
            call, files.lay_down(lambda fraction, message: call.report({"fraction": fraction, "message": message}))
        )
        return True

    def _work(self, call: Call, function: Callable[[], Any]) -> Any:
        if call.cancelled:
            raise CallCancelled
        value = function()
        # Encoded where it was made: a large frame or image takes its time, and the event loop has none.
        return value if inspect.isawaitable(value) else _Done(call.dialect.result(value, self._frame_limit))

    async def _interruptible(self, call: Call, work: Awaitable[Value]) -> Value:
        """Await the capability's own coroutine, which a cancel frame may interrupt; nothing else of a call is."""
        call.interruptible = True
        try:
            return await work
        finally:
            call.interruptible = False

    def _tell(self, command: str, seconds: float, error: str | None) -> None:
        if self._on_call is not None:
            try:
                self._on_call(command, seconds, error)
            except Exception:
                log.exception("The callback for finished calls failed")


class _Done(NamedTuple):
    """A result that is encoded already."""

    frame: bytes


def _timeout(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        return None
    return float(min(value, _LONGEST))
