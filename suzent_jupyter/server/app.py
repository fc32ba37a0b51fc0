"""The Jupyter server extension."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join

from .._version import __version__
from .config import SuzentTraits
from .logs import join_log, leave_log
from .mount import FORWARDERS, HANDLERS, Mount
from .public_url import hub_url, watch
from .service import GatewayService

_STOP_SECONDS = 3.0


class SuzentApp(SuzentTraits, ExtensionApp):
    """The gateway your devices join, inside the Jupyter server."""

    name = "suzent"
    extension_url = "/suzent"
    load_other_extensions = True
    version = __version__

    def initialize_settings(self) -> None:
        """Make the service, so that handlers can be mounted; it starts with the server."""
        self.service = GatewayService()

    def initialize_handlers(self) -> None:
        """Mount the route table under ``{base_url}suzent``."""
        assert self.serverapp is not None
        Mount(self.serverapp.web_app, self.serverapp.base_url, self.service)
        self.service.public_url = hub_url()
        watch(self.serverapp.web_app.settings, self.service)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        join_log(serverapp)
        config = self.service_config(local_url(serverapp))
        config.contents = serverapp.contents_manager
        await self.service.start(config, HANDLERS, FORWARDERS)

    async def stop_extension(self) -> None:
        """Stop the gateway; whatever happens, the server's own shutdown goes on."""
        try:
            await asyncio.wait_for(self.service.stop(), _STOP_SECONDS)
        except Exception:
            self.log.exception("The gateway did not stop cleanly")
        finally:
            if self.serverapp is not None:
                leave_log(self.serverapp)


def local_url(serverapp: Any) -> str | None:
    """Return the mount's address for programs on this machine; None on a Unix socket."""
    if serverapp.sock:
        return None
    parts = urlsplit(serverapp.local_url)
    return str(urlunsplit((parts.scheme, parts.netloc, url_path_join(serverapp.base_url, "suzent"), "", "")))
