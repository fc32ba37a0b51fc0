"""What was asked and how it ended, in the store: a prompt before anybody sees it, an answer before it counts."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...protocol.permissions import PermissionInfo
from ..audit import Audit, Row
from ..clock import now_text
from .distribution import Audience

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ..store import Store

_ASKED = "asked"  # beside the fields of the prompt: who was
_PRUNE_EVERY = 500


class History:
    """The table of prompts.

    Parameters
    ----------
    seconds : float
        How long what is over is kept.
    rows : int
        How many are at the most; the oldest go first.
    """

    def __init__(self, store: Store, audit: Audit, seconds: float, rows: int) -> None:
        self._store = store
        self._audit = audit
        self._seconds = seconds
        self._rows = rows
        self._written = 0

    def load(self, connection: sa.Connection) -> None:
        """Close what was open when the gateway ended: nobody waits for it any more."""
        import sqlalchemy as sa

        from .. import schema

        table = schema.permissions
        self._prune(connection)
        rows = []
        for row in connection.execute(sa.select(table).where(table.c.decision == "")).mappings().all():
            closed = {"decision": "deny", "reason": "restarted", "resolved_at": now_text()}
            info = PermissionInfo.model_validate({**row["info"], **closed})
            update = sa.update(table).where(table.c.id == row["id"])
            connection.execute(update.values(decision="deny", info={**row["info"], **closed}))
            rows.append(_audit_row(row["account"], info))
        if rows:
            self._audit.insert(connection, rows)

    def asked(self, info: PermissionInfo, audience: Audience) -> asyncio.Future[None]:
        """Write down a prompt; raises as :meth:`.store.Store.run`."""
        return self._store.run(lambda connection: self._put(connection, info, audience))

    async def closed(self, info: PermissionInfo, audience: Audience) -> None:
        """Write down how a prompt ended; returns once it is on disk. Raises as :meth:`.store.Store.run`."""
        rows = [_audit_row(audience.account, info)]
        written = await self._audit.change(rows, lambda connection: self._put(connection, info, audience))
        self._audit.publish(written)

    def _put(self, connection: sa.Connection, info: PermissionInfo, audience: Audience) -> None:
        import sqlalchemy as sa

        from .. import schema

        table = schema.permissions
        self._written += 1
        if self._written >= _PRUNE_EVERY:
            self._written = 0
            self._prune(connection)
        connection.execute(sa.delete(table).where(table.c.id == info.id))
        kept: dict[str, Any] = {**info.model_dump(), _ASKED: asdict(audience)}
        row = {"id": info.id, "account": audience.account, "asked_at": info.asked_at, "decision": info.decision}
        connection.execute(sa.insert(table).values(info=kept, **row))

    async def sweep(self) -> None:
        """Drop what is too old."""
        await self._store.run(self._prune)

    def _prune(self, connection: sa.Connection) -> None:
        import sqlalchemy as sa

        from .. import schema

        table = schema.permissions
        connection.execute(sa.delete(table).where(table.c.asked_at < now_text(-self._seconds), table.c.decision != ""))
        newest = sa.select(table.c.asked_at).order_by(table.c.asked_at.desc()).offset(self._rows).limit(1)
        oldest_kept = connection.execute(newest).scalar()
        if oldest_kept is not None:
            connection.execute(sa.delete(table).where(table.c.asked_at <= oldest_kept, table.c.decision != ""))

    async def page(self, account: str, limit: int) -> list[PermissionInfo]:
        """Return an account's closed prompts, newest first."""
        import sqlalchemy as sa

        from .. import schema

        table = schema.permissions
        query = sa.select(table.c.info).where(
            table.c.account == account, table.c.decision != "", table.c.asked_at >= now_text(-self._seconds)
        )
        query = query.order_by(table.c.asked_at.desc(), table.c.id).limit(limit)
        rows = await self._store.run(lambda connection: connection.execute(query).scalars().all())
        return [PermissionInfo.model_validate(row) for row in rows]

    async def find(self, prompt_id: str) -> tuple[PermissionInfo, Audience] | None:
        """Return a prompt of before, and who was asked."""
        import sqlalchemy as sa

        from .. import schema

        table = schema.permissions
        query = sa.select(table.c.info).where(table.c.id == prompt_id)
        row = await self._store.run(lambda connection: connection.execute(query).scalar())
        if row is None:
            return None
        asked = row.get(_ASKED, {})
        nodes = tuple(asked.pop("nodes", ()))
        return PermissionInfo.model_validate(row), Audience(nodes=nodes, **asked)


def _audit_row(account: str, info: PermissionInfo) -> Row:
    row = Row(account, info.by or "gateway", "permission", info.node_id, info.node_name, info.tool[:128])
    row.outcome = info.decision if info.reason == "answered" else info.reason
    told = ("id", "decision", "reason", "remember", "relation", "caller", "run_id")
    row.detail = {name: value for name in told if (value := getattr(info, name))}
    return row
