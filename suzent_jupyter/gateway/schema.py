"""Tables of the store. Statements are SQLAlchemy Core, so that another database can follow."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

#: Grows with every change of the tables; a file of a newer version is left alone.
SCHEMA_VERSION = 2

metadata = sa.MetaData()

devices = sa.Table(
    "devices",
    metadata,
    sa.Column("device_id", sa.String, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("display_name", sa.String, nullable=False),
    sa.Column("platform", sa.String, nullable=False),
    sa.Column("scope", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("token_hint", sa.String, nullable=False),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("org", sa.String, nullable=False),
    sa.Column("node_identity", sa.String, nullable=False),
    sa.Column("callback_url", sa.String, nullable=False),
    sa.Column("approved", sa.JSON, nullable=False),
    sa.Column("sharing", sa.String, nullable=False),
    sa.Column("approved_at", sa.String, nullable=False),
    sa.Column("last_seen", sa.String, nullable=False),
    sa.Column("trigger_count", sa.Integer, nullable=False),
    sa.Column("last_triggered_at", sa.String, nullable=False),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("value", sa.JSON),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("node_id", sa.String, nullable=False),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("command", sa.String, nullable=False),
    sa.Column("outcome", sa.String, nullable=False),
    sa.Column("duration_ms", sa.Float),
    sa.Column("origin", sa.JSON, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
)

joins = sa.Table(
    "joins",
    metadata,
    sa.Column("account", sa.String, primary_key=True),
    sa.Column("gateway_url", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("capabilities", sa.JSON, nullable=False),
    sa.Column("added_at", sa.String, nullable=False),
    sa.Column("wanted", sa.Boolean, nullable=False),
)

#: The version that brought a table; all others are there since the first.
_SINCE = {"joins": 2}

#: What turns a file of a version into one of the next.
_UPGRADES: dict[int, Callable[[sa.Connection], None]] = {1: joins.create}


def tables_of(version: int) -> frozenset[str]:
    """Return the tables a file of this version has."""
    return frozenset(name for name in metadata.tables if _SINCE.get(name, 1) <= version)


def bring_up_to_date(connection: sa.Connection) -> None:
    """Make the tables of a new file, or upgrade an older one step by step; inside one transaction of the caller's."""
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if version >= SCHEMA_VERSION:
        return
    if version == 0:
        metadata.create_all(connection)
    else:
        for step in range(version, SCHEMA_VERSION):
            _UPGRADES[step](connection)
    connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
