"""A notebook's function as the gateway's agent: ``@sz.agent``."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..node.agent import agent as declare_on_device
from ..node.agent import is_device
from ..node.progress import current_call
from ..protocol.agents import Turn, load_events
from ..protocol.client import AgentRegister, AgentUnregister
from ..protocol.errors import SuzentError
from ..protocol.function_agent import FunctionAgent
from . import wire
from .errors import KernelError, Unreachable, from_body
from .locate import START_ONE
from .plain import shell

if TYPE_CHECKING:
    from .channel import Channel
    from .gateway import Gateway

Function = TypeVar("Function", bound=Callable[..., Any])

TURNS = 8  # at once in one process; further ones wait
PATIENCE = 10.0  # s for the gateway to confirm a registration
_SLICE = 0.2  # s; Windows delivers an interrupt only between waits
_UNSENT = 256  # frames; a function that gives more waits until they are written

log = logging.getLogger("suzent_jupyter.agent")


class AgentDecorator:
    """Makes a function of this notebook the gateway's agent, as long as the kernel lives.

    ``@sz.agent``, ``@sz.agent(name="…")`` and ``sz.agent(function)`` all do; the function stays an ordinary one and
    gets a method ``unregister()``. What it may ask for and give is said at
    :class:`~suzent_jupyter.protocol.function_agent.FunctionAgent`. The newest agent of an account is asked; running
    the cell again takes the place of the former function of that name.

    Turns run beside the cells, up to 8 at once: an ``async`` function on an event loop in a thread of its own, any
    other in a thread for each turn. So the agent answers also while a cell runs, and must expect that. It is not on
    the notebook's own event loop, so objects bound to that one can't be awaited here. What it prints lands, where
    ipykernel can tell, under the cell that registered it; so does a failure's traceback, which goes to the log
    ``suzent_jupyter.agent``.

    In a module that ``jupyter suzent node host`` loads, the function becomes that device's agent instead.
    """

    def __init__(self) -> None:
        self._registered: dict[str, tuple[Gateway, Any]] = {}
        self._found: Gateway | None = None

    @overload
    def __call__(self, function: Function, /, *, gateway: Gateway | None = None) -> Function: ...
    @overload
    def __call__(
        self, /, *, name: str | None = None, gateway: Gateway | None = None
    ) -> Callable[[Function], Function]: ...
    def __call__(self, function: Any = None, /, *, name: str | None = None, gateway: Gateway | None = None) -> Any:
        """Register a function.

        Parameters
        ----------
        name : str, optional
            How people call the agent; the function's own name otherwise.
        gateway : Gateway, optional
            The gateway; by default the one that ``%suzent`` uses, else what ``connect()`` finds.

        Raises
        ------
        TypeError, ValueError
            For a function or name that can't be an agent's.
        KernelError
            No gateway confirmed it.
        """
        if function is None:
            return lambda later: self._register(later, name, gateway)
        return self._register(function, name, gateway)

    def stop(self, name: str | None = None) -> None:
        """End the agent of this name, or all of this notebook; turns under way are finished."""
        for each in [name] if name is not None else list(self._registered):
            gateway, _ = self._registered.pop(each, (None, None))
            if gateway is not None:
                gateway._agents.unregister(each)

    @property
    def names(self) -> list[str]:
        """The agents of this notebook, oldest first."""
        return list(self._registered)

    def move(self, old: Gateway, new: Gateway) -> None:
        """Register with another gateway what was registered with ``old``; ``%suzent use`` does."""
        for name, (gateway, function) in list(self._registered.items()):
            if gateway is old:
                self.stop(name)
                self._register(function, name, new)

    def _register(self, function: Any, name: str | None, gateway: Gateway | None) -> Any:
        if is_device():
            return declare_on_device(function) if name is None else declare_on_device(name=name)(function)
        made = FunctionAgent(function, name)
        chosen = gateway or self._gateway()
        try:
            former, _ = self._registered.pop(made.name, (None, None))
            if former is not None and former is not chosen:
                former._agents.unregister(made.name)
            chosen._agents.register(made)
        except KernelError as error:
            raise _quiet(error) from None
        self._registered[made.name] = (chosen, function)
        try:
            function.unregister = lambda: self._end(made.name, function)
        except AttributeError:
            pass  # a bound method or an object with slots: `sz.agent.stop(name)` ends it
        return function

    def _end(self, name: str, function: Any) -> None:
        _, registered = self._registered.get(name, (None, None))
        if registered is function:  # not one that took its place
            self.stop(name)

    def _gateway(self) -> Gateway:
        magics = getattr(shell(), "suzent_magics", None)
        if magics is not None:
            found: Gateway = magics.gateway()
            return found
        if self._found is None or self._found._channel.closed:
            from .gateway import connect

            self._found = connect()
        return self._found


def _quiet(error: KernelError) -> SuzentError:
    if "IPython" not in sys.modules:
        return error
    from .magics import quiet

    return quiet(error)


#: ``sz.agent``.
agent = AgentDecorator()


class _Entry:
    """An agent, the context of the cell that registered it, and what the gateway said to it."""

    def __init__(self, made: FunctionAgent) -> None:
        self.agent = made
        self.context = contextvars.copy_context()
        self.answered = threading.Event()
        self.error: KernelError | None = None

    def frame(self) -> bytes:
        made = self.agent
        return AgentRegister(id=made.name, name=made.name, description=made.description).encode()

    def fail(self, error: KernelError) -> None:
        if not self.answered.is_set():
            self.error = error
            self.answered.set()


class _TurnCall:
    """What ``progress()`` finds inside a turn: nobody is told, but a cancelled turn ends there."""

    cancelled = False

    def report(self, payload: dict[str, Any]) -> None:
        """Tell nobody."""

    async def agent_event(self, event: bytes) -> None:
        """Send nothing."""


class Agents:
    """The agents of this process on one gateway's socket, and the thread that runs their turns.

    Parameters
    ----------
    channel : Channel
        The socket. It stays open as long as there is an agent, and each time it opens anew all register again.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._entries: dict[str, _Entry] = {}  # by name, oldest first
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None

    # -- from any thread

    def register(self, made: FunctionAgent) -> None:
        """Have the gateway ask this agent, in the place of a former one of its name.

        Raises
        ------
        KernelError
            The gateway refused it, or did not confirm it in time.
        """
        if self._channel.closed:
            raise Unreachable("This connection was closed.", hint="Make a new one with `connect()`.")
        self._start()
        entry = _Entry(made)
        self._entries.pop(made.name, None)
        self._entries[made.name] = entry
        self._channel.serve(self)
        self._channel.send(entry.frame())
        end = time.monotonic() + PATIENCE
        try:
            while not entry.answered.wait(_SLICE):
                if time.monotonic() > end:
                    raise Unreachable(f"The gateway did not confirm the agent within {PATIENCE:g} s.", hint=START_ONE)
            if entry.error is not None:
                raise entry.error.copy() from None
        except BaseException:
            if self._entries.get(made.name) is entry:
                self.unregister(made.name)
            raise

    def unregister(self, name: str) -> None:
        """Take no more turns for an agent; those under way are finished."""
        if self._entries.pop(name, None) is not None:
            self._channel.send(AgentUnregister(id=name).encode())

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._loop = loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(TURNS)
        threading.Thread(target=loop.run_forever, daemon=True, name="suzent-agents").start()

    # -- in the channel's thread

    def wanted(self) -> bool:
        """Tell whether there is an agent, or a turn to finish."""
        return bool(self._entries or self._turns)

    def greeting(self) -> list[bytes]:
        """Return the registrations, the newest last."""
        return [entry.frame() for entry in list(self._entries.values())]

    def receive(self, data: bytes) -> None:
        """Take a frame ``agent.*``, or an error about a registration."""
        frame = wire.decode(data)
        match frame.get("type"):
            case "agent.registered":
                entry = self._entries.get(frame.get("id"))
                if entry is not None:
                    entry.answered.set()
            case "error":
                entry = self._entries.get(frame.get("id"))
                if entry is not None:
                    body = {key: value for key, value in frame.items() if key not in ("type", "id", "message")}
                    entry.fail(from_body({"error": frame.get("message"), **body}, 0))
            case "agent.turn":
                self._later(self._begin, frame)
            case "agent.cancel":
                self._later(self._cancel, frame.get("turn_id"))

    def lost(self) -> None:
        """Cancel all turns: nobody can hear them any more."""
        self._later(self._cancel_all)

    def unreachable(self, error: KernelError) -> None:
        """Fail what waits for its confirmation."""
        for entry in list(self._entries.values()):
            entry.fail(error)

    def _later(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- on the agents' own loop

    def _begin(self, frame: dict[str, Any]) -> None:
        turn_id = str(frame.get("turn_id"))
        entry = self._entries.get(str(frame.get("id")))
        if entry is None:
            self._done(turn_id, SuzentError("agent_gone", "The notebook has ended this agent."))
            return
        work = self._answer(turn_id, entry.agent, frame.get("turn"))
        assert self._loop is not None
        self._turns[turn_id] = task = self._loop.create_task(work, context=entry.context.copy())
        task.add_done_callback(lambda _: self._turns.pop(turn_id, None))

    def _cancel(self, turn_id: Any) -> None:
        task = self._turns.get(str(turn_id))
        if task is not None:
            task.cancel()

    def _cancel_all(self) -> None:
        for task in list(self._turns.values()):
            task.cancel()

    async def _answer(self, turn_id: str, made: FunctionAgent, turn: Any) -> None:
        call = _TurnCall()
        current_call.set(call)
        error: SuzentError | None = None
        assert self._slots is not None
        try:
            async with self._slots:
                await self._run(turn_id, made, Turn.model_validate(turn))
        except asyncio.CancelledError:
            call.cancelled = True
            raise
        except SuzentError as caught:
            error = caught
        except Exception:
            log.exception("A turn of agent '%s' failed", made.name)
            error = SuzentError("agent_failed", f"{made.name} failed.")
        self._done(turn_id, error)

    async def _run(self, turn_id: str, made: FunctionAgent, turn: Turn) -> None:
        await load_events()
        from ..protocol.events import write_event

        async with aclosing(made.run(turn)) as events:  # type: ignore[type-var]
            async for event in events:
                frame = {"type": "agent.event", "turn_id": turn_id, "event": wire.Raw(write_event(event))}
                self._channel.send(wire.encode(frame))
                while self._channel.unsent > _UNSENT:  # noqa: ASYNC110 - another thread empties it
                    await asyncio.sleep(0.002)

    def _done(self, turn_id: str, error: SuzentError | None) -> None:
        frame: dict[str, Any] = {"type": "agent.event", "turn_id": turn_id, "done": True}
        if error is not None:
            frame |= {"error": error.message, "code": error.code}
        self._channel.send(wire.encode(frame))
