"""The link that invites a device: a page for a phone's browser, and all that our own clients need to join.

``https://192.168.1.10:25315/node#join=<ticket>&pin=<pin>&id=<gateway>``. What stands behind ``#`` never leaves the
device that opens the link: browsers don't send it (RFC 3986 section 3.5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from .address import NODE_PATH

_PAGE = "/node"
# SHA-256 in base64url without padding.
_PIN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class PairingLink:
    """A pairing link, taken apart.

    Attributes
    ----------
    base_url : str
        ``http://`` or ``https://`` address of the gateway, without a slash at its end.
    ticket : str
        Marks the device as invited, once; ``""`` for none.
    pin : str
        SHA-256 of the gateway's public key (its SubjectPublicKeyInfo, as in RFC 7469), base64url without padding;
        ``""`` where an authority vouches for the certificate, or where there is none.
    gateway_id : str
        The gateway's own identity, for which alone a device signs; ``""`` if unknown.

    Examples
    --------
    >>> PairingLink.parse("https://10.0.0.5:25315/node#join=abc&id=g1").socket_url
    'wss://10.0.0.5:25315/ws/node'
    """

    base_url: str
    ticket: str = field(default="", repr=False)
    pin: str = ""
    gateway_id: str = ""

    @classmethod
    def is_link(cls, text: str) -> bool:
        """Tell whether ``text`` looks like a pairing link rather than an address."""
        scheme, _, rest = text.strip().partition("://")
        path, hash_, _ = rest.partition("#")
        return scheme in ("http", "https") and bool(hash_) and path.rstrip("/").endswith(_PAGE)

    @classmethod
    def parse(cls, text: str) -> PairingLink:
        """Return the link that ``text`` is.

        Raises
        ------
        ValueError
            When it is none, or its pin is no pin.
        """
        if not cls.is_link(text):
            raise ValueError("This is not a pairing link; it looks like https://192.168.1.10:25315/node#join=…")
        parts = urlsplit(text.strip())
        given = parse_qs(parts.fragment)
        pin = given.get("pin", [""])[0]
        if pin and not _PIN.fullmatch(pin):
            raise ValueError("The pairing link is damaged: its pin has the wrong form. Copy the whole link again.")
        path = parts.path.rstrip("/").removesuffix(_PAGE)
        netloc = parts.netloc.rpartition("@")[2]
        base = urlunsplit((parts.scheme, netloc, path, "", ""))
        return cls(base, given.get("join", [""])[0], pin, given.get("id", [""])[0])

    @property
    def socket_url(self) -> str:
        """The URL of the device socket."""
        return f"ws{self.base_url.removeprefix('http')}{NODE_PATH}"

    def __str__(self) -> str:
        """Return the link."""
        facts = {"join": self.ticket, "pin": self.pin, "id": self.gateway_id}
        return f"{self.base_url}{_PAGE}#{urlencode({name: value for name, value in facts.items() if value})}"
