"""Sockets nobody has vouched for yet: how many there may be, in all and of one address."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from .transport import Transport

if TYPE_CHECKING:
    from .link import DeviceLink


class Sockets:
    """Counts unauthenticated sockets. Addresses many devices share (loopback, a proxy) count only against the total."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._links: dict[DeviceLink, str] = {}
        self._per_address: Counter[str] = Counter()

    def enter(self, link: DeviceLink, transport: Transport) -> None:
        """Count a socket; ``too_many_sockets`` when there is no room."""
        if len(self._links) >= self._limits.sockets_unauthenticated:
            raise SuzentError("too_many_sockets", "Too many connections wait to be approved.")
        address = transport.remote if transport.limited else ""
        if address and self._per_address[address] >= self._limits.sockets_per_address:
            raise SuzentError("too_many_sockets", "Too many connections of this address wait to be approved.")
        self._links[link] = address
        if address:
            self._per_address[address] += 1

    def leave(self, link: DeviceLink) -> None:
        """Count it no longer: it was vouched for, or is closed."""
        address = self._links.pop(link, "")
        if address:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def all(self) -> list[DeviceLink]:
        """Return the links that are counted now."""
        return list(self._links)

    def __len__(self) -> int:
        return len(self._links)
