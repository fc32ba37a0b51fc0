"""Which nodes are connected, and which of them a caller means."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from ..protocol.errors import SuzentError
from .devices import Device
from .principals import Principal
from .session import NodeSession

_SHORTEST_PREFIX = 4


class Registry:
    """Connected nodes by id and by name. One device has one session."""

    def __init__(self) -> None:
        self._by_id: dict[str, NodeSession] = {}
        self._by_name: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[NodeSession]:
        return iter(list(self._by_id.values()))

    def add(self, session: NodeSession) -> None:
        """Add a session, in the place of an older one of the same device."""
        old = self._by_id.get(session.node_id)
        if old is not None:
            self.remove(old)
        self._by_id[session.node_id] = session
        self._by_name.setdefault(session.display_name.casefold(), set()).add(session.node_id)

    def remove(self, session: NodeSession) -> bool:
        """Remove exactly this session; False if a newer one has taken its place."""
        if self._by_id.get(session.node_id) is not session:
            return False
        del self._by_id[session.node_id]
        name = session.display_name.casefold()
        ids = self._by_name.get(name, set())
        ids.discard(session.node_id)
        if not ids:
            self._by_name.pop(name, None)
        return True

    def by_id(self, node_id: str) -> NodeSession | None:
        """Return the session of that exact id, whoever may see it."""
        return self._by_id.get(node_id)

    @staticmethod
    def may_see(principal: Principal, session: NodeSession) -> bool:
        """Tell whether a connected node exists for a caller."""
        return Registry.sees(principal, session.device)

    @staticmethod
    def sees(principal: Principal, device: Device) -> bool:
        """Tell whether a node exists for a caller: their account's own, and shared ones of their organisation.

        A control grant reaches its account's own alone.
        """
        if device.account == principal.account:
            return True
        shared = device.sharing == "enterprise" and device.org != "" and device.org == principal.org
        return shared and principal.grant is None

    def visible(self, principal: Principal) -> list[NodeSession]:
        """Return the nodes a caller may see, oldest connection first."""
        return [session for session in self._by_id.values() if self.may_see(principal, session)]

    def find(self, principal: Principal, reference: str) -> NodeSession:
        """Return the node a caller means: by id, by name (casefolded), or by a unique id prefix from 4 characters.

        A device chooses its name, so one that is also the beginning of another's id decides nothing.

        Raises
        ------
        SuzentError
            ``node_not_found``, or ``node_ambiguous`` with the ids.
        """
        session = self._by_id.get(reference)
        if session is not None and self.may_see(principal, session):
            return session
        ids = set(self._by_name.get(unicodedata.normalize("NFC", reference.strip()).casefold(), ()))
        if len(reference) >= _SHORTEST_PREFIX:
            ids.update(node_id for node_id in self._by_id if node_id.startswith(reference))
        matches = [session for node_id in ids if self.may_see(principal, session := self._by_id[node_id])]
        if not matches:
            raise SuzentError("node_not_found", f"Node '{reference[:64]}' not found among the connected nodes.")
        if len(matches) > 1:
            named = sorted(session.node_id for session in matches)
            raise SuzentError(
                "node_ambiguous",
                f"'{reference[:64]}' fits {len(matches)} nodes: {', '.join(named[:10])}.",
                details={"ids": named},
            )
        return matches[0]
