"""An agent that is a Python function: what it returns or yields becomes the events of a turn."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from .agents import Turn, load_events
from .errors import SuzentError
from .limits import Limits
from .text import clean_text

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

    from .events import Shaper

log = logging.getLogger("suzent_jupyter.agent")

_AHEAD = 16  # items a function in a thread may be ahead of who reads them
_LIMITS = Limits()
_FIELDS = frozenset(Turn.model_fields)
_END = object()


class FunctionAgent:
    """Runs turns with a function, which may be ``async`` or not, and a generator or not.

    Parameters
    ----------
    function : callable
        It gets what it asks for by name or annotation: ``message`` (or whatever its one parameter is called) is the
        prompt, ``turn: Turn`` the whole turn, and any field of :class:`~.agents.Turn`, such as ``history``, that field.
        It returns or yields text (each piece is a delta of one message), events of ``ag_ui.core`` or dicts that are
        such events; any other object is shown as ``str(object)``, and None as nothing.
    name : str, optional
        How people call the agent; the function's own name otherwise.

    Raises
    ------
    TypeError
        When it is no function, or needs a parameter that a turn does not have.
    ValueError
        For a name that can't be printed.

    Notes
    -----
    A function that is not ``async`` runs in a thread of its own, which sees the context variables of whoever runs the
    turn. A turn that is cancelled cancels a coroutine at its next ``await``; a generator ends at its next ``yield``,
    where :class:`GeneratorExit` is raised in it. A plain function that blocks can't be ended: nobody waits for it any
    more, and what it returns is dropped.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} is not a function.")
        own = getattr(function, "__name__", type(function).__name__)
        wanted = name if name is not None else "agent" if own == "<lambda>" else own
        self.name = clean_text(wanted, _LIMITS.name_chars)
        if not self.name:
            raise ValueError("An agent needs a name that can be printed.")
        self.function = function
        self.description = clean_text((inspect.getdoc(function) or "").partition("\n\n")[0], _LIMITS.description_chars)
        self._parameters = _parameters(function)
        self._is_async = _is_async(function)

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn; see :meth:`.agents.Agent.run`.

        Raises
        ------
        SuzentError
            ``agent_failed`` with the exception's type and first line; its traceback goes to the log
            ``suzent_jupyter.agent`` of this process.
        """
        await load_events()
        from .events import Shaper

        shaper = Shaper()
        try:
            async with aclosing(self._items(turn)) as items:
                async for item in items:
                    for event in self._shaped(shaper, item):
                        yield event
        except SuzentError:
            for event in shaper.end():
                yield event
            raise
        for event in shaper.end():
            yield event

    def _shaped(self, shaper: Shaper, item: Any) -> list[BaseEvent]:
        try:
            return shaper.take(item)
        except SuzentError:
            raise
        except Exception as error:  # of an object's own __str__
            raise self._failed(error) from None

    async def _items(self, turn: Turn) -> AsyncGenerator[Any]:
        """Give what the function gives, one by one."""
        positional, named = self._arguments(turn)
        try:
            if self._is_async:
                items = _each(self.function(*positional, **named))
            else:
                items = _in_thread(lambda: self.function(*positional, **named))
            async with aclosing(items):
                async for item in items:
                    yield item
        except _Raised as raised:
            raise self._failed(raised.error) from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise self._failed(error) from None  # something inside was cancelled, not the turn
        except Exception as error:
            raise self._failed(error) from None

    def _arguments(self, turn: Turn) -> tuple[list[Any], dict[str, Any]]:
        positional, named = [], {}
        for parameter, field in self._parameters:
            value = turn if field == "turn" else getattr(turn, field)
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        return positional, named

    def _failed(self, error: BaseException) -> SuzentError:
        log.error("Agent '%s' failed", self.name, exc_info=error.with_traceback(_outside(error)))
        first = next(iter(str(error).strip().splitlines()), "")
        text = clean_text(f"{type(error).__name__}: {first}" if first else type(error).__name__, 300)
        return SuzentError("agent_failed", f"{self.name} raised {text}")


class _Raised(Exception):  # noqa: N818
    """What a function in a thread raised; some of it can't be raised on an event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Unwanted(BaseException):
    """Nobody reads what this thread makes any more."""


async def _each(value: Any) -> AsyncGenerator[Any]:
    """Give a value, what it resolves to, or what it yields."""
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncIterable):
        try:
            async for item in value:
                yield item
        finally:
            close = getattr(value, "aclose", None)
            if close is not None:
                await close()
    elif isinstance(value, Iterator):
        async with aclosing(_in_thread(lambda: value)) as items:
            async for item in items:
                yield item
    else:
        yield value


async def _in_thread(call: Callable[[], Any]) -> AsyncGenerator[Any]:
    """Give what ``call`` returns in a thread, or what the iterator it returns gives there."""
    worker = _Worker(call)
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(worker.work,), daemon=True, name="suzent-agent-turn").start()
    try:
        while (item := await worker.next()) is not _END:
            if isinstance(item, _Returned):
                async with aclosing(_each(item.value)) as items:
                    async for each in items:
                        yield each
            else:
                yield item
    finally:
        worker.cancel()


class _Returned:
    """A value that was returned, not yielded: it may be a coroutine, or something that streams on the event loop."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Worker:
    """A function in its thread, at most a few items ahead of who reads them."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._cancelled = False

    async def next(self) -> Any:
        """Return the next item, ``_END`` at the end."""
        item = await self._items.get()
        self._room.release()
        if isinstance(item, _Raised):
            raise item
        return item

    def cancel(self) -> None:
        """Have the thread end at its next item."""
        self._cancelled = True
        self._room.release()

    # -- in the thread

    def work(self) -> None:
        """Run the function."""
        try:
            value = self._call()
            if isinstance(value, Iterator):
                self._pull(value)
            else:
                self._put(_Returned(value))
            self._put(_END)
        except _Unwanted:
            pass
        except BaseException as error:
            if not self._cancelled:
                with suppress(_Unwanted):
                    self._tell(_Raised(error))

    def _pull(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                self._put(item)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _put(self, item: Any) -> None:
        self._room.acquire()
        if self._cancelled:
            raise _Unwanted
        self._tell(item)

    def _tell(self, item: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
        except RuntimeError:
            raise _Unwanted from None  # the loop has ended, and with it whoever read


def _is_async(function: Any) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    return any(
        check(each)
        for each in (function, called)
        for check in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )


def _parameters(function: Any) -> list[tuple[inspect.Parameter, str]]:
    """Return which parameters get what of a turn: ``turn`` for all of it, else the name of a field."""
    found: list[tuple[inspect.Parameter, str]] = []
    skipped = False  # a parameter that keeps its default: no later one can be passed by position
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        field = _field(function, parameter, taken={field for _, field in found})
        if field is None:
            if parameter.default is parameter.empty:
                raise TypeError(
                    f"An agent has nothing for the parameter '{parameter.name}': there are message, turn, "
                    f"{', '.join(sorted(_FIELDS - {'message'}))}."
                )
            skipped = True
        elif skipped and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            found.append((parameter.replace(kind=parameter.KEYWORD_ONLY), field))
        elif not skipped or parameter.kind is parameter.KEYWORD_ONLY:
            found.append((parameter, field))
    return found


def _field(function: Any, parameter: inspect.Parameter, taken: set[str]) -> str | None:
    kind = parameter.annotation
    if isinstance(kind, str):
        try:
            kind = eval(kind, getattr(inspect.unwrap(function), "__globals__", {}))  # noqa: S307 - the author's own
        except Exception:  # imported for type checkers only
            kind = {"Turn": Turn, "str": str}.get(kind.rpartition(".")[2], kind)
    if kind is Turn or parameter.name == "turn":
        return "turn"
    if parameter.name in _FIELDS:
        return parameter.name
    may_be_text = kind is str or kind is parameter.empty
    if may_be_text and parameter.default is parameter.empty and not taken & {"message", "turn"}:
        return "message"
    return None


def _outside(error: BaseException) -> Any:
    """Return the traceback from the agent's own code on, without the way through this module."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None and place.tb_frame.f_code.co_filename == __file__:
        place = place.tb_next
    return place
