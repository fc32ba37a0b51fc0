"""The gateway alone: the listener's Tornado application and nothing of Jupyter's kernels or files."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, ClassVar

from jupyter_core.application import JupyterApp
from tornado.log import LogFormatter
from traitlets import default

from .._version import __version__
from .config import SuzentTraits
from .logs import join_log
from .service import AlreadyRunningError, GatewayService


class StandaloneGateway(SuzentTraits, JupyterApp):  # type: ignore[misc]
    """Run the gateway without a Jupyter server; options as of SuzentApp."""

    name = "jupyter-suzent-gateway"
    description = "The gateway your devices join, without a Jupyter server."
    version = __version__
    config_file_name = "jupyter_suzent_config"
    _log_formatter_cls = LogFormatter  # that of Jupyter servers
    aliases: ClassVar[dict[str, str]] = {
        "port": "StandaloneGateway.listener_port",
        "data-dir": "StandaloneGateway.data_dir",
        "log-level": "Application.log_level",
    }
    flags: ClassVar[dict[str, Any]] = {
        "lan": ({"StandaloneGateway": {"node_lan_bind": True}}, "Listen for other devices, not on this machine alone."),
        "tls": ({"StandaloneGateway": {"tls": "auto"}}, "Serve TLS too, under a certificate made for this gateway."),
    }

    @classmethod
    def section_names(cls) -> list[str]:
        """Read the same section of config files as the Jupyter extension."""
        return [*super().section_names(), "SuzentApp"]

    @default("log_format")
    def _default_log_format(self) -> str:
        return "%(color)s[%(levelname)1.1s %(asctime)s.%(msecs).03d %(name)s]%(end_color)s %(message)s"

    def start(self) -> None:
        """Run until SIGINT or SIGTERM."""
        join_log(self, "tornado", "asyncio")
        asyncio.run(self._run())

    async def _run(self) -> None:
        service = GatewayService()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, stop.set)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
        config = self.service_config()
        config.may_be_guest = False  # it has no Jupyter mount, which is what guests are for
        try:
            await service.start(config)
        except AlreadyRunningError as error:
            self.log.error("%s Stop it first, or give this one a --data-dir of its own.", error)
            await service.stop()
            raise SystemExit(1) from None
        if service.port is None:
            await service.stop()
            raise SystemExit(1)
        self.log.info("The gateway runs at http://127.0.0.1:%d. Ctrl-C stops it.", service.port)
        await stop.wait()
        await service.stop()
