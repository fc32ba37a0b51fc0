"""Tables of the store. Statements are SQLAlchemy Core, so that another database can follow."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

#: Grows with every change of the tables; a file of a newer version is left alone.
SCHEMA_VERSION = 5

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
    sa.Column("covers", sa.String, nullable=False, server_default="both"),
    sa.Column("commands", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("unattended_tools", sa.Boolean, nullable=False, server_default="0"),
    sa.Column("expires_at", sa.String, nullable=False, server_default=""),
    sa.Column("public_key", sa.String, nullable=False, server_default=""),
    sa.Column("role", sa.String, nullable=False, server_default=""),
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

peers = sa.Table(
    "peers",
    metadata,
    sa.Column("peer_id", sa.String, primary_key=True),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("base_url", sa.String, nullable=False),
    sa.Column("mode", sa.String, nullable=False),
    sa.Column("node_identity", sa.String, nullable=False),
    sa.Column("reverse_device_id", sa.String, nullable=False),
    sa.Column("own_device_id", sa.String, nullable=False),
    sa.Column("revoked", sa.Boolean, nullable=False),
    sa.Column("added_at", sa.String, nullable=False),
)

conversations = sa.Table(
    "conversations",
    metadata,
    sa.Column("account", sa.String, primary_key=True),
    sa.Column("conversation_id", sa.String, primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("folder", sa.String, nullable=False),
    sa.Column("device_id", sa.String, nullable=False),
    sa.Column("created_at", sa.String, nullable=False),
    sa.Column("updated_at", sa.String, nullable=False),
    sa.Column("target_node_id", sa.String, nullable=False, server_default=""),
    sa.Column("source_channel", sa.String, nullable=False, server_default=""),
    sa.Column("is_local_initiated", sa.Boolean, nullable=False, server_default="1"),
    sa.Column("is_enterprise", sa.Boolean, nullable=False, server_default="0"),
)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("conversation_id", sa.String, nullable=False),
    sa.Column("run_id", sa.String, nullable=False),
    sa.Column("role", sa.String, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("outcome", sa.String, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Index("messages_of_a_conversation", "account", "conversation_id", "id"),
)

inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("account", sa.String, nullable=False),
    sa.Column("device_id", sa.String, nullable=False),
    sa.Column("message_id", sa.String, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("run_id", sa.String, nullable=False),
    sa.Column("received_at", sa.String, nullable=False),
    sa.Column("finished_at", sa.String, nullable=False),
    sa.UniqueConstraint("device_id", "message_id"),
)

permissions = sa.Table(
    "permissions",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    # Whose surfaces were asked: they alone see it.
    sa.Column("account", sa.String, nullable=False),
    sa.Column("asked_at", sa.String, nullable=False),
    sa.Column("decision", sa.String, nullable=False),
    # All of it, as `PermissionInfo`.
    sa.Column("info", sa.JSON, nullable=False),
    sa.Index("permissions_of_an_account", "account", "asked_at"),
)

# Every level of memory, of every owner, is a space with a full-text index of its own: ranking in one can't be
# influenced by, and so tells nothing of, what is in another.
memory_spaces = sa.Table(
    "memory_spaces",
    metadata,
    sa.Column("level", sa.String, primary_key=True),
    # Account, organisation, or the account and conversation of a session.
    sa.Column("owner", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, primary_key=True, server_default=""),
    sa.Column("space", sa.Integer, nullable=False, unique=True),
    sa.Column("updated_at", sa.String, nullable=False),
    sa.Column("entries", sa.Integer, nullable=False),
    sa.Column("words", sa.Integer, nullable=False),
)

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("level", sa.String, primary_key=True),
    sa.Column("owner", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, primary_key=True, server_default=""),
    sa.Column("memory_id", sa.String, primary_key=True),
    sa.Column("created_at", sa.String, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    # SHA-256 of the text, which is kept once.
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("tags", sa.JSON, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Index("memories_by_text", "level", "owner", "session_id", "digest", unique=True),
)

artifacts = sa.Table(
    "artifacts",
    metadata,
    sa.Column("account", sa.String, primary_key=True),
    sa.Column("sha256", sa.String, primary_key=True),
    sa.Column("artifact_id", sa.String, nullable=False, unique=True),
    # Its name where files lie, which says whose leftover it is when the row is missing.
    sa.Column("place", sa.String, nullable=False, unique=True),
    sa.Column("size", sa.Integer, nullable=False),
    # Unix seconds.
    sa.Column("expires_at", sa.Float, nullable=False),
)

#: The version that brought a table; all others are there since the first.
_SINCE = {"joins": 2, "peers": 3, "conversations": 3, "messages": 3, "inbox": 3} | dict.fromkeys(
    ("permissions", "memory_spaces", "memories", "artifacts"), 5
)


def _add_column(connection: sa.Connection, column: sa.Column[str]) -> None:
    written = sa.schema.CreateColumn(column).compile(connection)
    connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {written}")


def _add_missing(connection: sa.Connection, table: sa.Table, *names: str) -> None:
    """Add columns that are not there: a table made by an earlier step of the same upgrade has them already."""
    there = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table.name})")}
    for name in names:
        if name not in there:
            _add_column(connection, table.c[name])


def _to_version_3(connection: sa.Connection) -> None:
    for column in ("covers", "commands", "unattended_tools", "expires_at"):
        _add_column(connection, devices.c[column])
    for table in (peers, conversations, messages, inbox):
        table.create(connection)


def _to_version_4(connection: sa.Connection) -> None:
    _add_column(connection, devices.c.public_key)
    _add_missing(connection, conversations, "target_node_id")


def _to_version_5(connection: sa.Connection) -> None:
    _add_missing(connection, devices, "role")
    _add_missing(connection, conversations, "source_channel", "is_local_initiated", "is_enterprise")
    for table in (permissions, memory_spaces, memories, artifacts):
        table.create(connection)


#: What turns a file of a version into one of the next.
_UPGRADES: dict[int, Callable[[sa.Connection], None]] = {
    1: joins.create, 2: _to_version_3, 3: _to_version_4, 4: _to_version_5,
}  # fmt: skip


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
