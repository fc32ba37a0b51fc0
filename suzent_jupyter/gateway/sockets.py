"""Sockets nobody has vouched for yet: how many there may be, in all and of one address.

A device shows its token in its first frame, so a socket beyond the limits is not turned away at the door: it is
*late*, has a moment to show a known token, and makes room for the next one. So a known device gets in while strangers
hold every place.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from .households import counted_as
from .transport import Transport

if TYPE_CHECKING:
    from .node_link import NodeLink


class Sockets:
    """Counts unauthenticated sockets. Addresses many devices share (loopback, a proxy) count only against the total."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._links: dict[NodeLink, str] = {}
        self._per_address: Counter[str] = Counter()
        self._late: dict[NodeLink, SuzentError] = {}

    def enter(self, link: NodeLink, transport: Transport) -> SuzentError | None:
        """Count a socket. When there is no room, return what it is refused with unless it shows a known token."""
        address = counted_as(transport.remote) if transport.limited else ""
        refusal = self._refusal(address)
        if refusal is None:
            self._links[link] = address
            if address:
                self._per_address[address] += 1
            return None
        if len(self._late) >= self._limits.sockets_late:
            oldest = next(iter(self._late))
            oldest.end(self._late[oldest])
        self._late[link] = refusal
        return refusal

    def _refusal(self, address: str) -> SuzentError | None:
        if len(self._links) >= self._limits.sockets_unauthenticated:
            return SuzentError("too_many_sockets", "Too many connections wait to be approved.")
        if address and self._per_address[address] >= self._limits.sockets_per_address:
            return SuzentError("too_many_sockets", "Too many connections of this address wait to be approved.")
        return None

    def keep(self, link: NodeLink) -> None:
        """Let an invited device that came late keep its place until the operator has answered."""
        if self._late.pop(link, None) is not None:
            self._links[link] = ""

    def leave(self, link: NodeLink) -> None:
        """Count it no longer: it was vouched for, or is closed."""
        self._late.pop(link, None)
        address = self._links.pop(link, "")
        if address:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def all(self) -> list[NodeLink]:
        """Return the links that are counted now."""
        return [*self._links, *self._late]

    def __len__(self) -> int:
        return len(self._links) + len(self._late)
