"""Addresses that others gave us: called only where they lead to the very host that is known by other means.

Whoever may name a URL that this gateway calls could otherwise reach what only this machine reaches: its own ports, its
network, a cloud's metadata service. An address the operator typed is not looked at here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ..protocol.address import SCHEME_PORTS, in_url
from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

_LONGEST = 2048
_RESOLVE_SECONDS = 3.0
_SCHEMES = ("http", "https")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(NamedTuple):
    """Where a checked URL leads: its one spelling, and the address to connect to, whatever a name says next."""

    url: str
    address: str


def normal_host(host: str) -> str:
    """Return the one spelling of a host.

    Addresses are written as :mod:`ipaddress` writes them, IPv4 in IPv6 as IPv4, and so are the spellings of IPv4 that
    resolvers take (``2130706433``, ``0x7f.1``, ``0177.0.0.1``; inet_aton(3)). Names are ASCII (RFC 3490), in lower
    case and without a dot at their end.

    Raises
    ------
    ValueError
        When it is none.
    """
    text = unicodedata.normalize("NFKC", host).casefold().removeprefix("[").removesuffix("]")
    if ":" in text:
        address: _Address = ipaddress.ip_address(text.replace("%25", "%", 1))
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return str(mapped or address)
    if not text or len(text) > 255 or any(not char.isprintable() or char in " %/\\?#@<>^|`{}\"'" for char in text):
        raise ValueError("This is no host.")
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise ValueError("This is no host.") from None
    last = name.rpartition(".")[2]
    if last[:1].isdigit() and (last.isdigit() or last.startswith("0x")):
        return str(_ipv4(name))
    return name


def _ipv4(text: str) -> ipaddress.IPv4Address:
    """Read an IPv4 address in any spelling of inet_aton(3)."""
    parts = text.split(".")
    if len(parts) > 4:
        raise ValueError("This is no address.")
    numbers = [_number(part) for part in parts]
    *heads, tail = numbers
    if any(number > 255 for number in heads) or tail >= 256 ** (4 - len(heads)):
        raise ValueError("This is no address.")
    value = tail + sum(number << (8 * (3 - index)) for index, number in enumerate(heads))
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int:
    if not text.isascii() or not text[:1].isdigit() or len(text) > 16 or "_" in text:
        raise ValueError("This is no address.")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)


def check_callback(url: str, allowed_hosts: Iterable[str]) -> str:
    """Return the one spelling of a URL that somebody gave, if it leads to one of the hosts; nothing is resolved.

    Parameters
    ----------
    url : str
        ``http://`` or ``https://``, without user name, query and fragment.
    allowed_hosts : iterable of str
        Addresses and names, in any spelling; brackets are no harm. All of loopback is one host.

    Raises
    ------
    SuzentError
        ``address_refused``.
    """
    return _check(url, allowed_hosts)[0]


async def target_of(url: str, allowed_hosts: Iterable[str]) -> Target:
    """Check a URL likewise, and find the address to connect to; a name may not lead to where only we get.

    Raises
    ------
    SuzentError
        ``address_refused``, or ``peer_unreachable`` for a name that leads nowhere.
    """
    allowed = list(allowed_hosts)
    checked, found = _check(url, allowed)
    parts = urlsplit(checked)
    if _address(found) is not None:
        return Target(checked, found)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            answers = await loop.getaddrinfo(found, parts.port or SCHEME_PORTS[parts.scheme], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise SuzentError("peer_unreachable", f"The name {clean_text(found, 100)} leads nowhere.") from None
    known = set(_known(allowed))
    # A machine of many addresses need not listen on all of them; the one it called from is the best.
    addresses = sorted((str(answer[4][0]) for answer in answers), key=lambda each: normal_host(each) not in known)
    for address in addresses:
        if not _is_inner(address) or any(_is_same(normal_host(address), host) for host in known):
            return Target(checked, address)
    raise _refused(url, f"its name leads to {addresses[0] if addresses else 'nothing'}")


def leads_inside(url: str, sender: str) -> bool:
    """Tell whether a URL names what only the machine that calls it reaches, and not its sender; nothing is resolved."""
    try:
        host = normal_host(urlsplit(url).hostname or "")
    except ValueError:
        return True
    if _address(host) is None:
        return host == "localhost" or host.endswith(".localhost")
    return _is_inner(host) and host not in _known([sender])


def _check(url: str, allowed_hosts: Iterable[str]) -> tuple[str, str]:
    """Return the URL's one spelling, and the host to connect to."""
    if not isinstance(url, str) or not 0 < len(url) <= _LONGEST:
        raise _refused(url, "it is no http:// or https:// address")
    # Parsers disagree on what these mean, and none of them stands in an address of a gateway.
    if any(not char.isprintable() or char in " \\" for char in url):
        raise _refused(url, "it holds characters that no address has")
    if "?" in url or "#" in url:
        raise _refused(url, "it has a query or fragment")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = normal_host(parts.hostname or "")
    except ValueError:
        raise _refused(url, "its host can't be read") from None
    if parts.scheme not in _SCHEMES:
        raise _refused(url, "only http:// and https:// are called")
    if "@" in parts.netloc:
        raise _refused(url, "it names a user")
    if port == 0 or parts.netloc.endswith(":"):
        raise _refused(url, "its port can't be read")
    if not parts.path.isascii() or any(part in (".", "..") for part in parts.path.split("/")):
        raise _refused(url, "its path can't be read")
    matching = [known for known in _known(allowed_hosts) if _is_same(host, known)]
    if not matching:
        raise _refused(url, "it leads to another host than the one that gave it")
    # The zone of a link-local address is known by the connection alone: it names an interface of this machine.
    scoped = [known for known in matching if "%" in known and "%" not in host]
    netloc = in_url(host)
    if port is not None and port != SCHEME_PORTS[parts.scheme]:
        netloc += f":{port}"
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")), scoped[0] if scoped else host


def _known(hosts: Iterable[str]) -> list[str]:
    known = []
    for host in hosts:
        try:
            known.append(normal_host(host))
        except ValueError:
            continue
    return known


def _is_same(host: str, other: str) -> bool:
    if host == other:
        return True
    if "%" in other and "%" not in host:
        return host == other.partition("%")[0]
    return _is_loopback(host) and _is_loopback(other)


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_inner(text: str) -> bool:
    """Tell whether an address leads where only this machine gets: itself, its link, a cloud's metadata, everybody."""
    address = _address(normal_host(text))
    if address is None:
        return True
    return address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast


def _refused(url: object, why: str) -> SuzentError:
    shown = clean_text(url, 100)
    if any(char in shown for char in "@?#"):
        shown = "It"  # what may be a secret stands there
    return SuzentError("address_refused", f"{shown or 'That address'} is not called: {why}.")
