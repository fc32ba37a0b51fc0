"""Where a gateway is: what people type or the environment holds, turned into the URL of its device socket."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

from ..protocol.address import DEFAULT_PORT, NODE_PATH, in_url, is_loopback_host, without_socket
from ..protocol.pairing_link import PairingLink

DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
_SCHEMES = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}


def pairing_link(address: str | None = None) -> PairingLink | None:
    """Return the pairing link that ``address``, or else ``SUZENT_BASE_URL``, is; None for a plain address.

    Raises
    ------
    ValueError
        When the link is damaged.
    """
    text = address or os.environ.get("SUZENT_BASE_URL") or ""
    return PairingLink.parse(text) if PairingLink.is_link(text) else None


def socket_url(address: str | None = None, socket: str = NODE_PATH) -> str:
    """Return the WebSocket URL of a gateway.

    Parameters
    ----------
    address : str, optional
        ``ws://``, ``wss://``, ``http://`` or ``https://`` URL, or ``host`` or ``host:port``. Without a scheme the port
        is 25314 unless given. A path that does not end in that of a device socket is taken for a base URL. By default
        the environment variable ``SUZENT_BASE_URL``, else this machine.
    socket : str
        Which of its sockets: ``/ws/node`` or ``/ws/gateway``.

    Returns
    -------
    str
        Never with user name, password or fragment: what stands before an ``@`` is a token of another door.

    Raises
    ------
    ValueError
        When it is no such address.
    """
    text = (address or os.environ.get("SUZENT_BASE_URL") or DEFAULT_ADDRESS).strip()
    bare = "://" not in text
    try:
        parts = urlsplit(f"ws://{text}" if bare else text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _no_address(text) from None
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not host or port == 0 or any(char.isspace() or not char.isprintable() for char in text):
        raise _no_address(text)
    if bare and port is None:
        port = DEFAULT_PORT
    path = without_socket(parts.path) + socket
    netloc = in_url(host)
    return urlunsplit((scheme, f"{netloc}:{port}" if port else netloc, path, parts.query, ""))


def _no_address(text: str) -> ValueError:
    # Before an @ may stand a token, and behind a # a ticket.
    shown = "That" if "@" in text or "#" in text else repr(text)
    return ValueError(
        f"{shown} is not the address of a gateway; give one like ws://192.168.1.10:{DEFAULT_PORT}{NODE_PATH}"
    )


def is_loopback(url: str) -> bool:
    """Tell whether ``url`` names this machine, where a proxy has no business."""
    return is_loopback_host(urlsplit(url).hostname or "")
