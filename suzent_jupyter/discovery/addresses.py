"""The addresses of this machine that another machine can use."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Literal

from ..protocol.text import clean_text

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_TAILSCALE = (ipaddress.ip_network("100.64.0.0/10"), ipaddress.ip_network("fd7a:115c:a1e0::/48"))
# RFC 2544: VPN programs hand these out on a network that ends in this machine.
_BENCHMARK = ipaddress.ip_network("198.18.0.0/15")
# Bridges of container and virtual machine programs: only what runs on this machine reaches them.
_BRIDGE = re.compile(r"(docker|podman|virbr|lxcbr|lxdbr|cni|vmnet|vboxnet)\d+|br-[0-9a-f]{12}|cilium_\w+")
# Documentation networks (RFC 5737, RFC 3849): nothing is sent to them, only a route is looked up.
_FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """One address of this machine.

    Attributes
    ----------
    label : str
        For people: ``LAN``, ``LAN (eth1)``, ``Tailscale``, ``Tailscale (MagicDNS)``.
    host : str
        An IP address without brackets, or a DNS name.
    kind : str
        ``lan`` or ``tailscale``.
    """

    label: str
    host: str
    kind: Literal["lan", "tailscale"]


def parse_ip(text: object) -> IPAddress | None:
    """Return a string as an IP address without zone, None if it is none."""
    try:
        address = ipaddress.ip_address(text) if isinstance(text, str) and len(text) <= 64 else None
    except ValueError:
        return None
    return None if isinstance(address, ipaddress.IPv6Address) and address.scope_id else address


def is_tailscale(address: IPAddress) -> bool:
    """Tell whether an address belongs to a tailnet."""
    return any(address.version == network.version and address in network for network in _TAILSCALE)


async def local_addresses() -> list[LocalAddress]:
    """Return this machine's own addresses, the one on the way to the internet first, IPv4 before IPv6.

    Loopback, link-local IPv6 (useless without a zone) and container bridges are left out, link-local IPv4 where there
    is anything better. Reading them asks the operating system only, in a thread.
    """
    return await asyncio.to_thread(read_addresses)


def interface_addresses() -> list[str]:
    """Return every IP address of every interface, of use to others or not, without zones. Blocks.

    Raises
    ------
    OSError
        Where the operating system does not tell, as in some sandboxes.
    """
    import psutil

    found = [each for entries in psutil.net_if_addrs().values() for each in entries]
    return [each.address.partition("%")[0] for each in found if each.family in (socket.AF_INET, socket.AF_INET6)]


def read_addresses() -> list[LocalAddress]:
    """Return the same, blocking."""
    import psutil

    preferred = {address for family, far in _FAR if (address := _source(family, far)) is not None}
    up = psutil.net_if_stats()
    found: list[tuple[tuple[bool, ...], str, IPAddress]] = []
    for interface, entries in psutil.net_if_addrs().items():
        state = up.get(interface)
        if state is None or not state.isup:
            continue
        bridge = _BRIDGE.fullmatch(interface) is not None
        for entry in entries:
            address = parse_ip(entry.address) if entry.family in (socket.AF_INET, socket.AF_INET6) else None
            if address is None or not _useful(address) or (bridge and address not in preferred):
                continue
            tunnel = "pointopoint" in (state.flags or "").split(",")
            last = address.version == 4 and address.is_link_local
            rank = (address.version == 6, is_tailscale(address), last, tunnel, address not in preferred)
            found.append((rank, interface, address))
    if any(not rank[1] and not rank[2] for rank, _, _ in found):
        found = [each for each in found if not each[0][2]]
    found.sort(key=lambda each: each[0])
    interfaces = {interface for _, interface, address in found if not is_tailscale(address)}
    return [_labelled(address, interface, len(interfaces) > 1) for _, interface, address in found]


def _labelled(address: IPAddress, interface: str, several: bool) -> LocalAddress:
    if is_tailscale(address):
        return LocalAddress("Tailscale" if address.version == 4 else "Tailscale IPv6", str(address), "tailscale")
    label = "LAN" if address.version == 4 else "LAN IPv6"
    name = clean_text(interface, 32)
    return LocalAddress(f"{label} ({name})" if several and name else label, str(address), "lan")


def _useful(address: IPAddress) -> bool:
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return not (address.is_link_local or address.is_site_local)
    return address not in _BENCHMARK


def _source(family: socket.AddressFamily, far: str) -> IPAddress | None:
    """Return the address this machine would send from; connecting a UDP socket sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            return parse_ip(probe.getsockname()[0])
    except OSError:
        return None
