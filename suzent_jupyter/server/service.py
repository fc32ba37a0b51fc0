"""A running gateway: hub, listener, kernel environment and runtime file, started and stopped together.

The Jupyter extension and the stand-alone command both run one of these.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..gateway import Authority, Principal
from ..gateway.settings import Settings
from ..gateway.store import peek_setting
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from .attempts import BadTokens
from .auth import KernelToken, take_note
from .listener import Listener
from .loopback import is_trusted
from .open_sockets import OpenSockets
from .runtime import KernelEnvironment, RuntimeFile

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from ..gateway import Gateway

log = logging.getLogger("suzent_jupyter")
T = TypeVar("T")


def _off_loop(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)


@dataclass(slots=True, kw_only=True)
class ServiceConfig:
    """What a gateway needs to know to start; see the traits of the same names."""

    data_dir: Path
    account: str
    org: str = ""
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    listener_enabled: bool = True
    listener_port: int = 25314
    trust_loopback: str = "never"
    #: The mount's address for programs on this machine, such as http://127.0.0.1:8888/suzent; None when alone.
    mount_url: str | None = None


def under_hub() -> bool:
    """Tell whether this process was started by JupyterHub, where other people's programs share the machine."""
    return any(name in os.environ for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"))


class GatewayService:
    """Starts with :meth:`start`, on the loop it works on; until then every request is told to wait."""

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._listener: Listener | None = None
        self._environment = KernelEnvironment()
        self._runtime_file: RuntimeFile | None = None
        self._trust_loopback = False
        self._stopping = False
        self._lan_bind = False
        self._token: KernelToken | None = None
        self.open_sockets = OpenSockets()

    @property
    def kernel_token(self) -> KernelToken:
        """The kernels' token."""
        assert self._token is not None
        return self._token

    @property
    def running(self) -> bool:
        """Whether requests are answered."""
        return self._gateway is not None and not self._stopping

    @property
    def gateway(self) -> Gateway:
        """The hub; ``stopping`` while there is none."""
        if self._gateway is None:
            raise SuzentError("stopping", "The gateway is starting.")
        return self._gateway

    @property
    def port(self) -> int | None:
        """The listener's port, None without a listener."""
        return self._listener.port if self._listener is not None else None

    def check_running(self) -> None:
        """Refuse while the gateway is not there: ``stopping``."""
        if not self.running:
            raise SuzentError("stopping", "The gateway is starting or stopping.")

    async def start(self, config: ServiceConfig, *modules: str) -> None:
        """Start everything. A listener that can't be bound is reported and left out; all else works without it.

        Kernels find the gateway in their environment from the first step on; what takes long comes after it, off the
        event loop, while the server already answers. ``modules`` are loaded there too.
        """
        self._token = KernelToken(config.account, config.org)
        self.bad_tokens = BadTokens(config.limits)
        self._trust_loopback = config.trust_loopback == "auto" and not under_hub()
        if config.listener_enabled:
            await self._bind(config)
        local = f"http://127.0.0.1:{self.port}" if self.port is not None else config.mount_url
        if local is not None:
            token = self.kernel_token.value
            self._environment.set(local.replace("://", f"://suzent:{token}@", 1), token)
        for module in ("suzent_jupyter.gateway.gateway", "suzent_jupyter.server.application", *modules):
            await _off_loop(import_module, module)
        from ..gateway.gateway import Gateway

        self._gateway = Gateway(
            config.data_dir,
            config.settings,
            config.limits,
            account=config.account,
            org=config.org,
            trusted_token=self._token.principal,
        )
        loading = asyncio.ensure_future(self._gateway.start())
        if self._listener is not None:
            self._listener.serve()
        if local is not None:
            await self._write_runtime_file(local, config)
        await loading
        if self.port is not None:
            log.info("The gateway's devices join at ws://127.0.0.1:%d/ws/node", self.port)

    async def _bind(self, config: ServiceConfig) -> None:
        if "node_lan_bind" not in config.settings.fixed:
            remembered = await _off_loop(peek_setting, config.data_dir, "node_lan_bind")
            if isinstance(remembered, bool):
                config.settings.node_lan_bind = remembered
        self._lan_bind = config.settings.node_lan_bind
        listener = Listener(self, "0.0.0.0" if self._lan_bind else "127.0.0.1", config.listener_port)  # noqa: S104
        try:
            listener.bind()
            self._listener = listener
        except OSError as error:
            log.error(
                "The gateway can't listen on port %d: %s. Devices can still join through the Jupyter server; "
                "stop the other program or set SuzentApp.listener_port.",
                config.listener_port,
                error.strerror or error,
            )

    async def _write_runtime_file(self, url: str, config: ServiceConfig) -> None:
        facts = {
            "url": url,
            "token": self.kernel_token.value,
            "mount_url": config.mount_url,
            "data_dir": str(config.data_dir),
        }
        self._runtime_file = RuntimeFile()
        try:
            await _off_loop(self._runtime_file.write, facts)
        except OSError as error:
            log.warning("Terminals won't find this gateway by themselves: %s", error)
            self._runtime_file = None

    async def stop(self) -> None:
        """Stop listening, tell every device, close everything."""
        self._stopping = True
        self._environment.restore()
        if self._listener is not None:
            self._listener.stop_listening()
        if self._gateway is not None:
            # The devices answer our goodbye while the store is written.
            await asyncio.gather(self._gateway.stop(), self.open_sockets.close())
        if self._listener is not None:
            await self._listener.close()
        if self._runtime_file is not None:
            await _off_loop(self._runtime_file.remove)

    async def tokenless_principal(self, request: HTTPServerRequest) -> Principal:
        """Return who a request without a token is on the listener; ``unauthorized`` if nobody we trust."""
        if self._trust_loopback and await is_trusted(request):
            take_note(request)
            return Principal(Authority.FULL, self.gateway.account, self.gateway.org, "", "loopback")
        raise SuzentError("unauthorized", "This needs a token.")

    def addresses(self) -> dict[str, Any]:
        """Return the address fields of ``GET /nodes/config``: what is bound now, not what is wanted."""
        from ..protocol.rest import Address

        addresses = []
        if self.port is not None:
            url = f"ws://127.0.0.1:{self.port}/ws/node"
            addresses.append(Address(label="This machine", host="127.0.0.1", gateway_url=url))
        return {
            "binding_active": self._lan_bind and self.port is not None,
            "port": self.port,
            "addresses": addresses,
            "lan_host": None,
            "gateway_url": addresses[0].gateway_url if addresses else None,
        }
