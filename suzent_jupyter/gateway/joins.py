"""The gateways this one has joined as a node, as the store keeps them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .audit import Audit, Row
from .clock import now_text
from .principals import Principal

if TYPE_CHECKING:
    import sqlalchemy as sa

    from .store import Store


@dataclass(frozen=True, slots=True)
class KeptJoin:
    """One gateway that was joined.

    Attributes
    ----------
    account : str
        Who joined it.
    gateway_url : str
        The URL of its device socket, in its one spelling.
    name : str
        Under which name; ``""`` for whatever this gateway is called.
    capabilities : list of str
        Patterns of what is offered there; empty for all.
    added_at : str
        UTC, ISO 8601.
    wanted : bool
        Whether it is joined again when this gateway starts.
    """

    account: str
    gateway_url: str
    name: str = ""
    capabilities: list[str] = field(default_factory=list)
    added_at: str = field(default_factory=now_text)
    wanted: bool = True


class KeptJoins:
    """The table of them. Everything a person decides stands in the audit trail, in the same transaction."""

    def __init__(self, store: Store, audit: Audit) -> None:
        self._store = store
        self._audit = audit

    async def load(self) -> list[KeptJoin]:
        """Return all; raises as :meth:`.store.Store.run`."""

        def work(connection: sa.Connection) -> list[KeptJoin]:
            import sqlalchemy as sa

            from . import schema

            query = sa.select(schema.joins).order_by(schema.joins.c.added_at)
            return [KeptJoin(**row) for row in connection.execute(query).mappings()]

        return await self._store.run(work)

    async def put(self, principal: Principal, join: KeptJoin) -> None:
        """Keep a join, or what it is now, as ``principal`` asked for it."""
        detail = {"gateway_url": join.gateway_url, "capabilities": join.capabilities}
        await self._change(
            join, True, Row(principal.account, principal.actor, "gateway.connect", node=join.name, detail=detail)
        )

    async def leave(self, principal: Principal, join: KeptJoin, *, forget: bool) -> None:
        """Note that ``principal`` left a gateway; ``forget`` drops it from the list."""
        row = Row(principal.account, principal.actor, "gateway.disconnect", node=join.name)
        row.detail = {"gateway_url": join.gateway_url, "forgotten": forget}
        await self._change(replace(join, wanted=False), not forget, row)

    async def refused(self, join: KeptJoin, reason: str) -> None:
        """Note that the other gateway does not want us: we don't ask again at each start."""
        row = Row(join.account, "gateway", "gateway.refused", node=join.name, outcome="failed")
        row.detail = {"gateway_url": join.gateway_url, "reason": reason}
        await self._change(replace(join, wanted=False), True, row)

    async def _change(self, join: KeptJoin, keep: bool, row: Row) -> None:
        def work(connection: sa.Connection) -> None:
            import sqlalchemy as sa

            from . import schema

            table = schema.joins
            this: Any = (table.c.account == join.account) & (table.c.gateway_url == join.gateway_url)
            connection.execute(sa.delete(table).where(this))
            if keep:
                connection.execute(sa.insert(table).values(**asdict(join)))

        self._audit.publish(await self._audit.change([row], work))
