"""Whether an address leads back to this very gateway."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from ..discovery.addresses import interface_addresses
from ..protocol.address import NODE_PATH, SCHEME_PORTS

_RESOLVE_SECONDS = 3.0


class OwnAddress:
    """Where this gateway is reached.

    Parameters
    ----------
    ports : callable
        Returns the ports it listens on itself.
    mount_url : str, optional
        The mount's address, of which port and path count.
    """

    def __init__(self, ports: Callable[[], set[int]], mount_url: str | None) -> None:
        self._ports = ports
        parts = urlsplit(mount_url or "")
        self._mount_port = parts.port or SCHEME_PORTS.get(parts.scheme)
        self._mount_path = f"{parts.path.rstrip('/')}{NODE_PATH}"

    async def is_meant(self, url: str) -> bool:
        """Tell whether a device socket's URL is ours by port, path and address. A name that leads nowhere is not."""
        parts = urlsplit(url)
        port = parts.port or SCHEME_PORTS[parts.scheme]
        mounted = port == self._mount_port and parts.path == self._mount_path
        if not mounted and port not in self._ports():
            return False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
                local = set(await asyncio.to_thread(interface_addresses))
        except (OSError, TimeoutError, UnicodeError):
            return False
        return any(_is_here(str(address[4][0]), local) for address in found)


def _is_here(text: str, local: set[str]) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return address.is_loopback or address.is_unspecified or str(address) in local
