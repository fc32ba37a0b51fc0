"""What the Jupyter extension and the stand-alone command run: the gateway, or a guest of the user's other server.

There is one gateway per ``data_dir``. The server that holds its lock is the :class:`~.host.Host`; each other one is a
:class:`~.guest.Guest` of it, whose kernels know the same address and token; one of them takes its place when it goes.
Where nothing can be locked, and for another account or machine, each server is a gateway of its own over one database.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..gateway import Authority, Principal
from ..gateway.settings import Settings
from ..protocol.address import DEFAULT_PORT, DEFAULT_TLS_PORT
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from .accounts import Accounts
from .addresses import AddressBook
from .attempts import BadTokens
from .auth import KernelToken, take_note
from .host import LOADED, Host
from .listener.hosts import HostNames
from .listener.loopback import is_trusted
from .open_sockets import OpenSockets
from .runtime import KernelEnvironment, RuntimeFile, remove_dead_files
from .single.host_file import HostFacts, read_host_file
from .single.lock import GatewayLock, NoLockError, this_machine
from .stream import Streams

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from ..discovery import Discovery
    from ..gateway import Gateway
    from .joining import Joining
    from .peering.peering import Peering
    from .single.guest import Guest
    from .tls.port import TlsPort

log = logging.getLogger("suzent_jupyter")

_SETTLE_SECONDS = 30.0  # to find a gateway, or become it, before running one beside it
_HEIRS_SECONDS = 5.0  # in which those who know the last gateway's token come first
_LOOK_PAUSE = 0.05


@dataclass(slots=True, kw_only=True)
class ServiceConfig:
    """What a gateway needs to know to start; see the traits of the same names."""

    data_dir: Path
    account: str
    org: str = ""
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    listener_enabled: bool = True
    listener_port: int = DEFAULT_PORT
    trust_loopback: str = "never"
    require_ticket: bool = False
    agent_model: str = ""
    router_model: str = ""
    artifact_url: str = ""
    #: Whether each user of the Jupyter server has an account of their own here.
    multi_user: bool = False
    #: Account or Hub group → organisation.
    orgs: dict[str, str] = field(default_factory=dict)
    #: The Jupyter server's contents manager, through which an agent sees files; None when alone.
    contents: Any = None
    tls: str = "off"
    tls_port: int = DEFAULT_TLS_PORT
    certfile: str = ""
    keyfile: str = ""
    listener_plaintext: bool = True
    allowed_hosts: tuple[str, ...] = ()
    #: The mount's address for programs on this machine, such as http://127.0.0.1:8888/suzent; None when alone.
    mount_url: str | None = None
    #: Whether the mount's public URL is what most devices can use, as behind a Hub.
    public_first: bool = field(default_factory=lambda: under_hub() or in_binder())
    #: False: a gateway of its own beside any other, over one database, as where files can't be locked.
    single: bool = True
    #: False: refuse to start with :class:`AlreadyRunningError` rather than be a guest.
    may_be_guest: bool = True

    @property
    def own_org(self) -> str:
        """The owner's organisation."""
        return self.org or (self.orgs.get(self.account, "") if self.multi_user else "")


def under_hub() -> bool:
    """Tell whether this process was started by JupyterHub, where other people's programs share the machine."""
    return any(name in os.environ for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"))


def in_binder() -> bool:
    """Tell whether this process was started by BinderHub, which sets ``BINDER_REPO_URL`` and its like."""
    return any(name.startswith("BINDER_") for name in os.environ)


class AlreadyRunningError(Exception):
    """Another server of this user is the gateway of this ``data_dir``."""

    def __init__(self, facts: HostFacts) -> None:
        where = f"at {facts.url}" if facts.url is not None else "in a Jupyter server"
        super().__init__(f"A gateway of this user runs already {where} (process {facts.pid}).")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class GatewayService:
    """Starts with :meth:`start`, on the loop it works on; until then every request is told to wait."""

    def __init__(self) -> None:
        self._config: ServiceConfig | None = None
        self._modules: tuple[str, ...] = ()
        self._lock: GatewayLock | None = None
        self._host: Host | None = None
        self._guest: Guest | None = None
        self._settling: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._environment = KernelEnvironment()
        self._base_url: str | None = None
        self._runtime_file: RuntimeFile | None = None
        self._trust_loopback = False
        self._stopping = False
        self._token: KernelToken | None = None
        self.addresses = AddressBook(self)
        self.open_sockets = OpenSockets()
        #: Under which names web pages may reach the listener.
        self.host_names = HostNames()
        #: The Jupyter mount as people reach it, "" while unknown.
        self.public_url = ""

    @property
    def kernel_token(self) -> KernelToken:
        """The kernels' token."""
        assert self._token is not None
        return self._token

    @property
    def running(self) -> bool:
        """Whether requests are answered, here or by the gateway whose guest we are."""
        return (self.serving or self._guest is not None) and not self._stopping

    @property
    def serving(self) -> bool:
        """Whether the gateway is here, and not one whose guest we are."""
        return self._host is not None and self._host.gateway is not None

    @property
    def gateway(self) -> Gateway:
        """The hub; ``stopping`` while there is none here."""
        gateway = self.host.gateway
        assert gateway is not None
        return gateway

    @property
    def host(self) -> Host:
        """What runs the gateway here; ``stopping`` while it does not."""
        if self._host is None or self._host.gateway is None:
            raise SuzentError("stopping", "The gateway is starting.")
        return self._host

    @property
    def artifact_bytes(self) -> float:
        """How large a file may be that is sent here to be kept."""
        assert self._config is not None
        return self._config.limits.artifact_bytes

    @property
    def guest(self) -> Guest | None:
        """The way to the gateway in another server; None if it is here, or nowhere."""
        return self._guest

    @property
    def port(self) -> int | None:
        """The listener's port, None without a listener."""
        if self._guest is not None:
            return self._guest.facts.port
        return self._host.listener.port if self._host is not None and self._host.listener is not None else None

    @property
    def tls_port(self) -> int | None:
        """The listener's TLS port, None without TLS or where a guest."""
        return self.host.bound.tls_port if self._host is not None else None

    @property
    def pin(self) -> str:
        """The pin of the TLS key; ``""`` without TLS, and where an authority vouches for the certificate."""
        return self.host.bound.pin

    @property
    def tls(self) -> TlsPort | None:
        """The TLS port, if there is to be one."""
        return self.host.tls

    @property
    def discovery(self) -> Discovery:
        """What finds other gateways, and lets them find this one."""
        if self.host.discovery is None:
            raise SuzentError("stopping", "The gateway is starting.")
        return self.host.discovery

    @property
    def joining(self) -> Joining:
        """This gateway as a node of others."""
        assert self.host.joining is not None
        return self.host.joining

    @property
    def peering(self) -> Peering:
        """The gateways this one drives, and those that drive it."""
        assert self.host.peering is not None
        return self.host.peering

    def settings_changed(self) -> None:
        """Follow a change of the settings."""
        self.discovery.refresh()
        self.joining.settings_changed()

    def check_running(self) -> None:
        """Refuse while the gateway is not there: ``stopping``."""
        if not self.running:
            raise SuzentError("stopping", "The gateway is starting or stopping.")

    async def start(self, config: ServiceConfig, *modules: str) -> None:
        """Become the gateway or a guest of it.

        Kernels find the gateway in their environment from the first step on; what takes long comes after it, off the
        event loop, while the server already answers. ``modules`` are loaded there too.

        Raises
        ------
        AlreadyRunningError
            Where being a guest is not wanted.
        """
        self._config, self._modules = config, modules
        self._token = KernelToken(config.account, config.own_org)
        self.accounts = Accounts(config.account, config.org, config.multi_user, config.orgs)
        self.bad_tokens = BadTokens(config.limits)
        self.streams = Streams(int(config.limits.streams_per_peer))
        self.host_names = HostNames(config.allowed_hosts)
        self._trust_loopback = config.trust_loopback == "auto" and not under_hub()
        if config.single:
            try:
                self._lock = await asyncio.to_thread(GatewayLock, config.data_dir)
            except NoLockError as error:
                log.warning("Each server runs a gateway of its own: %s can't be locked (%s).", config.data_dir, error)
        self._settling = asyncio.ensure_future(self._settle(None))
        try:
            if self._stopping:
                self._settling.cancel()
            await self._settling
        except BaseException as error:
            await self._give_up()
            if self._stopping and isinstance(error, asyncio.CancelledError) and not _is_cancelled():
                return  # by our own stop, and whoever starts us goes on
            raise
        if self._guest is not None and not self._stopping:
            self._watch = asyncio.create_task(self._stay())

    async def stop(self) -> None:
        """Stop listening, tell every device, close everything. A guest takes the gateway's place then."""
        self._stopping = True
        self._environment.restore()
        try:
            if self._settling is not None and not self._settling.done():
                self._settling.cancel()
                await asyncio.wait([self._settling])
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])
            if self._guest is not None:
                await self._guest.close()
            if self._host is not None:
                await self._host.stop()
            if self._runtime_file is not None:
                await asyncio.to_thread(self._runtime_file.remove)
        finally:
            if self._lock is not None:
                self._lock.close()

    # -- gateway or guest --

    async def _stay(self) -> None:
        """Be a guest until the gateway is gone; then become it, or a guest of the next."""
        for module in LOADED:
            await asyncio.to_thread(import_module, module)  # to be quick then
        while self._guest is not None:
            guest = self._guest
            await guest.lost()
            self._guest = None
            log.info("The gateway in process %d is gone.", guest.facts.pid)
            await guest.close()
            try:
                await self._settle(guest.facts)
            except Exception:
                log.exception("This server could not take the gateway's place and leaves it to others")
                await self._give_up()
                return

    async def _give_up(self) -> None:
        """Keep nothing that another server needs to be the gateway."""
        host, self._host = self._host, None
        try:
            if host is not None:
                await host.stop()
        except Exception:
            log.exception("The gateway did not stop cleanly")
        finally:
            if self._lock is not None:
                self._lock.close()

    async def _settle(self, before: HostFacts | None) -> None:
        """Take the lock or find its holder; ``before`` is the gateway whose guest we were."""
        loop = asyncio.get_running_loop()
        started, lock = loop.time(), self._lock
        while lock is not None and loop.time() < started + _SETTLE_SECONDS:
            try:
                heirs_had_time = loop.time() > started + _HEIRS_SECONDS
                if await asyncio.to_thread(lock.take_over_from_the_dead if heirs_had_time else lock.take):
                    await self._be_host(lock, before)
                    return
                facts = await asyncio.to_thread(self._find_host, lock)
            except (NoLockError, OSError) as error:
                log.warning("Each server runs a gateway of its own: its lock can't be used (%s).", error)
                break
            if facts is not None and await self._be_guest(facts, lock):
                return
            await asyncio.sleep(_LOOK_PAUSE)
        else:
            if lock is not None:
                log.warning("The gateway of this user does not answer; this server runs another over its database.")
        await self._be_host(None, before)

    def _find_host(self, lock: GatewayLock) -> HostFacts | None:
        """Return who holds the lock, None while that is not known.

        Raises
        ------
        NoLockError
            It is none whose guest we can be.
        """
        assert self._config is not None
        note = lock.read_note()
        if not note:
            return None
        if note.get("machine") != this_machine():
            raise NoLockError("its holder runs on another machine")
        facts = read_host_file(str(note.get("file")))
        if facts is not None and (facts.account, facts.org) != (self._config.account, self._config.own_org):
            raise NoLockError("its holder belongs to another account")
        return facts

    async def _be_host(self, lock: GatewayLock | None, before: HostFacts | None) -> None:
        assert self._config is not None
        self._host = host = Host(self, self._config, lock)
        await host.bind(before.port if before is not None else None)
        self._set_environment(f"http://127.0.0.1:{self.port}" if self.port is not None else self._config.mount_url)
        await host.announce()
        await host.start(*self._modules)
        if self.port is not None:
            log.info("The gateway's devices join at ws://127.0.0.1:%d/ws/node", self.port)

    async def _be_guest(self, facts: HostFacts, lock: GatewayLock) -> bool:
        assert self._config is not None
        if self._config.may_be_guest:
            self._token = KernelToken(self._config.account, self._config.own_org, facts.token)
            self._set_environment(facts.url or self._config.mount_url)
        for module in ("suzent_jupyter.server.single.guest", *self._modules):
            await asyncio.to_thread(import_module, module)
        from .single.guest import Guest

        guest = await Guest.connect(facts)
        if guest is None:
            return False
        if not self._config.may_be_guest:
            await guest.close()
            raise AlreadyRunningError(facts)
        await asyncio.to_thread(lock.join)
        self._guest = guest
        await self.write_runtime_file()
        log.info("The gateway of this user runs in process %d; this server forwards to it.", facts.pid)
        return True

    # -- what kernels and terminals find --

    def _set_environment(self, base_url: str | None) -> None:
        if base_url == self._base_url and os.environ.get("SUZENT_TOKEN") == self.kernel_token.value:
            return
        self._environment.restore()
        self._base_url = base_url
        if base_url is not None:
            token = self.kernel_token.value
            self._environment.set(base_url.replace("://", f"://suzent:{token}@", 1), token)

    async def write_runtime_file(self) -> None:
        """Write what terminals need, once requests are answered."""
        assert self._config is not None
        if self._base_url is None:
            return
        facts = {
            "url": self._base_url,
            "token": self.kernel_token.value,
            "mount_url": self._config.mount_url,
            "data_dir": str(self._config.data_dir),
        }
        self._runtime_file = RuntimeFile()
        try:
            await asyncio.to_thread(self._runtime_file.write, facts)
        except OSError as error:
            log.warning("Terminals won't find this gateway by themselves: %s", error)
            self._runtime_file = None
        else:
            await asyncio.to_thread(remove_dead_files)

    # -- what the gateway asks of us --

    async def tokenless_principal(self, request: HTTPServerRequest) -> Principal:
        """Return who a request without a token is on the listener; ``unauthorized`` if nobody we trust."""
        if self._trust_loopback and await is_trusted(request):
            take_note(request)
            return Principal(Authority.FULL, self.gateway.account, self.gateway.org, "", "loopback")
        raise SuzentError("unauthorized", "This needs a token.")
