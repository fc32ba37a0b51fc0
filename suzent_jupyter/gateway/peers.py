"""The gateways this one may drive, as the store keeps them; their tokens are elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ..protocol.peers import PeerMode
from .audit import Audit, Row
from .clock import now_text

if TYPE_CHECKING:
    import sqlalchemy as sa

    from .store import Store


@dataclass(frozen=True, slots=True)
class KeptPeer:
    """One gateway we were given control of.

    Attributes
    ----------
    account : str
        Whose peer it is.
    name : str
        How it is called here.
    base_url : str
        Where it is reached, in the one spelling, without a slash at its end.
    peer_id : str
        Its id here, for life.
    mode : str
        ``trigger``, ``paused`` or ``off``.
    node_identity : str
        The id it gave itself; ``""`` if unknown.
    reverse_device_id : str
        The grant we gave it in return; ``""`` for none.
    own_device_id : str
        The id of our grant over there; ``""`` while unknown.
    revoked : bool
        Whether it last refused our token.
    added_at : str
        UTC, ISO 8601.
    """

    account: str
    name: str
    base_url: str
    peer_id: str = field(default_factory=lambda: secrets.token_hex(8))
    mode: PeerMode = "trigger"
    node_identity: str = ""
    reverse_device_id: str = ""
    own_device_id: str = ""
    revoked: bool = False
    added_at: str = field(default_factory=now_text)


class KeptPeers:
    """The table of them. Each change stands in the audit trail, in the same transaction."""

    def __init__(self, store: Store, audit: Audit) -> None:
        self._store = store
        self._audit = audit

    async def load(self) -> list[KeptPeer]:
        """Return all; raises as :meth:`.store.Store.run`."""

        def work(connection: sa.Connection) -> list[KeptPeer]:
            import sqlalchemy as sa

            from . import schema

            query = sa.select(schema.peers).order_by(schema.peers.c.added_at)
            return [KeptPeer(**row) for row in connection.execute(query).mappings()]

        return await self._store.run(work)

    async def put(self, peer: KeptPeer, rows: Sequence[Row]) -> None:
        """Keep a peer, or what it is now."""
        await self._change(peer, True, rows)

    async def remove(self, peer: KeptPeer, rows: Sequence[Row]) -> None:
        """Forget a peer."""
        await self._change(peer, False, rows)

    async def _change(self, peer: KeptPeer, keep: bool, rows: Sequence[Row]) -> None:
        def work(connection: sa.Connection) -> None:
            import sqlalchemy as sa

            from . import schema

            table = schema.peers
            connection.execute(sa.delete(table).where(table.c.peer_id == peer.peer_id))
            if keep:
                connection.execute(sa.insert(table).values(**asdict(peer)))

        self._audit.publish(await self._audit.change(list(rows), work))
