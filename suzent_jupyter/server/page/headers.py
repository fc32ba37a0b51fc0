"""The headers of the browser node: what the page may do, whatever gets into it."""

from __future__ import annotations

from urllib.parse import quote, unquote

from ...protocol.address import NODE_PATH
from ..listener.hosts import host_name

_FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(self), geolocation=(self), fullscreen=(self), screen-wake-lock=(self), "
    "microphone=(), payment=(), usb=(), display-capture=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page_headers(scheme: str, host: str, path: str, script: str, style: str) -> dict[str, str]:
    """Return the headers of the page.

    Parameters
    ----------
    scheme, host, path : str
        Where the page was asked for: ``http`` or ``https``, the ``Host`` header, and the path as it came.
    script, style : str
        Hashes of its only script and its only style sheet, as in CSP: ``sha256-…``.

    Raises
    ------
    SuzentError
        ``bad_host``: the header would become part of the policy.
    """
    policy = (
        "default-src 'none'",
        f"script-src '{script}'",
        f"style-src '{style}'",
        f"connect-src {_own_socket(scheme, host, path)}",
        "img-src data: blob:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        # Where a browser knows these, text can't become markup at all.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return {**_FIXED, "Content-Security-Policy": "; ".join(policy)}


def _own_socket(scheme: str, host: str, path: str) -> str:
    if ":" in host_name(host):
        return "'self'"  # CSP has no way to write an IPv6 address
    # A policy compares paths percent-decoded; quoted like this nothing in one can end the directive.
    place = quote(unquote(path).rstrip("/").removesuffix("/node"), safe="/") + NODE_PATH
    # Behind a proxy that ends TLS unseen, the page is https although the request is not.
    schemes = ("wss",) if scheme == "https" else ("ws", "wss")
    return " ".join(f"{each}://{host}{place}" for each in schemes)
