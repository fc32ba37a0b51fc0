"""What the store knows of kept files. Everything here runs on the store's thread."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept file.

    Attributes
    ----------
    account : str
        Whose it is.
    artifact_id : str
        Its name in addresses, unguessable.
    place : str
        Its name where it lies.
    size : int
        Bytes.
    expires_at : float
        Unix seconds.
    """

    account: str
    sha256: str
    artifact_id: str
    place: str
    size: int
    expires_at: float


def find(connection: sa.Connection, *, account: str = "", sha256: str = "", artifact_id: str = "") -> Kept | None:
    """Return a file that has not expired, by its content or by its id; an account's own where one is given."""
    import sqlalchemy as sa

    table = _table()
    wanted = [table.c.expires_at > time.time()]
    wanted += [table.c.account == account] if account else []
    wanted += [table.c.artifact_id == artifact_id] if artifact_id else [table.c.sha256 == sha256]
    row = connection.execute(sa.select(table).where(*wanted)).first()
    return Kept(**row._mapping) if row is not None else None


def touch(connection: sa.Connection, kept: Kept, expires_at: float) -> bool:
    """Have a file stay longer; False if it is not there any more."""
    import sqlalchemy as sa

    table = _table()
    change = sa.update(table).where(table.c.place == kept.place, table.c.expires_at < expires_at)
    connection.execute(change.values(expires_at=expires_at))
    there = connection.execute(sa.select(table.c.place).where(table.c.place == kept.place)).first()
    return there is not None


def add(connection: sa.Connection, new: Kept, room: float, share: float) -> tuple[Kept | None, list[str]]:
    """Take a file up, unless its account has the same content already.

    Returns
    -------
    Kept or None
        The one to use: the new one, or that which is there; None if the new one would be more than ``room`` bytes
        leave space for, or ``share`` those of its account.
    list of str
        The places that nobody needs now.
    """
    import sqlalchemy as sa

    table = _table()
    there = find(connection, account=new.account, sha256=new.sha256)
    if there is not None:
        touch(connection, there, new.expires_at)
        return there, [new.place]
    same = (table.c.account == new.account, table.c.sha256 == new.sha256)
    expired = list(connection.execute(sa.select(table.c.place).where(*same)).scalars())
    connection.execute(sa.delete(table).where(*same))
    if total(connection) + new.size > room or total(connection, new.account) + new.size > share:
        return None, [*expired, new.place]
    row = {name: getattr(new, name) for name in Kept.__slots__}
    connection.execute(sa.insert(table).values(**row))
    return new, expired


def total(connection: sa.Connection, account: str = "") -> int:
    """Return the bytes of all files, or of those of an account."""
    import sqlalchemy as sa

    table = _table()
    query = sa.select(sa.func.coalesce(sa.func.sum(table.c.size), 0))
    return int(connection.execute(query.where(table.c.account == account) if account else query).scalar_one())


def drop(connection: sa.Connection, place: str) -> None:
    """Forget a file that is not where it should be."""
    import sqlalchemy as sa

    table = _table()
    connection.execute(sa.delete(table).where(table.c.place == place))


def take_expired(connection: sa.Connection, most: float) -> list[str]:
    """Forget the files whose time is over, and of the others those that expire first while all take more than ``most``.

    Returns their places.
    """
    import sqlalchemy as sa

    table, now = _table(), time.time()
    gone = []
    left = total(connection)
    rows = connection.execute(sa.select(table.c.place, table.c.size, table.c.expires_at).order_by(table.c.expires_at))
    for place, size, expires_at in rows.all():
        if expires_at > now and left <= most:
            break
        gone.append(place)
        left -= size
    for place in gone:
        connection.execute(sa.delete(table).where(table.c.place == place))
    return gone


def places(connection: sa.Connection) -> set[str]:
    """Return where all files lie."""
    import sqlalchemy as sa

    return set(connection.execute(sa.select(_table().c.place)).scalars())


def _table() -> sa.Table:
    from .. import schema

    return schema.artifacts
