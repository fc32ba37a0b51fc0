"""The one spelling of another gateway's address, by which a join is found again however it is typed."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ..node.address import socket_url
from ..protocol.address import NODE_PATH, SCHEME_PORTS, in_url
from ..protocol.pairing_link import PairingLink

_LONGEST = 2048


def canonical_url(address: str) -> str:
    """Return the URL of a gateway's device socket.

    Parameters
    ----------
    address : str
        As :func:`~suzent_jupyter.node.address.socket_url` takes it, or a pairing link, of which only the address is
        left: its ticket is of use once.

    Raises
    ------
    ValueError
        When it is no such address.
    """
    text = address.strip()
    if not text or len(text) > _LONGEST:
        raise ValueError("Give the address of a gateway, such as ws://192.168.1.10:25314/ws/node.")
    parts = urlsplit(socket_url(PairingLink.parse(text).socket_url if PairingLink.is_link(text) else text))
    host = (parts.hostname or "").rstrip(".")
    try:
        host = str(ipaddress.ip_address(host))
    except ValueError:
        pass  # a name
    netloc = in_url(host)
    if parts.port and parts.port != SCHEME_PORTS[parts.scheme]:
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))


class PeerAddress(NamedTuple):
    """Where a peer is: its base URL, the key it must show (None for no word of it), and who it must be."""

    base_url: str
    pin: str | None = None
    gateway_id: str = ""


def peer_address(address: str) -> PeerAddress:
    """Return where the routes of another gateway are.

    Parameters
    ----------
    address : str
        ``host``, ``host:port``, an ``http``, ``https``, ``ws`` or ``wss`` URL, also of a mount such as
        ``http://host:8888/suzent``, or a pairing link, whose pin is taken along.

    Raises
    ------
    ValueError
        When it is no such address.
    """
    parts = urlsplit(canonical_url(address))
    if parts.query:
        raise ValueError("The address of a gateway has no query: leave out what stands behind the ?.")
    base = urlunsplit((f"http{parts.scheme.removeprefix('ws')}", parts.netloc, parts.path, "", ""))
    base = base.removesuffix(NODE_PATH)
    if not PairingLink.is_link(address):
        return PeerAddress(base)
    link = PairingLink.parse(address)
    return PeerAddress(base, link.pin if parts.scheme == "wss" else None, link.gateway_id)


def socket_of(base_url: str) -> str:
    """Return the URL of a gateway's device socket."""
    return f"ws{base_url.removeprefix('http')}{NODE_PATH}"
