"""``trust_loopback="auto"``: Suzent's trust of local programs, for requests that really are a local program's.

Every guard answers an attack that was seen: DNS rebinding (`Host`), web pages (`Origin`, `Sec-Fetch-*`, `Cookie`),
proxies on the same machine (forwarding headers), and other users of the machine (who owns the connecting socket).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
from pathlib import Path
from typing import Any

from tornado.httputil import HTTPServerRequest

from ..auth import has_browser_headers, has_forwarding_headers, is_loopback, peer_address

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_End = tuple[_Address, int]


async def is_trusted(request: HTTPServerRequest) -> bool:
    """Tell whether a request without a token comes from a program of this OS user on this machine."""
    headers = request.headers
    if "Cookie" in headers or has_browser_headers(headers) or has_forwarding_headers(headers):
        return False
    peer = peer_address(request)
    if not peer or not is_loopback(peer) or not _is_local_host(headers.get("Host", "")):
        return False
    context: Any = getattr(request.connection, "context", None)
    known: bool | None = getattr(context, "suzent_same_user", None)
    if known is None:
        stream: Any = getattr(request.connection, "stream", None)
        if stream is None or stream.socket is None:
            return False
        own = stream.socket.getsockname()
        known = await asyncio.to_thread(same_user, context.address, own)
        context.suzent_same_user = known  # the socket keeps its owner, so once a connection is enough
    return known


def _is_local_host(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]")
    if name.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def same_user(peer: tuple[Any, ...], own: tuple[Any, ...]) -> bool:
    """Tell whether the socket at ``peer`` that is connected to ``own`` belongs to this OS user; False if undecidable.

    Both are (address, port, …). One port of another user's may be connected to several places, so one end alone says
    nothing. Blocks: it reads ``/proc/net/tcp`` and ``tcp6`` on Linux (proc(5)), and asks psutil elsewhere.
    """
    try:
        if sys.platform == "linux":
            return _proc_net_uid(_end(peer), _end(own)) == os.getuid()
        import psutil

        pids = {process.pid for process in psutil.process_iter() if _is_ours(process)}
        return any(
            connection.laddr
            and connection.raddr
            and (connection.laddr.port, connection.raddr.port) == (peer[1], own[1])
            and connection.pid in pids
            for connection in psutil.net_connections("tcp")
        )
    except Exception:
        return False


def _is_ours(process: Any) -> bool:
    import psutil

    try:
        return bool(process.username() == psutil.Process().username())
    except psutil.Error:
        return False


def _end(address: tuple[Any, ...]) -> _End:
    return _plain(ipaddress.ip_address(str(address[0]).split("%", maxsplit=1)[0])), int(address[1])


def _plain(address: _Address) -> _Address:
    """Return IPv4 as such, also where a socket of both families shows it within IPv6."""
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address


def _proc_net_uid(peer: _End, own: _End) -> int | None:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        path = Path(table)
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            columns = line.split()
            if _proc_end(columns[1]) == peer and _proc_end(columns[2]) == own:
                return int(columns[7])
    return None


def _proc_end(text: str) -> _End:
    """Decode an end of ``/proc/net/tcp``: the address in 32-bit words of host byte order, and the port."""
    host, _, port = text.partition(":")
    words = [int(host[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(host), 8)]
    return _plain(ipaddress.ip_address(b"".join(words))), int(port, 16)
