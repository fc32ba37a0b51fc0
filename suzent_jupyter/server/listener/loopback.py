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
        known = await asyncio.to_thread(same_user, context.address)
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


def same_user(peer: tuple[Any, ...]) -> bool:
    """Tell whether the socket at ``peer`` (address, port, …) belongs to this OS user; False if undecidable.

    Blocks: it reads ``/proc/net/tcp`` and ``tcp6`` on Linux (proc(5)), and asks psutil elsewhere.
    """
    try:
        if sys.platform == "linux":
            return _proc_net_uid(str(peer[0]), int(peer[1])) == os.getuid()
        import psutil

        pids = {process.pid for process in psutil.process_iter() if _is_ours(process)}
        return any(
            connection.laddr and connection.laddr.port == peer[1] and connection.pid in pids
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


def _proc_net_uid(address: str, port: int) -> int | None:
    parsed = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    wanted = {(parsed, port)}
    if isinstance(parsed, ipaddress.IPv4Address):
        wanted.add((ipaddress.ip_address(f"::ffff:{parsed}"), port))
    elif parsed.ipv4_mapped:
        wanted.add((parsed.ipv4_mapped, port))
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        path = Path(table)
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            columns = line.split()
            host, _, hex_port = columns[1].partition(":")
            if (_proc_address(host), int(hex_port, 16)) in wanted:
                return int(columns[7])
    return None


def _proc_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Decode an address of ``/proc/net/tcp``: 32-bit words in host byte order."""
    words = [int(text[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))
