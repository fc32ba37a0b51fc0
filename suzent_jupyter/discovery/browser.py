"""Looks for other gateways on the local network by mDNS. Everything found was written by a stranger."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_text
from .addresses import IPAddress, parse_ip
from .mdns import SERVICE_TYPE, open_zeroconf, within

if TYPE_CHECKING:
    from zeroconf import ServiceStateChange, Zeroconf
    from zeroconf.asyncio import AsyncServiceInfo

SERVICES = 64
_ADDRESSES = 4
_LEAST_SECONDS = 0.2
_CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """One gateway on the local network.

    Attributes
    ----------
    name : str
        How it calls itself.
    hosts : tuple of str
        Its IP addresses, IPv4 first; at least one.
    port : int
        Of its listener.
    auth_mode : str
        ``approve`` where a device must be approved; ``unknown`` if it says nothing.
    tls_port : int or None
        Of its listener for TLS.
    server : str
        The host name of its records.
    """

    name: str
    hosts: tuple[str, ...]
    port: int
    auth_mode: str = "unknown"
    tls_port: int | None = None
    server: str = ""


async def browse(seconds: float, interfaces: Sequence[str] | None = None) -> list[Found]:
    """Return the gateways that answer within ``seconds``, at most 64.

    Raises
    ------
    OSError
        When there is no multicast here.
    """
    zeroconf = await open_zeroconf(interfaces)
    try:
        from zeroconf.asyncio import AsyncServiceBrowser

        collection = _Collection(asyncio.get_running_loop().time() + seconds, _acceptable(interfaces))
        browser = AsyncServiceBrowser(zeroconf.zeroconf, SERVICE_TYPE, handlers=[collection.on_change])
        await asyncio.sleep(seconds)
        await within(_CLOSE_SECONDS, browser.async_cancel())
        return await collection.results()
    finally:
        await within(_CLOSE_SECONDS, zeroconf.async_close())


def _acceptable(interfaces: Sequence[str] | None) -> Callable[[IPAddress], bool]:
    loopback = interfaces is not None and all(ipaddress.ip_address(each).is_loopback for each in interfaces)

    def check(address: IPAddress) -> bool:
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            return False  # nobody is reached so from elsewhere, but it could mean this machine
        if address.is_loopback:
            return loopback
        if address.is_unspecified or address.is_multicast or (address.version == 4 and address.is_reserved):
            return False
        return not (address.version == 6 and address.is_link_local)

    return check


class _Collection:
    """What one browse has seen so far."""

    def __init__(self, until: float, acceptable: Callable[[IPAddress], bool]) -> None:
        self._until = until
        self._acceptable = acceptable
        self._tasks: dict[str, asyncio.Task[Found | None]] = {}

    def on_change(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        """Take notice of a service that comes, changes or says goodbye."""
        old = self._tasks.pop(name, None)
        if old is not None:
            old.cancel()
        if state_change.name != "Removed" and len(self._tasks) < SERVICES and len(name) <= 255:
            self._tasks[name] = asyncio.ensure_future(self._resolve(zeroconf, name))

    async def _resolve(self, zeroconf: Zeroconf, name: str) -> Found | None:
        from zeroconf.asyncio import AsyncServiceInfo

        left = max(self._until - asyncio.get_running_loop().time(), _LEAST_SECONDS)
        info = AsyncServiceInfo(SERVICE_TYPE, name)
        return self._read(info) if await info.async_request(zeroconf, left * 1000) else None

    def _read(self, info: AsyncServiceInfo) -> Found | None:
        from zeroconf import IPVersion

        addresses = [ip for text in info.parsed_scoped_addresses(IPVersion.All) if (ip := parse_ip(text)) is not None]
        hosts = tuple(str(ip) for ip in sorted(addresses, key=lambda ip: ip.version) if self._acceptable(ip))
        if not hosts or not info.port or not 0 < info.port < 65536:
            return None
        text = {key: _text(info.properties.get(key.encode())) for key in ("display_name", "auth_mode", "tls_port")}
        instance = info.name.removesuffix("." + SERVICE_TYPE)
        port = text["tls_port"]
        return Found(
            name=clean_text(text["display_name"], 64) or clean_text(instance, 64) or hosts[0],
            hosts=hosts[:_ADDRESSES],
            port=info.port,
            auth_mode=clean_text(text["auth_mode"], 32) or "unknown",
            tls_port=int(port)
            if port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
            else None,
            server=(info.server or "").casefold()[:255],
        )

    async def results(self) -> list[Found]:
        """Return what was found, in the order of names."""
        done = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        found: list[Found] = [each for each in done if isinstance(each, Found)]
        return sorted(found, key=lambda each: (each.name.casefold(), each.hosts))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
