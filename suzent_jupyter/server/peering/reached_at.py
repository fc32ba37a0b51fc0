"""At which address of ours a peer reaches us: the one on the way to it."""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from ...discovery.addresses import LocalAddress
from ...protocol.address import SCHEME_PORTS
from ..addresses import Bound, places
from ..public_url import is_local

_RESOLVE_SECONDS = 3.0


class OwnUrl(NamedTuple):
    """A base URL of this gateway, with its port, and the key it shows there (``""`` for none)."""

    url: str
    pin: str = ""


async def reached_at(peer_url: str, bound: Bound, public_url: str) -> OwnUrl:
    """Return where the peer at ``peer_url`` reaches this gateway; an empty URL where it can't.

    The operating system is asked which of our addresses packets to that peer would bear: on a tailnet it is the
    tailnet's, on the LAN the LAN's, and loopback's for a peer on this machine.
    """
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            source = await asyncio.to_thread(_source, peer_url)
    except (OSError, UnicodeError, TimeoutError):
        source = ""
    if source and _is_loopback(source):
        if bound.port is not None:
            return OwnUrl(f"http://127.0.0.1:{bound.port}")
        return OwnUrl(public_url)
    own = [LocalAddress("", source, "lan")] if source and (":" not in source or bound.ipv6) else []
    for place in places(bound, own, public_url):
        if place.kind == "local":
            continue
        if place.kind == "lan" and bound.plaintext_for_others:
            # A Suzent server knows neither pins nor our certificate.
            return OwnUrl(f"http://{place.host}:{bound.port}")
        return OwnUrl(place.base_url, place.pin)
    return OwnUrl(public_url) if public_url and not is_local(public_url) else OwnUrl("")


def _source(peer_url: str) -> str:
    parts = urlsplit(peer_url)
    port = parts.port or SCHEME_PORTS.get(parts.scheme, 80)
    for family, kind, _, _, address in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(address)  # sends nothing
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return ""


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
