"""A gateway as a Python object: its lists as frames, its nodes by name, and calls."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import wire
from .chatting import Chatting
from .errors import InvalidParams, NodeNotFound
from .finding import find_node
from .locate import Locator
from .mirror import Mirror
from .origin import Origin
from .pairing import Pairing
from .peering import Peering
from .permitting import Permitting
from .plain import one_line
from .rest import Rest
from .results import Result
from .values import jsonable, prepare

if TYPE_CHECKING:
    import pandas as pd

    from .agent import Agents
    from .asking.feed import Feed
    from .channel import Channel
    from .chats import Chats
    from .connections import Connection
    from .memory import Memory
    from .node import Node
    from .uploads import Uploads

Record = dict[str, Any]

_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is, as the device says.

    Attributes
    ----------
    seq : int
        Counts the reports of one call.
    fraction : float or None
        0 to 1.
    message : str or None
        One cleaned line.
    data : Any
        Whatever else the device sends with it.
    """

    seq: int
    fraction: float | None
    message: str | None
    data: Any


def connect(url: str | None = None, token: str | None = None, *, pin: str | None = None) -> Gateway:
    """Find the gateway and return it.

    Parameters
    ----------
    url : str, optional
        Such as ``http://127.0.0.1:25314``, or a pairing link. Without it: ``SUZENT_BASE_URL``, the server that
        started this kernel, the only running gateway of this user, the Hub's service prefix, in this order.
    token : str, optional
        ``szt_…``; may also stand in the URL as ``http://suzent:TOKEN@…``, or is known for a gateway of this user.
    pin : str, optional
        The key to expect at an ``https://`` URL, as its pairing link carries it. It is remembered, and checked from
        then on also where it is not named.

    Raises
    ------
    NoGateway
        None was found, or several without a way to choose. Nothing is sent before the first use.
    """
    gateway = Gateway(url, token, pin=pin)
    gateway.url  # noqa: B018 - finding none is an error here and not at some later call
    return gateway


class Gateway(Pairing, Peering, Chatting, Permitting):
    """The gateway that devices join; made by :func:`connect`.

    ``gateway["MyPhone"]`` is a connected node by name, id or unique id prefix. Methods block; ``ainvoke``,
    ``achat``, ``aroute`` and ``atrigger`` are asynchronous twins. All of it works in a notebook cell, where an event
    loop already runs, and on any thread.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, pin: str | None = None) -> None:
        self._locator = Locator(url, token, pin)
        self._rest = Rest(self._locator)
        self._origin = Origin()

    @cached_property
    def _channel(self) -> Channel:
        from .channel import Channel

        channel = Channel(self._locator)
        # Running `gw = connect()` again in a notebook must not leave the old one's thread and socket behind.
        weakref.finalize(self, channel.stop).atexit = False
        return channel

    @cached_property
    def _agents(self) -> Agents:
        from .agent import Agents

        return Agents(self._channel)

    @cached_property
    def _chats(self) -> Chats:
        from .chats import Chats

        return Chats(self._channel)

    @cached_property
    def memory(self) -> Memory:
        """What is kept for later: ``.query(words)``, ``.save(text)``, ``.forget(id)``, ``.export(file)``."""
        from .memory import Memory

        return Memory(self._rest)

    @cached_property
    def _feed(self) -> Feed:
        from .asking.feed import Feed

        return Feed(self._channel)

    @cached_property
    def _uploads(self) -> Uploads:
        from .uploads import Uploads

        return Uploads(self._rest)

    @cached_property
    def _mirror(self) -> Mirror:
        return Mirror(self._channel)

    # -- lists ------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Its address, without credentials."""
        return self._locator.target.url

    @property
    def nodes(self) -> pd.DataFrame:
        """Connected nodes; see :func:`.frames.nodes` for the columns."""
        from . import frames

        return frames.nodes(self.records("nodes"))

    @property
    def capabilities(self) -> pd.DataFrame:
        """Every command of every connected node; see :func:`.frames.capabilities`."""
        from . import frames

        return frames.capabilities(self.records("nodes"))

    @property
    def pending(self) -> pd.DataFrame:
        """Devices and new commands that wait for approval; see :func:`.frames.pending`."""
        from . import frames

        return frames.pending(self.records("pending"))

    @property
    def devices(self) -> pd.DataFrame:
        """Every device and token that was approved; see :func:`.frames.devices`."""
        from . import frames

        return frames.devices(self.records("devices"))

    @property
    def connections(self) -> pd.DataFrame:
        """The gateways this one has joined as a node; see :func:`.frames.connections`."""
        from . import frames

        return frames.connections(self.records("connections"))

    def audit(self, limit: int = 100, before: int | None = None) -> pd.DataFrame:
        """Who did what, newest first; see :func:`.frames.audit`.

        Parameters
        ----------
        limit : int
            Rows at most.
        before : int, optional
            Only entries older than the one of this id.
        """
        from . import frames

        return frames.audit(self._rest.get("/audit", limit=limit, before=before)["entries"])

    def discover(self, timeout: float | None = None) -> pd.DataFrame:
        """Look for other gateways on the local network and in the tailnet; see :func:`.frames.discovered`.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for answers, greater than 0; 3 by default, 10 at most.

        Notes
        -----
        What was found says who it is by itself; finding it approves nothing. ``frame.attrs["problems"]`` holds a line
        for each part that could not be searched, such as a machine without Tailscale.
        """
        from . import frames

        answer = self._rest.get("/nodes/discover", **({} if timeout is None else {"timeout": timeout}))
        frame = frames.discovered(answer)
        frame.attrs["problems"] = [one_line(each) for each in answer.get("problems", ())]
        return frame

    def records(self, kind: str) -> list[Record]:
        """Return ``nodes``, ``pending``, ``devices``, ``connections``, ``peers`` or ``grants`` as the gateway's own."""
        return self._rest.records(kind)

    def post(self, path: str, body: Any = None) -> Any:
        """Send JSON to one of the gateway's routes and return its answer."""
        return self._rest.post(path, body)

    # -- nodes and calls --------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Node:
        """Return a connected node.

        Raises
        ------
        NodeNotFound, NodeAmbiguous
            No node, or more than one, has this name, id or id prefix.
        """
        from .node import Node

        return Node(self, find_node(self.records("nodes"), name))

    def __iter__(self) -> Iterator[Node]:
        from .node import Node

        return iter([Node(self, info) for info in self.records("nodes")])

    def _ipython_key_completions_(self) -> list[str]:
        self._mirror.look()
        return [str(item.get("display_name", "")) for item in self._mirror.items("nodes")]

    def invoke(
        self,
        node: str,
        command: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Result:
        """Call a command of a node and wait for its result. Interrupting the cell cancels the call on the device.

        Parameters
        ----------
        node : str
            Name, id, or unique id prefix; or, where no node is called that, ``PEER`` or ``PEER/NODE``: a device of
            another gateway that we control.
        command : str
            Such as ``camera.snap``.
        params : dict, optional
            Anything with a sensible JSON: also bytes, frames, arrays, images, paths and times. Large bytes and
            :class:`~.uploads.File` are sent ahead, and the node fetches them.
        timeout : float, optional
            Seconds, greater than 0; 30 by default, 600 at most.
        idempotency_key : str, optional
            The same key and parameters within 5 minutes give the same result without a second call.
        on_progress : callable, optional
            Called with a :class:`Progress` on this thread for each report of the device.

        Returns
        -------
        Result
            Also where the device reports a failure (``success`` is false; using ``data`` raises ``CapabilityFailed``).

        Raises
        ------
        KernelError
            The call was refused or not answered; ``code`` says why. ``ConnectionLost`` if whether the device carried
            it out is unknown.
        """
        __tracebackhide__ = True  # of IPython: what is wrong with a call stands in the caller's own line
        started = time.perf_counter()
        sent = self._uploads.ready(params) if _may_hold_files(params) and self._uploads.needed(params) else params
        body, progress = _arguments(sent, timeout, on_progress)
        request = wire.Invoke(node, command, body, timeout, idempotency_key, self._origin.current())
        try:
            frame = self._channel.call(request, progress, self._watch_call())
        except NodeNotFound as missing:
            return self._invoke_elsewhere(missing, node, command, params, timeout, idempotency_key)
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise _unsendable(error) from None
        return Result(frame, node, command, time.perf_counter() - started)

    async def ainvoke(
        self,
        node: str,
        command: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline is the gateway's and the device's too
        idempotency_key: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Result:
        """Call a command without blocking the event loop; as :meth:`invoke`. Cancelling the task cancels the call."""
        __tracebackhide__ = True
        started = time.perf_counter()
        sent = await self._sent_ahead(params) if _may_hold_files(params) and self._uploads.needed(params) else params
        body, progress = _arguments(sent, timeout, on_progress)
        request = wire.Invoke(node, command, body, timeout, idempotency_key, self._origin.current())
        try:
            frame = await self._channel.acall(request, progress, self._watch_call())
        except NodeNotFound as missing:
            from .turns.running import on_thread

            error = missing
            return await on_thread(
                lambda: self._invoke_elsewhere(error, node, command, params, timeout, idempotency_key)
            )
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise _unsendable(error) from None
        return Result(frame, node, command, time.perf_counter() - started)

    async def _sent_ahead(self, params: Any) -> Any:
        """Send large files of a call on a thread of its own; cancelling the task ends that."""
        from .turns.running import on_thread

        left = threading.Event()
        try:
            return await on_thread(lambda: self._uploads.ready(params, shown=False, stopped=left.is_set))
        except asyncio.CancelledError:
            left.set()
            raise

    # -- settings ---------------------------------------------------------------------------------------------

    def config(self, **changes: Any) -> Record:
        """Return the gateway's configuration, after making ``changes`` (such as ``nodes_enabled=False``)."""
        if changes:
            return {**self._rest.get("/nodes/config"), **self._rest.post("/nodes/config", jsonable(changes))}
        answer: Record = self._rest.get("/nodes/config")
        return answer

    # -- joining other gateways -------------------------------------------------------------------------------

    def connect_to(self, url: str, name: str | None = None, capabilities: Sequence[str] | None = None) -> Connection:
        """Make this gateway a node of another gateway or Suzent server; takes 5 s at most where that one is slow.

        Parameters
        ----------
        url : str
            Its address or pairing link.
        name : str, optional
            This gateway's name there; its ``display_name`` otherwise.
        capabilities : sequence of str, optional
            Patterns such as ``camera.*`` of what to offer there; all that works on the gateway's machine otherwise.

        Returns
        -------
        Connection
            The gateway's record; ``pairing_code`` is for the other gateway's operator.

        Raises
        ------
        KernelError
            With code ``gateway_unreachable``, ``not_a_gateway``, ``gateway_refused`` or ``own_gateway``.
        """
        from .connections import Connection

        body: Record = {"gateway_url": url}
        if name is not None:
            body["name"] = name
        if capabilities is not None:
            body["capabilities"] = list(capabilities)
        return Connection(self._rest.post("/nodes/connect", body))

    def disconnect_from(self, url: str) -> Record:
        """Leave a gateway that was joined; returns ``{success, message}``. A second time drops it from the list."""
        answer: Record = self._rest.post("/nodes/connect/stop", {"gateway_url": url})
        return answer

    # -- the connection ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection; calls under way fail."""
        if "_channel" in self.__dict__:
            self._channel.close()
        self._rest.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "connected" if "_channel" in self.__dict__ and self._channel.connected else "not connected yet"
        return f"<Gateway {self.url} ({state})>"


def _may_hold_files(params: Any) -> bool:
    """Tell whether there is more than plain values: looking further costs an import on first use."""
    return isinstance(params, Mapping) and any(type(value) not in _PLAIN for value in params.values())


def _arguments(
    params: dict[str, Any] | None, timeout: float | None, on_progress: Callable[[Progress], None] | None
) -> tuple[Any, Callable[[wire.Incoming], None] | None]:
    if timeout is not None:
        from ..protocol.params import read_timeout

        read_timeout(timeout, 0, float("inf"))  # NaN and infinity would not survive JSON: refused here
    if on_progress is None:
        return prepare(params), None
    report = on_progress
    return prepare(params), lambda frame: report(
        Progress(
            frame.seq,
            frame.fraction,
            None if frame.message is None else one_line(frame.message, 500),
            wire.decode(frame.data),
        )
    )


def _unsendable(error: Exception) -> InvalidParams:
    return InvalidParams(
        f"The parameters can't be sent as JSON: {one_line(error)}.", hint="Pass numbers, text, lists and dicts."
    )


__all__ = ["Gateway", "Progress", "connect"]
