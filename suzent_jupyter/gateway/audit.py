"""Who did what. Entries of calls are gathered for a moment and written together."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.errors import SuzentError
from ..protocol.rest import AuditEntry
from ..protocol.wire import is_shallow
from .changes import Changes
from .clock import time_text
from .principals import Principal
from .store import Store

if TYPE_CHECKING:
    import sqlalchemy as sa

_GATHER_SECONDS = 0.25
_PRUNE_EVERY = 1000
_ORIGIN_DEPTH = 16


class Row(msgspec.Struct, gc=False):
    """One entry before it is written; see :class:`~suzent_jupyter.protocol.rest.AuditEntry`. ``at`` is POSIX time."""

    account: str
    actor: str
    action: str
    node_id: str = ""
    node: str = ""
    command: str = ""
    outcome: str = "ok"
    duration_ms: float | None = None
    origin: dict[str, Any] | None = None
    detail: dict[str, Any] | None = None
    at: float = msgspec.field(default_factory=time.time)
    id: int = 0

    def as_tuple(self) -> tuple[Any, ...]:
        """Return the values in the order of the table's columns."""
        return (
            self.id,
            time_text(self.at),
            self.account,
            self.actor,
            self.action,
            self.node_id,
            self.node,
            self.command,
            self.outcome,
            self.duration_ms,
            json.dumps(self._origin()) if self.origin else "{}",
            json.dumps(self.detail) if self.detail else "{}",
        )

    def as_entry(self) -> AuditEntry:
        """Return it as ``GET /audit`` shows it."""
        facts = {name: getattr(self, name) for name in self.__struct_fields__ if name != "account"}
        facts |= {"at": time_text(self.at), "origin": self._origin(), "detail": self.detail or {}}
        return AuditEntry.model_validate(facts)

    def _origin(self) -> dict[str, Any]:
        return self.origin if self.origin and is_shallow(self.origin, _ORIGIN_DEPTH) else {}


class Audit:
    """The audit trail of one gateway; ``rows`` is how many entries are kept."""

    def __init__(self, store: Store, changes: Changes, rows: int) -> None:
        self._store = store
        self._changes = changes
        self._keep = rows
        self._insert: str | None = None
        self._gathered: list[Row] = []
        self._flush: asyncio.TimerHandle | None = None
        self._written = _PRUNE_EVERY  # at once, or a server that is restarted often would never come to it

    def record(self, row: Row) -> None:
        """Write an entry soon."""
        if self._store.problem:
            return
        self._gathered.append(row)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._write)

    def change(self, rows: list[Row], work: Callable[[sa.Connection], object]) -> asyncio.Future[list[Row]]:
        """Change the store and write entries of it, both or neither; they are to be published by the caller.

        What was gathered before is written first, so that ids follow time. Raises as :meth:`.store.Store.run`.
        """

        def both(connection: sa.Connection) -> list[Row]:
            work(connection)
            return self.insert(connection, rows)

        self._write()
        return self._store.run(both)

    def insert(self, connection: sa.Connection, rows: list[Row]) -> list[Row]:
        """Write entries inside a transaction of the caller's; for what must not be lost."""
        import sqlalchemy as sa

        from . import schema

        last = connection.execute(sa.select(sa.func.max(schema.audit.c.id))).scalar() or 0
        for number, row in enumerate(rows, last + 1):
            row.id = number
        # Thousands a second may come here: prepared by hand, a row costs a tenth of what a mapped one does.
        if self._insert is None:
            self._insert = str(sa.insert(schema.audit).compile(connection))
        connection.exec_driver_sql(self._insert, [row.as_tuple() for row in rows])
        self._written += len(rows)
        if self._written >= _PRUNE_EVERY:
            self._written = 0
            connection.execute(sa.delete(schema.audit).where(schema.audit.c.id <= last + len(rows) - self._keep))
        return rows

    def publish(self, rows: list[Row]) -> None:
        """Tell subscribers of written entries."""
        for row in rows:
            self._publish_one(row)

    def _publish_one(self, row: Row) -> None:
        self._changes.publish(
            "audit",
            "added",
            lambda: row.as_entry().model_dump(),
            lambda principal: principal.account == row.account,
        )

    def _write(self) -> asyncio.Future[list[Row]] | None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        rows, self._gathered = self._gathered, []
        if not rows:
            return None
        try:
            written = self._store.run(lambda connection: self.insert(connection, rows))
        except SuzentError:
            return None  # reported when the store failed to open
        written.add_done_callback(self._written_down)
        return written

    def _written_down(self, done: asyncio.Future[list[Row]]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.publish(done.result())

    async def flush(self) -> None:
        """Write what was gathered, now."""
        written = self._write()
        if written is not None:
            await asyncio.wait([written])

    async def page(self, principal: Principal, limit: int, before: int | None) -> list[AuditEntry]:
        """Return the caller's entries, newest first, with ids below ``before``."""
        import sqlalchemy as sa

        from . import schema

        await self.flush()
        query = sa.select(schema.audit).where(schema.audit.c.account == principal.account)
        if before is not None:
            query = query.where(schema.audit.c.id < before)
        query = query.order_by(schema.audit.c.id.desc()).limit(limit)
        rows = await self._store.run(lambda connection: connection.execute(query).mappings().all())
        return [AuditEntry.model_validate(dict(row)) for row in rows]
