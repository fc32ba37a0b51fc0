"""A device: it joins a gateway, waits for approval, answers calls and comes back when the connection breaks."""

from __future__ import annotations

import asyncio
import logging
import platform as host_platform
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Literal

from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from ..protocol.address import GATEWAY_PATH, NODE_PATH
from ..protocol.artifacts import FEATURE as ARTIFACTS
from ..protocol.device import AGENT_COMMAND, ConnectMessage, EventMessage
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.multinode import NodeDescription
from ..protocol.permissions import FEATURE as PERMISSIONS
from ..protocol.text import clean_text
from ..protocol.tls_trouble import tls_trouble
from .address import is_loopback, pairing_link, socket_url
from .agent import agent_capability
from .backoff import Backoff
from .calls import OnCall
from .capability import Capability, collect
from .connection import Connection
from .current import Work, current_work
from .direct import Direct, quiet
from .fetching import Fetcher
from .multinode.asking import Asking
from .multinode.connection import MultinodeConnection
from .multinode.credentials import Credentials
from .pin import Trust
from .prompts import OnPermission
from .results import ResultError, to_wire
from .threads import Threads
from .vault import TokenVault, VaultError
from .verdicts import Lost, Refused, Revoked

log = logging.getLogger(__name__)

Status = Literal["idle", "connecting", "pending", "connected", "reconnecting", "refused", "stopped"]

Protocol = Literal["device", "multinode"]

_LIMITS = Limits()
_SOCKETS: dict[Protocol, str] = {"device": NODE_PATH, "multinode": GATEWAY_PATH}
_EVENTS_WAITING = 256
_PING_INTERVAL = 25.0  # seconds
_PING_TIMEOUT = 50.0  # seconds; a pong waits behind a large result on a slow uplink
_CLOSE_TIMEOUT = 2.0  # seconds
# Trying again helps with these answers to the upgrade; other ones below 500 say that the address is wrong.
_PASSING = frozenset([408, 425, 429])


class NodeHost(Asking):
    """Makes this process a node of a gateway.

    Parameters
    ----------
    url : str, optional
        Address of the gateway (:func:`~.address.socket_url`) or its pairing link; ``SUZENT_BASE_URL`` or this
        machine otherwise.
    name : str, optional
        What people call it; the host name otherwise.
    platform : str, optional
        Such as ``linux``; found out otherwise.
    capabilities : iterable, optional
        Functions, :class:`~.capability.Capability` objects, and names or patterns of declared ones; by default all
        that ``@capability`` declared in this process.
    agent : callable, optional
        A function that answers prompts (:class:`~suzent_jupyter.protocol.function_agent.FunctionAgent`): the node then
        offers ``agent.run``, and once that is approved it is the gateway's agent where no notebook and no model is.
        With ``protocol="multinode"`` it answers the chats that are routed to this node.
    protocol : str
        ``device`` for ``/ws/node``, Suzent's protocol; ``multinode`` for ``/ws/gateway``, where this node proves with a
        key of its own who it is, takes chats, and may ask other nodes (:meth:`ainvoke`, :meth:`ask`).
    token : str, optional
        A device token to use instead of the kept one.
    description, tags : optional
        Text for people and for routing.
    node_identity : str, optional
        A stable id of this installation; made and kept otherwise.
    pin : str, optional
        The key to expect of the gateway, as in its pairing link; the remembered one otherwise (:class:`~.pin.Trust`).
    vault : TokenVault, optional
        Where tokens are kept.
    on_status : callable, optional
        Called with the host after each change of ``status``, on the host's event loop.
    on_permission : callable, optional
        Asks the person at this device for permission (:data:`~.prompts.OnPermission`); without it nobody here is asked.
    on_call : callable, optional
        Called with command, seconds and error (None if it went well) after each call, there too.
    backoff : Backoff, optional
        Delays between attempts; full jitter from 1 to 30 s otherwise.

    Attributes
    ----------
    status : str
        ``idle``, ``connecting``, ``pending`` (an operator must approve ``pairing_code``), ``connected``,
        ``reconnecting`` (next attempt in ``retry_in`` seconds), ``refused`` (``last_error`` says why) or ``stopped``.
    node_id : str
        This device's id on the gateway, once connected.
    gateway_id : str
        The gateway's identity: what a pairing link named, or what it says of itself (``multinode``), else ``""``.
    account, org, scope : str
        Whose this node is, and with whom it is shared, where the gateway says so (``multinode``).
    approved, pending_approval : list of str
        Commands that may be called, and that wait for the operator, where the gateway says so.

    Raises
    ------
    ValueError
        For an address, a name or a capability that is none.

    Examples
    --------
    >>> from suzent_jupyter import NodeHost, capability
    >>> @capability("sensor.read", description="Read the thermometer")
    ... def read(unit: str = "C") -> float:
    ...     return 21.5
    >>> asyncio.run(NodeHost("ws://192.168.1.10:25314", name="Bench 3").run())
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        platform: str | None = None,
        capabilities: Iterable[Any] | None = None,
        agent: Callable[..., Any] | None = None,
        protocol: Protocol = "device",
        token: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        node_identity: str | None = None,
        pin: str | None = None,
        vault: TokenVault | None = None,
        on_status: Callable[[NodeHost], None] | None = None,
        on_call: OnCall | None = None,
        on_permission: OnPermission | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        link = pairing_link(url)
        if protocol not in _SOCKETS:
            raise ValueError(f"{protocol!r} is no protocol of nodes; there are {' and '.join(_SOCKETS)}.")
        self.protocol = protocol
        self.url = socket_url(link.base_url if link else url, _SOCKETS[protocol])
        self.gateway_id = link.gateway_id if link else ""
        self._ticket = link.ticket if link else ""
        if link is not None and pin is None:
            pin = link.pin
        elif link is not None and link.pin and pin != link.pin:
            raise ValueError("The pairing link and the pin name different keys.")
        self.name = clean_text(socket.gethostname() if name is None else name, _LIMITS.name_chars)
        if not self.name:
            raise ValueError("A node needs a name that can be printed.")
        self.platform = platform or host_platform.system().lower() or "unknown"
        self._agent = None if agent is None else agent_capability(agent)
        self.capabilities = self._collected(capabilities)
        self.description = description
        self.tags = list(tags) if tags else None
        self.node_identity = node_identity
        self.vault = vault or TokenVault()
        self._trust = Trust(self.url, pin, self.vault)
        self.fetcher = Fetcher(self.url, self._trust)
        self.credentials = Credentials(self.url, self.name, self.gateway_id, self.vault)
        self.on_status = on_status
        self.on_call = on_call
        self.on_permission = on_permission

        self.status: Status = "idle"
        self.pairing_code: str | None = None
        self.node_id: str | None = None
        self.last_error: str | None = None
        self.retry_in: float | None = None
        self.approved: list[str] = []
        self.pending_approval: list[str] = []
        self.account = self.org = self.scope = ""

        self._token = token
        self._backoff = backoff or Backoff()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[Status] | None = None
        self._connection: Connection | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._changed = threading.Condition()

    # -- running

    async def run(self) -> Status:
        """Stay joined until :meth:`stop` or a refusal; return the final status, ``stopped`` or ``refused``.

        Raises
        ------
        RuntimeError
            When it runs already.
        """
        if self._main is not None:
            raise RuntimeError(f"Node '{self.name}' runs already.")
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.ensure_future(self._stay_joined())
        if self._stopping:
            self._main.cancel()
        try:
            return await self._main
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return "stopped"
        finally:
            self._main = self._loop = self._connection = None
            self._stopping = False
            if self.status != "refused":
                self._set("stopped")

    def run_in_thread(self) -> threading.Thread:
        """Run in a daemon thread of its own and return it, for programs without an event loop."""
        thread = threading.Thread(target=lambda: asyncio.run(self.run()), daemon=True, name=f"suzent-node-{self.name}")
        thread.start()
        return thread

    def stop(self) -> None:
        """Leave the gateway; may be called from any thread, and returns at once."""
        if self.status in ("stopped", "refused"):
            return
        loop, main = self._loop, self._main
        self._stopping = True
        if loop is not None and main is not None:
            try:
                loop.call_soon_threadsafe(main.cancel)
            except RuntimeError:
                pass  # the loop has ended meanwhile

    def wait_for(self, *statuses: Status, timeout: float | None = None) -> Status:
        """Block until the status is one of these, or ``timeout`` seconds have passed; return the status then.

        For use beside :meth:`run_in_thread`; on an event loop use ``on_status``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.status in statuses, timeout)
            return self.status

    # -- talking to the gateway

    def send_event(self, name: str, data: dict[str, Any] | None = None) -> None:
        """Tell the gateway that something happened; may be called from any thread and does not wait.

        Raises
        ------
        SuzentError
            ``node_disconnected`` while there is no connection, ``node_busy`` while 256 events wait to be sent,
            ``invalid_request`` with ``protocol="multinode"``, which has no such frame.
        ResultError
            When ``data`` has no JSON form, or is too large for a frame.
        """
        if self.protocol == "multinode":
            raise SuzentError("invalid_request", "Nodes of /ws/gateway send no events.", hint='Use protocol="device".')
        frame = EventMessage(event=name, data=to_wire(data or {})).encode()
        limit = self._connection.frame_limit if self._connection is not None else len(frame)
        if len(frame) > limit:
            raise ResultError(
                f"The event is {len(frame):,} bytes as JSON, and this gateway takes {limit:,} in one frame."
            )
        if self.status != "connected" or not self._later(lambda connection: connection.send_frame(frame)):
            raise SuzentError("node_disconnected", f"Node '{self.name}' is not connected.")

    def update(self, capabilities: Iterable[Any] | None = None) -> None:
        """Offer these capabilities from now on; may be called from any thread.

        Parameters
        ----------
        capabilities : iterable, optional
            As in the constructor; its agent stays. A gateway without the feature ``update`` (Suzent's) hears of them at
            the next connect; commands that were not approved yet wait for its operator.
        """
        self.capabilities = self._collected(capabilities)
        self._later(lambda connection: connection.send_update())

    def _collected(self, capabilities: Iterable[Any] | None) -> dict[str, Capability]:
        found = collect(capabilities)
        return found if self._agent is None else {**found, self._agent.name: self._agent}

    def _later(self, work: Callable[[Connection], Coroutine[Any, Any, None]]) -> bool:
        """Run ``work`` on the host's loop with the current connection, if there is one."""
        loop, connection = self._loop, self._connection
        if loop is None or connection is None:
            return False
        if len(self._background) >= _EVENTS_WAITING:
            raise SuzentError("node_busy", f"{_EVENTS_WAITING} events wait to be sent to the gateway.")

        def start() -> None:
            task = loop.create_task(work(connection))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

        try:
            loop.call_soon_threadsafe(start)
        except RuntimeError:
            return False
        return True

    # -- the loop

    async def _stay_joined(self) -> Status:
        current_work.set(self.work())  # for every task and thread from here on
        await self._recall()
        threads = Threads()
        self._set("connecting")
        while True:
            opened: list[float] = []
            try:
                await self._connect_once(threads, opened)
                problem = "the connection ended"
            except Revoked as revoked:
                await self._forget()
                self._set("refused", error=str(revoked))
                return "refused"
            except Refused as refused:
                self._set("refused", error=str(refused))
                return "refused"
            except Lost as lost:
                problem = str(lost)
            except Exception as error:  # a device in the field must outlive our own mistakes
                log.exception("Node '%s' lost its connection in an unforeseen way", self.name)
                problem = f"{type(error).__name__}: {error}"
            finally:
                self._connection = None
            delay = self._backoff.next(time.monotonic() - opened[0] if opened else 0.0)
            self._set("reconnecting", error=problem, retry_in=delay)
            await asyncio.sleep(delay)

    async def _connect_once(self, threads: Threads, opened: list[float]) -> None:
        context = await asyncio.to_thread(self._trust.context)
        secured: dict[str, Any] = {} if context is None else {"ssl": context}
        try:
            async with Direct(
                self.url,
                compression=None,  # it costs several times the throughput on base64 and JSON
                max_size=_LIMITS.socket_bytes,
                ping_interval=_PING_INTERVAL,
                ping_timeout=_PING_TIMEOUT,
                close_timeout=_CLOSE_TIMEOUT,
                proxy=None if is_loopback(self.url) else True,
                user_agent_header="suzent-jupyter",
                logger=quiet,
                **secured,
            ) as socket:
                opened.append(time.monotonic())
                if self._trust.is_news:
                    await asyncio.to_thread(self._trust.proved)
                try:
                    speak = MultinodeConnection if self.protocol == "multinode" else Connection
                    await speak(socket, self, threads, self.on_call).run()
                finally:
                    await socket.close()  # leaving the block by an exception alone would say 1011, a failure of ours
        except InvalidStatus as error:
            status = error.response.status_code
            if status >= 500 or status in _PASSING:
                raise Lost(f"the gateway answered {status}") from None
            if 300 <= status < 400:
                raise Refused(
                    f"{self.url} answered {status}, which leads elsewhere, and no redirect is followed; "
                    "give the gateway's own address"
                ) from None
            raise Refused(
                f"{self.url} answered {status} instead of a WebSocket; is this the gateway's address?"
            ) from None
        except InvalidURI as error:
            raise Refused(f"the gateway's address leads nowhere: {clean_text(str(error), 200)}") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            if trouble := tls_trouble(error, self.url):
                text = str(trouble)
                raise (Refused if trouble.final else Lost)(text[0].lower() + text[1:].rstrip(".")) from None
            if isinstance(error, TimeoutError):
                raise Lost("the gateway did not answer") from None
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Lost(f"can't reach {self.url}: {clean_text(text, 200)}") from None

    # -- what the connection tells us

    def connect_message(self) -> ConnectMessage:
        """Return the first frame of a connection."""
        return ConnectMessage(
            display_name=self.name,
            platform=self.platform,
            capabilities=[each.declaration() for each in self.capabilities.values()],
            device_token=self._token or "",
            node_identity=self.node_identity,
            features=["agent", "cancel", "progress", "update", *self.own_features()],
            description=self.description,
            tags=self.tags,
            ticket=self._ticket if self._ticket and not self._token else None,
        )

    def own_features(self) -> list[str]:
        """Return what this node announces beside what its protocol does anyway."""
        return [ARTIFACTS, *([PERMISSIONS] if self.on_permission is not None else [])]

    def describe(self) -> NodeDescription:
        """Return what this node says of itself (``multinode``)."""
        declared = [each.declaration() for each in self.capabilities.values() if each.name != AGENT_COMMAND]
        return NodeDescription(
            name=self.name,
            description=self.description or "",
            platform=self.platform,
            tags=self.tags or [],
            capabilities=[each.model_dump(exclude_none=True) for each in declared],
            agent=AGENT_COMMAND in self.capabilities,
        )

    def ticket(self) -> str | None:
        """Return the pairing link's ticket, until it let this node in (``multinode``)."""
        return self._ticket or None

    def work(self, run_id: str = "") -> Work:
        """Return what a call or a run of this node works for."""
        return Work(self, run_id)

    def on_pending(self, code: str, message: str) -> None:
        """Note that an operator must approve ``code``."""
        log.info("Node '%s' waits for approval: %s", self.name, message)
        self._set("pending", code=code)

    async def on_connected(self, frame: dict[str, Any], connection: Connection) -> None:
        """Keep a new token before anything else: it is given once."""
        self.last_error = None
        token = frame.get("device_token")
        if isinstance(token, str) and token and token != self._token:
            self._token = token
            await self._keep("set", self._token_key, token)
        self._connection = connection
        self.node_id = clean_text(frame.get("node_id"), 128) or None
        if self.protocol == "multinode":
            self._ticket = ""
            self.gateway_id = self.credentials.gateway_id
            self.account, self.org, self.scope = (
                clean_text(frame.get(key), 128) for key in ("account", "org", "scope")
            )
        self.on_approved(frame)
        for warning in _texts(frame.get("warnings")):
            log.warning("The gateway says: %s", warning)
        self._set("connected", error=self.last_error)

    def on_approved(self, frame: dict[str, Any]) -> None:
        """Note which commands may be called now."""
        self.approved = _texts(frame.get("approved"))
        self.pending_approval = _texts(frame.get("pending_approval"))
        if self.status == "connected":
            self._set("connected")

    def on_changed(self, node: dict[str, Any]) -> None:
        """Note with whom this node is shared now (``multinode``); others' changes are no business of its own."""
        scope = clean_text(node.get("scope"), 128)
        if scope and scope != self.scope and node.get("node_id") == self.node_id:
            self.scope = scope
            self._set("connected")

    # -- the vault

    @property
    def _token_key(self) -> str:
        return f"node:{self.url}:{self.name}"

    async def _recall(self) -> None:
        if self.protocol == "multinode":
            return  # its key is its token
        if not self._token:
            self._token = await self._keep("get", self._token_key)
        if not self.node_identity:
            self.node_identity = await self._keep("setdefault", f"identity:{self.name}", lambda: secrets.token_hex(16))

    async def _forget(self) -> None:
        if self.protocol == "multinode":
            return  # the key stays; approving it is the gateway's business
        self._token = None
        await self._keep("delete", self._token_key)

    async def _keep(self, action: str, *args: Any) -> str | None:
        """Do something with the vault in a thread; a vault that fails costs a new approval, not the device."""
        try:
            found: str | None = await asyncio.to_thread(getattr(self.vault, action), *args)
        except VaultError as error:
            log.warning("Node '%s' can't keep its token: %s", self.name, error)
            self.last_error = str(error)
            return None
        return found

    # -- status

    def _set(
        self, status: Status, *, error: str | None = None, retry_in: float | None = None, code: str | None = None
    ) -> None:
        with self._changed:
            self.status = status
            self.pairing_code = code
            self.retry_in = retry_in
            self.last_error = error or (self.last_error if status in ("connecting", "pending", "stopped") else None)
            self._changed.notify_all()
        if self.on_status is not None:
            try:
                self.on_status(self)
            except Exception:
                log.exception("The callback for the status failed")


def _texts(value: Any) -> list[str]:
    return [text for item in value if (text := clean_text(item, 500))] if isinstance(value, list) else []
