"""The full-text index of a space (SQLite FTS5), a table of its own: on the store's thread.

All of it takes the number of a space that was looked up before, and terms as :mod:`.terms` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa

_STEP_PAGES = 200  # what one step of a purge rewrites: some hundredths of a second


def create(connection: sa.Connection, space: int) -> None:
    """Make an empty one."""
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE {_name(space)} USING fts5(terms, tokenize='ascii')")


def drop(connection: sa.Connection, space: int) -> None:
    """Delete it with all that it holds."""
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_name(space)}")


def put(connection: sa.Connection, space: int, row: int, terms: list[str]) -> None:
    """Add an entry."""
    connection.execute(_table(space).insert().values(rowid=row, terms=" ".join(terms)))


def remove(connection: sa.Connection, space: int, row: int) -> int:
    """Remove an entry; returns how many terms it had."""
    import sqlalchemy as sa

    table = _table(space)
    found = connection.execute(sa.select(table.c.terms).where(table.c.rowid == row)).scalar()
    connection.execute(table.delete().where(table.c.rowid == row))
    return len(found.split()) if found else 0


def count(connection: sa.Connection, space: int, term: str) -> int:
    """Return how many entries hold a term."""
    import sqlalchemy as sa

    table = _table(space)
    query = sa.select(sa.func.count()).select_from(table).where(table.c[table.name].match(term))
    return int(connection.execute(query).scalar_one())


def search(connection: sa.Connection, space: int, terms: list[str], most: int) -> list[tuple[int, list[str]]]:
    """Return the ``most`` best entries by BM25, of those that hold any of the terms, each with its own terms.

    Of equal ones those with the larger rows come first.
    """
    import sqlalchemy as sa

    table = _table(space)
    # The terms are read once the best are known: of ten thousand that fit they would be megabytes to sort.
    best = sa.select(table.c.rowid).where(table.c[table.name].match(" OR ".join(terms)))
    best = best.order_by(table.c.rank, table.c.rowid.desc()).limit(most)
    query = sa.select(table.c.rowid, table.c.terms).where(table.c.rowid.in_(best))
    return [(row, text.split()) for row, text in connection.execute(query)]


def purge(connection: sa.Connection, space: int, *, first: bool) -> bool:
    """Take a step towards an index in which nothing is left of what was removed; False once there is none to take.

    FTS5 only marks what is removed, until it merges (https://www.sqlite.org/fts5.html, section 6.8).
    """
    import sqlalchemy as sa

    table, changes = _table(space), sa.select(sa.func.total_changes())
    before = connection.execute(changes).scalar_one()
    pages = -_STEP_PAGES if first else _STEP_PAGES
    connection.execute(table.insert().values({table.name: "merge", "rank": pages}))
    return int(connection.execute(changes).scalar_one()) - int(before) >= 2


def _table(space: int) -> sa.TableClause:
    import sqlalchemy as sa

    name = _name(space)
    # FTS5 calls a column like the table: it is what is searched, and what takes commands.
    return sa.table(name, *(sa.column(each) for each in ("rowid", "terms", "rank", name)))


def _name(space: int) -> str:
    return f"memory_index_{int(space)}"
