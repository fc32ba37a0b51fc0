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
from .addresses import PLAINTEXT, AddressBook, Bound
from .auth import KernelToken
from .listener import Listener
from .loopback import is_trusted
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
    require_ticket: bool = False
    #: The mount's address for programs on this machine, such as http://127.0.0.1:8888/suzent; None when alone.
    mount_url: str | None = None


def under_hub() -> bool:
    """Tell whether this process was started by JupyterHub, where other people's programs share the machine."""
    return any(name in os.environ for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"))


def in_binder() -> bool:
    """Tell whether this process was started by BinderHub, which sets ``BINDER_REPO_URL`` and its like."""
    return any(name.startswith("BINDER_") for name in os.environ)


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
        self.addresses = AddressBook(self)
        #: The Jupyter mount as people reach it, "" while unknown.
        self.public_url = ""
        #: Why devices can't join at the listener, "" while they can.
        self.problem = ""

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

    @property
    def tls_port(self) -> int | None:
        """The port of ``wss://``, None without one."""
        return None

    @property
    def pin(self) -> str:
        """What pairing links pin of the certificate, "" where there is none to pin."""
        return ""

    @property
    def plaintext_for_others(self) -> bool:
        """Whether other machines reach :attr:`port`, over ``ws://``."""
        return self._lan_bind and self.port is not None

    @property
    def identity(self) -> str:
        """The gateway's own id."""
        return self.gateway.identity

    @property
    def bound(self) -> Bound:
        """What is bound now."""
        for_others = self._lan_bind and (self.port is not None or self.tls_port is not None)
        return Bound(
            port=self.port,
            tls_port=self.tls_port,
            pin=self.pin,
            for_others=for_others,
            plaintext_for_others=self.plaintext_for_others,
            public_first=under_hub() or in_binder(),
        )

    @property
    def warnings(self) -> list[str]:
        """What the operator should know, a sentence each."""
        return [PLAINTEXT] if self.plaintext_for_others else []

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
            require_ticket=config.require_ticket,
            trusted_token=self._token.principal,
        )
        loading = asyncio.ensure_future(self._gateway.start())
        if self._listener is not None:
            self._listener.serve()
        if local is not None:
            await self._write_runtime_file(local, config)
        await loading
        if config.listener_enabled:
            self._gateway.started_with(node_lan_bind=self._lan_bind)
        elif config.settings.node_lan_bind:
            self.problem = "The listener is off (SuzentApp.listener_enabled): devices join through Jupyter only."
        for warning in self.warnings:
            log.warning("%s", warning)
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
            self.problem = (
                f"The gateway can't listen on port {config.listener_port}: {error.strerror or error}. "
                "Devices can still join through the Jupyter server; "
                "stop the other program or set SuzentApp.listener_port, then restart."
            )
            log.error("%s", self.problem)

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
            await self._gateway.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._runtime_file is not None:
            await _off_loop(self._runtime_file.remove)

    async def tokenless_principal(self, request: HTTPServerRequest) -> Principal:
        """Return who a request without a token is on the listener; ``unauthorized`` if nobody we trust."""
        if self._trust_loopback and await is_trusted(request):
            return Principal(Authority.FULL, self.gateway.account, self.gateway.org, "", "loopback")
        raise SuzentError("unauthorized", "This needs a token.")
