"""The mount as people reach it: behind JupyterHub, Binder or a proxy that is a URL only the browser knows."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from .auth import find_token, is_loopback

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from .service import GatewayService

# A host name, an IPv4 address or an IPv6 one in brackets, with a port or without (RFC 3986 section 3.2.2).
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def public_url(handler: Any) -> str:
    """Return the mount's URL as the caller of a request sees it, ``""`` if the request names no proper host.

    Scheme and host are those of Jupyter: forwarded headers count only with ``ServerApp.trust_xheaders``.
    """
    return mount_url(handler.request, f"{handler.settings.get('base_url', '/')}suzent")


def mount_url(request: HTTPServerRequest, root: str) -> str:
    """Return the same of a mount at ``root``, such as ``/user/ada/suzent``."""
    host = request.host or ""
    if request.protocol not in ("http", "https") or not _HOST.fullmatch(host):
        return ""
    path = quote(root, safe="/%@:+~!$&'(),;=")
    return f"{request.protocol}://{host}{path}"


def is_local(url: str) -> bool:
    """Tell whether a URL leads to this machine only from this machine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)


def best_url(seen: str, known: str) -> str:
    """Return the mount's URL for others: as the caller ``seen`` it, unless that is loopback and a better is ``known``.

    Kernels without a listener come over loopback too.
    """
    return known if known and (not seen or is_local(seen)) else seen


def hub_url() -> str:
    """Return the mount's public URL where JupyterHub knows it (its setting ``public_url``), else ``""``."""
    server = os.environ.get("JUPYTERHUB_PUBLIC_URL", "")
    return f"{server.rstrip('/')}/suzent" if re.match(r"https?://", server) else ""


def watch(settings: dict[str, Any], service: GatewayService) -> None:
    """Learn the public URL from what browsers of authenticated users ask the Jupyter server for, whatever it is.

    Kernels and terminals reach the gateway on loopback and can't know it. Nobody else is believed: a stranger's
    ``Host`` would lead invited devices astray.
    """
    log = settings.get("log_function")

    def log_function(handler: Any) -> None:
        if _is_browser_of_user(handler) and (url := public_url(handler)) and not is_local(url):
            service.public_url = url
        if log is not None:
            log(handler)

    settings["log_function"] = log_function


def _is_browser_of_user(handler: Any) -> bool:
    headers = handler.request.headers
    if getattr(handler, "_jupyter_current_user", None) is None or "Cookie" not in headers:
        return False
    try:
        return handler.get_status() < 400 and find_token(headers) is None
    except Exception:  # whatever it was, the request has been refused for it
        return False
