"""The gateway itself: hub, listeners, guests' door, discovery and joins, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING

from ..gateway.store import peek_setting
from .addresses import Bound
from .listener.server import Listener
from .single.door import Door
from .single.host_file import HostFacts, HostFile
from .single.lock import GatewayLock

if TYPE_CHECKING:
    from ..discovery import Discovery
    from ..gateway import Gateway
    from .joining import Joining
    from .peering.peering import Peering
    from .peering.reached_at import OwnUrl
    from .service import GatewayService, ServiceConfig
    from .tls.port import TlsPort

log = logging.getLogger("suzent_jupyter")

_PORT_SECONDS = 4.0  # for the port of a gateway that has just gone
_PORT_PAUSE = 0.05
#: What takes long to load, beside the handlers of a mount.
LOADED = (
    "suzent_jupyter.gateway.gateway",
    "suzent_jupyter.discovery",
    "suzent_jupyter.server.contents",
    "suzent_jupyter.server.joining",
    "suzent_jupyter.server.peering.peering",
    "suzent_jupyter.gateway.answering.staging",
    "suzent_jupyter.server.tls.port",
    "suzent_jupyter.server.listener.application",
)


def _address(*, lan: bool) -> str:
    return "0.0.0.0" if lan else "127.0.0.1"  # noqa: S104


class Host:
    """One gateway.

    Parameters
    ----------
    service : GatewayService
        Whose it is.
    config : ServiceConfig
        Its settings.
    lock : GatewayLock, optional
        Held. Without one there are no guests.
    """

    def __init__(self, service: GatewayService, config: ServiceConfig, lock: GatewayLock | None) -> None:
        self.gateway: Gateway | None = None
        self.listener: Listener | None = None
        self.tls: TlsPort | None = None
        self.discovery: Discovery | None = None
        self.joining: Joining | None = None
        self.peering: Peering | None = None
        self._problem = ""
        self._naming: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._lan_bind = False
        self._service = service
        self._config = config
        self._lock = lock
        self._door = Door(service) if lock is not None else None
        self._file = HostFile()

    async def bind(self, inherited: int | None = None) -> None:
        """Take the ports. A listener that can't be bound is reported and left out; all else works without it.

        Parameters
        ----------
        inherited : int, optional
            The port of a gateway that has just gone: kernels and devices know it.
        """
        config = self._config
        if config.listener_enabled or inherited is not None:
            await self._bind_listener(inherited)
        if self._door is not None:
            self._door.bind()

    async def announce(self) -> None:
        """Let guests find us."""
        if self._lock is None or self._door is None:
            return
        port = self.listener.port if self.listener is not None else None
        facts = HostFacts(
            pid=os.getpid(),
            url=f"http://127.0.0.1:{port}" if port is not None else None,
            port=port,
            token=self._service.kernel_token.value,
            door_port=self._door.port,
            secret=self._door.secret,
            account=self._config.account,
            org=self._config.own_org,
        )
        try:
            await asyncio.to_thread(self._publish, self._lock, facts)
        except OSError as error:
            log.warning("Other servers of this user won't find this gateway and run their own: %s", error)

    def _publish(self, lock: GatewayLock, facts: HostFacts) -> None:
        from .single.lock import this_machine

        self._file.write(facts)
        lock.write_note({"pid": os.getpid(), "machine": this_machine(), "file": str(self._file.path)})

    async def start(self, *modules: str) -> None:
        """Load what takes long, off the event loop, and answer."""
        config = self._config
        for module in (*LOADED, *modules):
            await asyncio.to_thread(import_module, module)
        from ..discovery import Discovery
        from ..gateway.answering.staging import remove_leftovers
        from ..gateway.gateway import Gateway
        from .contents import file_access
        from .joining import Joining
        from .own_address import OwnAddress
        from .peering.peering import Peering
        from .tls.port import TlsPort, wants_tls

        self.gateway = Gateway(
            config.data_dir,
            config.settings,
            config.limits,
            account=config.account,
            org=config.own_org,
            require_ticket=config.require_ticket,
            agent_model=config.agent_model,
            router_model=config.router_model,
            artifact_url=config.artifact_url,
            single_account=not config.multi_user,
            trusted_token=self._service.kernel_token.principal,
        )
        self.gateway.files = file_access(config.contents, config.limits, config.data_dir)
        own_address = OwnAddress(self._ports, config.mount_url)
        self.joining = Joining(self.gateway, own_address)
        self.peering = Peering(self.gateway, own_address, self._reached_at)
        loading = asyncio.ensure_future(self.gateway.start())
        if self.listener is not None:
            self.listener.serve()
        if self._door is not None:
            self._door.serve()
        await self._service.write_runtime_file()
        if wants_tls(config):
            self.tls = TlsPort(self._service, config, _address(lan=self._lan_bind))
            await self.tls.start(self.listener)
            self._naming = asyncio.create_task(self._name_tls(self.tls))
        self.discovery = Discovery(
            config.settings,
            str(config.data_dir),
            port=self.listener.port if self._plaintext_for_others and self.listener is not None else None,
            tls_port=self.tls.port if self.tls is not None else None,
            lan=self._lan_bind,
            ipv6=self.listener is not None and self.listener.ipv6,
        )
        await asyncio.shield(loading)  # a stop while it still loads lets the store finish
        if config.listener_enabled:
            self.gateway.started_with(node_lan_bind=self._lan_bind)
        elif config.settings.node_lan_bind:
            self._problem = "The listener is off (SuzentApp.listener_enabled): devices join through Jupyter only."
        with contextlib.suppress(OSError):
            await asyncio.to_thread(remove_leftovers, config.data_dir)
        self.discovery.start()
        self.joining.begin()
        self.peering.begin()
        for warning in self.warnings:
            log.warning("%s", warning)

    async def stop(self) -> None:
        """Stop listening, tell every device, close everything; guests learn of it last, when the lock is free.

        It is done once, also where a start that is stopped tidies up at the same time.
        """
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await self._stopping

    async def _stop(self) -> None:
        if self._naming is not None:
            self._naming.cancel()
        servers = [server for server in (self.listener, self.tls, self._door) if server is not None]
        for server in servers:
            server.stop_listening()
        # Devices answer our goodbye while the store is written, and whoever we say goodbye to may be slow.
        parts = (self.discovery, self.joining, self.peering, self.gateway)
        goodbyes = [part.stop() for part in parts if part is not None]
        for failure in await asyncio.gather(*goodbyes, self._service.open_sockets.close(), return_exceptions=True):
            if isinstance(failure, Exception):
                log.error("A part of the gateway did not stop cleanly", exc_info=failure)
        for server in servers:
            await server.close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._file.remove)

    # -- what is true of it now --

    @property
    def bound(self) -> Bound:
        """What is bound."""
        return Bound(
            port=self.listener.port if self.listener is not None else None,
            tls_port=self.tls.port if self.tls is not None else None,
            pin=self.tls.pin if self.tls is not None else "",
            for_others=self._plaintext_for_others or (self._lan_bind and self.tls is not None and bool(self.tls.port)),
            plaintext_for_others=self._plaintext_for_others,
            ipv6=self._ipv6,
            public_first=self._config.public_first,
        )

    @property
    def _ipv6(self) -> bool:
        """Whether every port that other machines reach is bound to IPv6 too: one link may name either."""
        ports = [self.listener if self._plaintext_for_others else None, self.tls if self._lan_bind else None]
        bound = [each.ipv6 for each in ports if each is not None and each.port]
        return bool(bound) and all(bound)

    @property
    def problem(self) -> str:
        """Why devices can't join at a port that was asked for; ``""`` while they can."""
        return " ".join(filter(None, (self._problem, self.tls.problem if self.tls is not None else "")))

    @property
    def warnings(self) -> list[str]:
        """What the operator should know, a sentence each."""
        from .tls.port import exposure

        if not self._lan_bind:
            return []
        bound = self.bound
        warning = exposure(bound.port if bound.plaintext_for_others else None, bound.tls_port)
        # That nobody can join needs saying once.
        return [warning] if warning is not None and (bound.for_others or not self.problem) else []

    @property
    def _plaintext_for_others(self) -> bool:
        return self._lan_bind and self._config.listener_plaintext and self.listener is not None

    async def _name_tls(self, tls: TlsPort) -> None:
        """Have the machine's name in the tailnet in the certificate too; to ask for it may take seconds."""
        from ..discovery import reachable_addresses

        try:
            names = [each.host for each in await reachable_addresses() if each.kind == "tailscale"]
            await tls.add_names(*names)
        except Exception as error:
            log.warning("The TLS certificate lacks this machine's names in the tailnet: %s", error)

    async def _reached_at(self, peer_url: str) -> OwnUrl:
        from .peering.reached_at import reached_at

        return await reached_at(peer_url, self.bound, self._service.public_url)

    def _ports(self) -> set[int]:
        return {port for port in (self.bound.port, self.bound.tls_port) if port is not None}

    # -- binding --

    async def _bind_listener(self, inherited: int | None) -> None:
        config = self._config
        if "node_lan_bind" not in config.settings.fixed:
            remembered = await asyncio.to_thread(peek_setting, config.data_dir, "node_lan_bind")
            if isinstance(remembered, bool):
                config.settings.node_lan_bind = remembered
        self._lan_bind = config.settings.node_lan_bind and config.listener_enabled
        host = _address(lan=self._lan_bind and config.listener_plaintext)
        if inherited is not None:
            if inherited != config.listener_port or not config.listener_enabled:
                log.warning(
                    "The gateway keeps port %d, which kernels and devices know, instead of %s.",
                    inherited,
                    f"port {config.listener_port}" if config.listener_enabled else "no listener",
                )
            if await self._bind_inherited(host, inherited):
                return
            if not config.listener_enabled:
                return
        listener = Listener(self._service, host, config.listener_port)
        try:
            listener.bind()
            self.listener = listener
        except OSError as error:
            self._problem = (
                f"The gateway can't listen on port {config.listener_port}: {error.strerror or error}. "
                "Devices can still join through the Jupyter server; "
                "stop the other program or set SuzentApp.listener_port, then restart."
            )
            log.error("%s", self._problem)

    async def _bind_inherited(self, host: str, port: int) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PORT_SECONDS
        while True:
            listener = Listener(self._service, host, port, exact=True)
            try:
                listener.bind()
                self.listener = listener
                return True
            except OSError as error:
                if loop.time() > deadline:
                    log.warning(
                        "The gateway's port %d is taken by another program (%s); kernels that run already must be "
                        "restarted to find the new one.",
                        port,
                        error.strerror or error,
                    )
                    return False
            await asyncio.sleep(_PORT_PAUSE)
