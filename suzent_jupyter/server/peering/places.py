"""What a text says of where a gateway is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...protocol.errors import SuzentError

if TYPE_CHECKING:
    from ...peers.address import PeerAddress


def is_same_host(base_url: str, other: str) -> bool:
    """Tell whether two addresses are of one machine by their host."""
    return urlsplit(base_url).hostname == urlsplit(other).hostname


def looks_like_address(text: str) -> bool:
    """Tell whether text could be meant as an address; what others call themselves must not stand for one."""
    return any(char in text for char in ":/@") or ("." in text and " " not in text.strip())


def base_address(text: str) -> PeerAddress:
    """Return a gateway's address in its one spelling; ``invalid_request`` for what is none."""
    from ...peers.address import peer_address

    try:
        return peer_address(text)
    except ValueError as error:
        raise SuzentError("invalid_request", str(error)) from None
