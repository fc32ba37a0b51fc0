"""Under which names web pages may reach the listener: what stops DNS rebinding.

A page of ``evil.example`` can let that name point here a moment after it was loaded; to the browser our answers are
then that page's own. Only the ``Host`` header still tells, so a browser is answered only under names that nobody else
controls.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from ...protocol.errors import SuzentError

# RFC 3986 host and port, without user names, escapes and zones: what a browser sends.
_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
)
# Not delegated in the public DNS (RFC 6762, RFC 8375, ICANN's .internal), so no stranger answers for them.
_PRIVATE_SUFFIXES = ("local", "lan", "home", "internal", "home.arpa")
_TAILSCALE = ".ts.net"  # Tailscale alone answers for these, with addresses of tailnets


def host_name(host: str) -> str:
    """Return the name or address of a ``Host`` header, casefolded, without port and brackets.

    Raises
    ------
    SuzentError
        ``bad_host`` if it is not one plain host and port.
    """
    match = _HOST.fullmatch(host)
    if match is None or ".." in host:
        raise SuzentError("bad_host", "The request's Host header is not a host name or address.")
    return match["name"].strip("[]").removesuffix(".").casefold()


class HostNames:
    """The names web pages may use for this machine.

    Parameters
    ----------
    allowed : iterable of str
        Further ones, such as that of a proxy before the listener.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        own = socket.gethostname().casefold()
        short = own.partition(".")[0]
        self._names = {"localhost", own, short, *(f"{short}.{suffix}" for suffix in _PRIVATE_SUFFIXES)}
        self._names.update(name.strip().removesuffix(".").casefold() for name in allowed)

    def check(self, host: str) -> None:
        """Refuse a web page's request under a foreign name.

        Parameters
        ----------
        host : str
            The ``Host`` header.

        Raises
        ------
        SuzentError
            ``bad_host`` or ``forbidden_host``.
        """
        name = host_name(host)
        if name in self._names or name.endswith(_TAILSCALE):
            return
        try:
            ipaddress.ip_address(name)  # an address can't be made to point elsewhere
        except ValueError:
            raise SuzentError("forbidden_host", f"Web pages don't reach this gateway as '{name[:64]}'.") from None
