"""The gateway's own stable id: what a pairing link names, so that a device knows whom it was invited by.

It is random, says nothing about the machine, and is no secret.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa

#: Its row in the settings table; no setting of that name can be changed.
_NAME = "gateway_id"
_BYTES = 16


def new_identity() -> str:
    """Return an id: 16 random bytes, urlsafe."""
    return secrets.token_urlsafe(_BYTES)


def load_identity(connection: sa.Connection) -> str:
    """Return the id that is kept, made on first use (on the store's thread, in a transaction that may write)."""
    import sqlalchemy as sa

    from . import schema

    table = schema.settings
    kept = connection.execute(sa.select(table.c.value).where(table.c.name == _NAME)).scalar()
    if isinstance(kept, str) and kept:
        return kept
    made = new_identity()
    connection.execute(sa.delete(table).where(table.c.name == _NAME))
    connection.execute(sa.insert(table).values(name=_NAME, value=made))
    return made
