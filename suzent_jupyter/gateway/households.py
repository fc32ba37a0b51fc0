"""By what an address is counted where each may have only so much."""

from __future__ import annotations

import ipaddress

_ONE_SITE = 64  # bits; RFC 6177 and RFC 7421: whoever has one IPv6 address there has all of them


def counted_as(address: str) -> str:
    """Return what an address counts as: an IPv6 address as its /64, any other text as itself.

    Examples
    --------
    >>> counted_as("2001:db8::5"), counted_as("192.0.2.1")
    ('2001:db8::/64', '192.0.2.1')
    """
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, _ONE_SITE), strict=False))
