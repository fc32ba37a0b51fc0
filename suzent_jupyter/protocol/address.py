"""What every part must know of a gateway's address: its usual ports and path, and how a host is written in a URL."""

from __future__ import annotations

#: Where gateways listen unless told otherwise; the second is TLS.
DEFAULT_PORT = 25314
DEFAULT_TLS_PORT = 25315
#: Below a gateway's address, the WebSocket of devices.
NODE_PATH = "/ws/node"
#: The port of a URL that names none (RFC 9110 section 4.2, RFC 6455 section 3).
SCHEME_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}


def in_url(host: str) -> str:
    """Return a host as it stands in a URL: IPv6 in brackets (RFC 3986 section 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def is_loopback_host(host: str) -> bool:
    """Tell whether a URL's host, in lower case and without brackets, is this machine, where a proxy has no business."""
    return host in ("localhost", "::1") or host.startswith("127.")
