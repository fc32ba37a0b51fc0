"""One ``/ws/client`` socket in a background thread, shared by every call and subscription of this process.

Callers on any thread encode a frame, append it to a deque and wake the thread at most once for many frames; the thread
writes what has gathered in one go. Results are matched in the reader itself, and those for one event loop are handed
over together. So a call costs two thread crossings at worst, and a small share of one when many are in flight.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from ..protocol.errors import CLOSE_REFUSED, CLOSE_REVOKED
from ..protocol.limits import Limits
from . import wire
from .awake import awake
from .errors import CallTimeout, ConnectionLost, KernelError, Unauthorized, Unreachable, from_body
from .locate import OPEN_TIMEOUT, START_ONE, Locator, Target, refused, unreachable

if TYPE_CHECKING:
    from ..node.pin import Trust
    from .asking.asker import Asker

GRACE = 5.0  # s a new call waits for a gateway that has just gone, as one that restarts is back by then
OVERDUE = 15.0  # s past a call's deadline after which the gateway is not going to answer any more
BACKOFF = (0.2, 10.0)  # s, first and longest pause between attempts while somebody is subscribed
BATCH_BYTES = 1 << 20  # written at once; more would only sit in the transport's buffer
JOIN_BYTES = 1 << 17  # batches up to this size are copied into one write
_LIMITS = Limits()
_SLICE = 0.2 if os.name == "nt" else 1.0  # s; Windows delivers an interrupt only between waits
WATCH = 0.25  # s after which whoever waits for a call begins to look whether somebody must allow it first

# websockets logs request headers at DEBUG: the token must not get there whatever the root logger is set to.
_log = logging.getLogger("suzent_jupyter.kernel.socket")
_log.setLevel(logging.CRITICAL)

Outcome = wire.Incoming | KernelError
Progress = Callable[[Any], None]


class Service(Protocol):
    """What answers the gateway's own requests on this socket. All but ``wanted`` is called in the background thread."""

    def wanted(self) -> bool:
        """Tell whether the socket is to be kept open for it."""

    def greeting(self) -> list[bytes]:
        """Return the frames that a new socket begins with."""

    def receive(self, data: bytes) -> None:
        """Take a frame that answers no call; one that is another service's is left alone."""

    def lost(self) -> None:
        """Take note that the socket closed."""

    def unreachable(self, error: KernelError) -> None:
        """Take note that no socket can be had; it is tried again."""


class Call:
    """A call under way. ``frame`` is dropped once written, so that its parameters don't outlive that."""

    __slots__ = ("deadline", "deliver", "frame", "id", "progress", "since", "written")

    def __init__(
        self, number: int, deliver: Callable[[Outcome], None], progress: Progress | None, timeout: float
    ) -> None:
        self.id = number
        self.deliver = deliver
        self.progress = progress
        self.since = time.monotonic()
        self.deadline = self.since + timeout + OVERDUE
        self.frame = b""
        self.written = False


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc  # a redirect would carry the token to wherever it points


class Channel:
    """The socket, its thread, and what waits for it."""

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._calls: dict[int, Call] = {}
        self._out: deque[Call | bytes] = deque()
        # Whoever is asked about a call hears its number too, from wherever it came: ours are like nobody else's.
        self._numbers = itertools.count(secrets.randbits(50) + 1)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._awake = False
        self._closed = False
        self._process = os.getpid()
        self._wake: asyncio.Event | None = None
        self._up = False
        self._lost_at = float("-inf")
        self._listeners: dict[str, list[Callable[[str, str, Any], None]]] = {}
        self._seqs: dict[str, int] = {}
        self._handover: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
        self._handover_due = False
        self._services: list[Service] = []
        self.hello: wire.Incoming | None = None
        self.invoke_timeout = _LIMITS.invoke_timeout
        #: A call's deadline begins once somebody has allowed it, where it asks.
        self.permission_ttl = _LIMITS.permission_ttl

    # -- from any thread --------------------------------------------------------------------------------------

    def call(
        self, request: wire.Invoke, progress: Progress | None, watch: Callable[[int], Asker] | None = None
    ) -> wire.Incoming:
        """Call a node and wait; an interrupt cancels the call on the device.

        Progress is reported on the waiting thread, so that what it prints lands under the right cell.

        Parameters
        ----------
        watch : callable, optional
            Given the call's number once it has taken a while, returns what asks whoever waits for permission.
        """
        __tracebackhide__ = True
        inbox: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        put = inbox.put
        call = Call(
            next(self._numbers),
            lambda outcome: put((True, outcome)),
            (lambda frame: put((False, frame))) if progress else None,
            (request.timeout or self.invoke_timeout) + self.permission_ttl,
        )
        asker: Asker | None = None
        pause = _SLICE if watch is None else WATCH
        try:
            self._submit(call, request)
            while True:
                try:
                    last, item = inbox.get(timeout=pause)
                except Empty:
                    self._ensure_thread()
                    if watch is not None:
                        asker = asker or watch(call.id)
                        pause = asker.step()
                    continue
                if last:
                    return _unwrap(item)
                if progress:
                    progress(item)
        except BaseException:
            self.cancel(call)
            raise
        finally:
            if asker is not None:
                asker.close()

    async def acall(
        self, request: wire.Invoke, progress: Progress | None, watch: Callable[[int], Asker] | None = None
    ) -> wire.Incoming:
        """Call a node without blocking the running loop; cancelling the task cancels the call on the device."""
        __tracebackhide__ = True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        call = Call(
            next(self._numbers),
            lambda outcome: self._hand_over(loop, future, outcome),
            (lambda frame: _call_soon(loop, progress, frame)) if progress else None,
            (request.timeout or self.invoke_timeout) + self.permission_ttl,
        )
        watching = loop.call_later(WATCH, _watch, watch, call.id, future) if watch is not None else None
        try:
            self._submit(call, request)
            with awake():
                return _unwrap(await future)
        except BaseException:
            self.cancel(call)
            raise
        finally:
            if watching is not None:
                watching.cancel()

    def cancel(self, call: Call) -> None:
        """Stop a call; nothing is sent for one that is over or was never written."""
        if self._calls.pop(call.id, None) is not None and call.written and self._up:
            self._push(wire.encode({"type": "cancel", "id": call.id}))

    def subscribe(self, topic: str, listener: Callable[[str, str, Any], None]) -> None:
        """Call ``listener(topic, kind, item)`` in the background thread for every change, a snapshot first."""
        with self._lock:
            self._listeners.setdefault(topic, []).append(listener)
        if self._up:
            self._push(_subscription([topic]))
        else:
            self._notify()  # every topic is subscribed to when the socket opens

    def serve(self, service: Service) -> None:
        """Stay connected as long as ``service`` wants that, and give it what answers no call."""
        if service not in self._services:
            self._services = [*self._services, service]  # read in the background thread
        self._notify()

    def send(self, frame: bytes) -> None:
        """Send a frame of a service; dropped while there is no socket, since the next one starts with a greeting."""
        if self._up:
            self._push(frame)

    @property
    def unsent(self) -> int:
        """How many frames wait to be written."""
        return len(self._out)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` or :meth:`stop` was called."""
        return self._closed

    @property
    def connected(self) -> bool:
        """Whether the socket is open right now."""
        return self._up

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._closed = True
        self._notify()

    def close(self) -> None:
        """Close the socket and end the thread; calls under way fail."""
        thread = self._thread
        self.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)
        atexit.unregister(self.close)

    def _submit(self, call: Call, request: wire.Invoke) -> None:
        if self._closed:
            raise Unreachable("This connection was closed.", hint="Make a new one with `connect()`.")
        if os.getpid() != self._process:
            self._forked()
        request.id = call.id
        call.frame = wire.encode(request)
        self._calls[call.id] = call
        self._push(call)

    def _push(self, item: Call | bytes) -> None:
        self._out.append(item)
        if not self._awake:
            self._awake = True
            self._notify()

    def _notify(self) -> None:
        self._ensure_thread()
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                pass  # the loop has just ended

    def _forked(self) -> None:
        """Start afresh in a forked child: the calls in these tables are the parent's."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._calls, self._out, self._handover, self._services = {}, deque(), {}, []
        self._thread, self._awake, self._handover_due = None, False, False

    def _ensure_thread(self) -> None:
        thread = self._thread
        if thread is not None and thread.is_alive():
            return
        with self._lock:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._loop, self._wake, self._up = None, None, False
            self._thread = threading.Thread(target=self._run, name="suzent-client", daemon=True)
            atexit.register(self.close)
            self._thread.start()

    # -- in the background thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._fail(
                self._calls.values(), Unreachable(f"The connection to the gateway ended: {type(error).__name__}.")
            )
        finally:
            self._up = False
            if self._closed:
                self._fail(self._calls.values(), Unreachable("This connection was closed.", hint=""))

    async def _main(self) -> None:
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._wake.set()  # whatever was pushed before the loop existed
        sweeper = asyncio.create_task(self._sweep())
        pause = BACKOFF[0]
        try:
            while not self._closed:
                if not self._calls and not self._listeners and not any(each.wanted() for each in self._services):
                    await self._idle(None)
                    continue
                try:
                    socket = await self._open()
                except KernelError as error:
                    waited = time.monotonic() - self._lost_at
                    if waited >= GRACE:
                        self._fail(self._calls.values(), error)
                        for service in self._services:
                            service.unreachable(error)
                    await self._idle(min(random.uniform(0, pause), GRACE) if waited >= GRACE else 0.2)  # noqa: S311
                    pause = min(pause * 2, BACKOFF[1])
                    continue
                pause = BACKOFF[0]
                await self._serve(socket)
                self._lost_at = time.monotonic()
                await asyncio.sleep(0.05)  # a gateway that accepts and hangs up must not make this spin
        finally:
            sweeper.cancel()

    async def _idle(self, seconds: float | None) -> None:
        """Wait until somebody calls, at most ``seconds``."""
        assert self._wake is not None
        self._awake = False
        if self._calls and seconds is not None:
            await asyncio.sleep(min(seconds, 0.2))  # calls wait: try again soon
            return
        self._wake.clear()
        if self._closed or self._calls:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _open(self) -> ClientConnection:
        target = self._locator.target
        try:
            return await self._open_at(target)
        except (Unauthorized, Unreachable) as error:
            moved = self._locator.again(target)
            if moved is None:
                raise error from None
        return await self._open_at(moved)

    async def _open_at(self, target: Target) -> ClientConnection:
        socket: ClientConnection | None = None
        trust: Trust | None = None
        secured: dict[str, Any] = {}
        if target.is_secure or target.pin:
            trust = await asyncio.to_thread(self._locator.trust, target)
            if trust is not None:
                secured["ssl"] = await asyncio.to_thread(trust.context)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                socket = await _Connect(
                    target.socket_url,
                    additional_headers=target.headers,
                    compression=None,
                    proxy=None if target.is_loopback else True,
                    max_size=2 * _LIMITS.socket_bytes,
                    max_queue=1024,
                    ping_interval=20,
                    ping_timeout=20,
                    close_timeout=1,
                    open_timeout=None,
                    logger=_log,
                    **secured,
                )
                if trust is not None and trust.is_news:
                    await asyncio.to_thread(trust.proved)
                hello = wire.read(await socket.recv(decode=False))
            if hello.type == "error":
                raise from_body(wire.decode(wire.encode(hello)), hello.status or 0)
            self._greet(hello)
            return socket
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise refused(target, status) from None
            raise Unreachable(
                f"{target.url} answers {status}: that is not a gateway of devices, or it is not ready.", hint=START_ONE
            ) from None
        except (OSError, InvalidHandshake, InvalidURI, ConnectionClosed, msgspec.DecodeError) as error:
            code = error.rcvd.code if isinstance(error, ConnectionClosed) and error.rcvd else None
            if code is not None and code in (CLOSE_REFUSED, CLOSE_REVOKED):
                raise refused(target, code) from None
            raise unreachable(target, error) from None
        finally:
            if socket is not None and not self._up:
                await socket.close()

    def _greet(self, hello: wire.Incoming) -> None:
        self.hello = hello
        try:
            limits = wire.decode(hello.limits)
            self.invoke_timeout = float(limits["invoke_timeout"])
            self.permission_ttl = float(limits["permission_ttl"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            pass
        self._up = True

    async def _serve(self, socket: ClientConnection) -> None:
        """Read and write until the socket closes, for whatever reason: the next one subscribes again."""
        assert self._wake is not None
        self._seqs.clear()
        if self._listeners:
            self._out.appendleft(_subscription(list(self._listeners)))
        for service in self._services:
            self._out.extendleft(reversed(service.greeting()))
        self._wake.set()
        writer = asyncio.create_task(self._write(socket))
        try:
            while True:
                self._receive(await socket.recv(decode=False))
        except ConnectionClosed:
            pass
        finally:
            self._up = False
            for service in self._services:
                service.lost()
            writer.cancel()
            await socket.close()
            self._drop_written()

    async def _write(self, socket: ClientConnection) -> None:
        assert self._wake is not None
        send, out = socket.protocol.send_text, self._out
        while socket.state is State.OPEN:
            await self._wake.wait()
            self._wake.clear()
            self._awake = False  # before the deque is read: what comes later wakes us again
            if self._closed:
                await socket.close()
                return
            while out:
                size = 0
                try:
                    async with socket.send_context():
                        while out and size < BATCH_BYTES:
                            item = out.popleft()
                            if isinstance(item, Call):
                                if item.id not in self._calls:
                                    continue  # cancelled before it was sent
                                item.written = True
                                frame, item.frame = item.frame, b""
                            else:
                                frame = item
                            send(frame)
                            size += len(frame)
                        if size < JOIN_BYTES:
                            # One write for the whole batch; the connection itself would make one for each frame,
                            # and system calls are what a small call mostly costs.
                            socket.transport.write(b"".join(socket.protocol.data_to_send()))
                except ConnectionClosed:
                    return  # the reader deals with it

    def _receive(self, data: bytes) -> None:
        try:
            frame = wire.read(data)
        except msgspec.DecodeError:
            return
        if frame.type == "result":
            call = self._calls.pop(frame.id, None)
            if call is not None:
                call.deliver(frame if frame.code is None else _refusal(data, frame))
        elif frame.type == "progress":
            call = self._calls.get(frame.id)
            if call is not None and call.progress is not None:
                call.progress(frame)
        elif frame.type == "change":
            self._change(frame)
        else:
            for service in self._services:
                service.receive(data)

    def _change(self, frame: wire.Incoming) -> None:
        topic = frame.topic
        if frame.kind != "snapshot" and frame.seq != self._seqs.get(topic, -2) + 1:
            self._seqs.pop(topic, None)
            self._push(_subscription([topic]))  # something was missed
            return
        self._seqs[topic] = frame.seq
        item = wire.decode(frame.item)
        for listener in list(self._listeners.get(topic, ())):
            try:
                listener(topic, frame.kind, item)
            except Exception:
                logging.getLogger(__name__).exception("a listener for %s failed", topic)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome) -> None:
        """Collect results for ``loop``; all that this read brought are delivered with one wake-up."""
        self._handover.setdefault(loop, []).append((future, outcome))
        if not self._handover_due and self._loop is not None:
            self._handover_due = True
            try:
                self._loop.call_soon(self._flush_handover)
            except RuntimeError:
                self._flush_handover()

    def _flush_handover(self) -> None:
        self._handover_due = False
        due, self._handover = self._handover, {}
        for loop, items in due.items():
            _call_soon(loop, _resolve, items)

    def _drop_written(self) -> None:
        """Fail what the lost socket carried; what was not written yet goes out with the next one."""
        lost = [call for call in list(self._calls.values()) if call.written]
        self._fail(
            lost,
            ConnectionLost(
                "The connection to the gateway broke during the call: whether the device carried it out is unknown.",
                hint="`%suzent audit` shows what arrived.",
                retryable=False,
            ),
        )
        while self._out and isinstance(self._out[0], bytes):
            self._out.popleft()

    def _fail(self, calls: Any, error: KernelError) -> None:
        for call in list(calls):
            if self._calls.pop(call.id, None) is not None:
                call.deliver(error)
        if not self._calls:
            self._out.clear()

    async def _sweep(self) -> None:
        """Fail calls the gateway has forgotten, so that nothing waits for ever."""
        while True:
            await asyncio.sleep(5)
            now = time.monotonic()
            overdue = [call for call in list(self._calls.values()) if call.deadline < now]
            for call in overdue:
                self.cancel(call)
                call.deliver(CallTimeout("The gateway did not answer the call, long past its deadline."))


def _subscription(topics: list[str]) -> bytes:
    return wire.encode({"type": "subscribe", "topics": topics})


def _refusal(data: bytes, frame: wire.Incoming) -> KernelError:
    body = {key: value for key, value in wire.decode(data).items() if key not in ("type", "id", "success", "result")}
    return from_body(body, frame.status or 0)


def _unwrap(outcome: Outcome) -> wire.Incoming:
    if isinstance(outcome, KernelError):
        # One error may end many calls: each raises its own copy, so that tracebacks don't pile up on a shared one.
        raise outcome.copy() from None
    return outcome


def _resolve(items: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in items:
        if not future.done():
            future.set_result(outcome)


def _watch(watch: Callable[[int], Asker], number: int, future: asyncio.Future[Any]) -> None:
    """Ask whoever awaits a call that takes a while, until it is over."""
    if not future.done():
        task = asyncio.ensure_future(watch(number).attend())
        future.add_done_callback(lambda _: task.cancel())


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        pass  # that loop has ended, and with it whoever waited
