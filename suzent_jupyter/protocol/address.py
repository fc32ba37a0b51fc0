"""What every part must know of a gateway's address: its usual ports and path, and how a host is written in a URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

#: Where gateways listen unless told otherwise; the second is TLS.
DEFAULT_PORT = 25314
DEFAULT_TLS_PORT = 25315
#: Below a gateway's address, the WebSocket of devices.
NODE_PATH = "/ws/node"
#: Likewise, that of nodes which prove who they are with a key.
GATEWAY_PATH = "/ws/gateway"
#: The port of a URL that names none (RFC 9110 section 4.2, RFC 6455 section 3).
SCHEME_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}
_HTTP = {"ws": "http", "http": "http", "wss": "https", "https": "https"}
_LONGEST_ADDRESS = 2048
_NOT_IN_A_URL = frozenset('\\"<>^`{|}')  # RFC 3986 appendix A: in no part of one


def in_url(host: str) -> str:
    """Return a host as it stands in a URL: IPv6 in brackets (RFC 3986 section 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def http_base(address: Any) -> str:
    """Return the http(s) URL below which a gateway's routes are, from what somebody gave; ``""`` where it is none.

    Without user name, query, fragment and a port that the scheme means anyway; ``ws`` and ``wss`` and the paths of the
    devices' sockets are taken as well.

    Examples
    --------
    >>> http_base("wss://Lab.local:25315/ws/node"), http_base("javascript:alert(1)")
    ('https://lab.local:25315', '')
    """
    if not isinstance(address, str) or len(address) > _LONGEST_ADDRESS:
        return ""
    text = address.strip()
    if not text.isprintable() or any(char.isspace() or char in _NOT_IN_A_URL for char in text):
        return ""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    scheme = _HTTP.get(parts.scheme)
    if scheme is None or not host or port == 0:
        return ""
    path = without_socket(parts.path)
    shown = "" if port in (None, SCHEME_PORTS[scheme]) else f":{port}"
    return f"{scheme}://{in_url(host)}{shown}{path}"


def without_socket(path: str) -> str:
    """Return the path below which a gateway's routes are, given that or the path of one of its devices' sockets."""
    path = path.rstrip("/")
    return path.removesuffix(NODE_PATH if path.endswith(NODE_PATH) else GATEWAY_PATH).rstrip("/")


def is_loopback_host(host: str) -> bool:
    """Tell whether a URL's host, in lower case and without brackets, is this machine, where a proxy has no business."""
    return host in ("localhost", "::1") or host.startswith("127.")
