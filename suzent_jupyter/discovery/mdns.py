"""The mDNS service of gateways (RFC 6762, RFC 6763): its shape, and the multicast sockets.

Suzent advertises ``display_name``, ``auth_mode`` and ``path``; ``tls_port`` is our own. No key pin stands here, since
anyone on the network may write one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..protocol.address import NODE_PATH
from .names import txt_value

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

SERVICE_TYPE = "_suzent-node._tcp.local."
AUTH_MODE = "approve"


@dataclass(frozen=True, slots=True)
class Service:
    """What a gateway says of itself.

    Attributes
    ----------
    display_name : str
        How it calls itself.
    port, tls_port : int
        Of the listener; ``tls_port`` is None without TLS.
    addresses : tuple of str
        IP addresses at which it listens.
    tag : str
        See :func:`.names.stable_tag`; the host name of its records is made of it.
    """

    display_name: str
    port: int
    tls_port: int | None
    addresses: tuple[str, ...]
    tag: str

    @property
    def server(self) -> str:
        """The host name of its records: not that of the machine, which may be another program's to defend."""
        return f"suzent-{self.tag}.local."

    def info(self, label: str) -> AsyncServiceInfo:
        """Return its records under one instance label."""
        from zeroconf.asyncio import AsyncServiceInfo

        properties = {"display_name": self.display_name, "auth_mode": AUTH_MODE, "path": NODE_PATH}
        if self.tls_port is not None:
            properties["tls_port"] = str(self.tls_port)
        return AsyncServiceInfo(
            SERVICE_TYPE,
            f"{label}.{SERVICE_TYPE}",
            parsed_addresses=list(self.addresses),
            port=self.port,
            properties={key: txt_value(key, value) for key, value in properties.items()},
            server=self.server,
        )


async def open_zeroconf(interfaces: Sequence[str] | None) -> AsyncZeroconf:
    """Return open multicast sockets: IPv4 and IPv6 of every interface, or those of the given addresses.

    Raises
    ------
    OSError
        When there is no multicast here.
    """
    await asyncio.to_thread(import_module, "zeroconf.asyncio")
    from zeroconf import InterfaceChoice, IPVersion
    from zeroconf.asyncio import AsyncZeroconf

    logger = logging.getLogger("zeroconf")
    if logger.level in (logging.NOTSET, logging.WARNING):
        logger.setLevel(logging.ERROR)  # it warns of each interface that takes no multicast
    if interfaces is not None:
        return AsyncZeroconf(interfaces=list(interfaces), ip_version=IPVersion.V4Only)
    try:
        return AsyncZeroconf(interfaces=InterfaceChoice.All, ip_version=IPVersion.All)
    except OSError:  # IPv6 is switched off
        return AsyncZeroconf(interfaces=InterfaceChoice.All, ip_version=IPVersion.V4Only)


async def within(seconds: float, work: Awaitable[Any]) -> bool:
    """Wait for work, but not longer; whether it is done. What hangs is cancelled and not waited for."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait([task], timeout=seconds)
    if not done:
        task.cancel()
    return bool(done)
