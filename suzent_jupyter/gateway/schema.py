"""Tables of the store. Statements are SQLAlchemy Core, so that another database can follow."""

from __future__ import annotations

import sqlalchemy as sa

#: Grows with every change of the tables; a file of a newer version is left alone.
SCHEMA_VERSION = 1

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
