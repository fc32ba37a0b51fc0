"""Addresses of this machine that are not loopback."""

from __future__ import annotations

import ipaddress
import socket

import psutil


def external_address() -> str | None:
    """Return an IPv4 address other machines could use, or None."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not ipaddress.ip_address(each.address).is_loopback:
                return str(each.address)
    return None
