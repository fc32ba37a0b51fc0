"""The gateway itself: hub, listener and the guests' door, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING

from ..gateway.store import peek_setting
from .door import Door
from .host_file import HostFacts, HostFile
from .listener import Listener
from .lock import GatewayLock
from .off_loop import off_loop

if TYPE_CHECKING:
    from ..gateway import Gateway
    from .service import GatewayService, ServiceConfig

log = logging.getLogger("suzent_jupyter")

_PORT_SECONDS = 4.0  # for the port of a gateway that has just gone
_PORT_PAUSE = 0.05


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
        self.lan_bind = False
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
            org=self._config.org,
        )
        try:
            await off_loop(self._publish, self._lock, facts)
        except OSError as error:
            log.warning("Other servers of this user won't find this gateway and run their own: %s", error)

    def _publish(self, lock: GatewayLock, facts: HostFacts) -> None:
        from .lock import this_machine

        self._file.write(facts)
        lock.write_note({"pid": os.getpid(), "machine": this_machine(), "file": str(self._file.path)})

    async def start(self, *modules: str) -> None:
        """Load what takes long, off the event loop, and answer."""
        config = self._config
        for module in ("suzent_jupyter.gateway.gateway", "suzent_jupyter.server.application", *modules):
            await off_loop(import_module, module)
        from ..gateway.gateway import Gateway

        self.gateway = Gateway(
            config.data_dir,
            config.settings,
            config.limits,
            account=config.account,
            org=config.org,
            trusted_token=self._service.kernel_token.principal,
        )
        loading = asyncio.ensure_future(self.gateway.start())
        if self.listener is not None:
            self.listener.serve()
        if self._door is not None:
            self._door.serve()
        await self._service.write_runtime_file()
        await asyncio.shield(loading)  # a stop while it still loads lets the store finish
        # Whatever lives as long as the gateway, and only in the server that is it, starts here and stops below.

    async def stop(self) -> None:
        """Stop listening, tell every device, close everything; guests learn of it last, when the lock is free."""
        servers = [server for server in (self.listener, self._door) if server is not None]
        for server in servers:
            server.stop_listening()
        if self.gateway is not None:
            await self.gateway.stop()
        for server in servers:
            await server.close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                await off_loop(self._file.remove)

    async def _bind_listener(self, inherited: int | None) -> None:
        config = self._config
        if "node_lan_bind" not in config.settings.fixed:
            remembered = await off_loop(peek_setting, config.data_dir, "node_lan_bind")
            if isinstance(remembered, bool):
                config.settings.node_lan_bind = remembered
        self.lan_bind = config.settings.node_lan_bind and config.listener_enabled
        host = "0.0.0.0" if self.lan_bind else "127.0.0.1"  # noqa: S104
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
            log.error(
                "The gateway can't listen on port %d: %s. Devices can still join through the Jupyter server; "
                "stop the other program or set SuzentApp.listener_port.",
                config.listener_port,
                error.strerror or error,
            )

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
