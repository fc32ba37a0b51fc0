"""Spaces and their entries as rows: on the store's thread. Every statement names level, owner and session."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.memory import MemoryEntry
from ..clock import now_text
from . import index, terms
from .reach import Space

if TYPE_CHECKING:
    import sqlalchemy as sa

_ID_CHARS = 13  # microseconds since 1970 in hexadecimal, good until 2112: ids follow time within their space


@dataclass(frozen=True, slots=True)
class Known:
    """A space that something was kept in: its number, and how many entries and words it holds."""

    space: Space
    number: int
    entries: int
    words: int


def find(connection: sa.Connection, space: Space) -> Known | None:
    """Return a space; None where nothing was ever kept in it."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.memory_spaces
    row = connection.execute(sa.select(table).where(*_is(table, space))).mappings().first()
    return Known(space, row["space"], row["entries"], row["words"]) if row is not None else None


def open_space(connection: sa.Connection, space: Space, sessions: int) -> Known:
    """Return a space, made if need be. A new session makes the oldest beyond ``sessions`` of its account go.

    Raises
    ------
    SuzentError
        ``conversation_unknown`` for a session of a conversation that is not there (any more).
    """
    import sqlalchemy as sa

    from .. import schema

    if space.level == "session":
        talks = schema.conversations
        here = [talks.c.account == space.owner, talks.c.conversation_id == space.session_id]
        if connection.execute(sa.select(talks.c.account).where(*here)).first() is None:
            raise SuzentError("conversation_unknown", f"There is no conversation '{space.session_id[:128]}'.")
    if (known := find(connection, space)) is not None:
        return known
    table = schema.memory_spaces
    number = (connection.execute(sa.select(sa.func.max(table.c.space))).scalar() or 0) + 1
    connection.execute(
        sa.insert(table).values(**_names(space), space=number, updated_at=now_text(), entries=0, words=0)
    )
    index.create(connection, number)
    if space.level == "session":
        own = sa.select(table.c.session_id).where(table.c.level == "session", table.c.owner == space.owner)
        oldest = own.order_by(table.c.updated_at.desc(), table.c.space.desc()).offset(sessions)
        drop_sessions(connection, space.owner, connection.execute(oldest).scalars().all())
    return Known(space, number, 0, 0)


def drop_sessions(connection: sa.Connection, account: str, session_ids: Iterable[str]) -> None:
    """Forget all that conversations of an account keep."""
    for session_id in session_ids:
        drop(connection, Space("session", account, session_id))


def drop(connection: sa.Connection, space: Space) -> int:
    """Forget all of a space, and return how many entries that were."""
    import sqlalchemy as sa

    from .. import schema

    known = find(connection, space)
    if known is None:
        return 0
    for table in (schema.memories, schema.memory_spaces):
        connection.execute(sa.delete(table).where(*_is(table, space)))
    index.drop(connection, known.number)
    return known.entries


# -- entries --


def same(connection: sa.Connection, space: Space, content: str) -> MemoryEntry | None:
    """Return the entry that has exactly this text."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.memories
    query = sa.select(table).where(*_is(table, space), table.c.digest == _digest(content))
    row = connection.execute(query).mappings().first()
    return _entry(row) if row is not None else None


def add(connection: sa.Connection, known: Known, content: str, tags: list[str], by: str) -> MemoryEntry:
    """Keep a new entry."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.memories
    last = connection.execute(sa.select(sa.func.max(table.c.memory_id)).where(*_is(table, known.space))).scalar()
    row = max(time.time_ns() // 1000, int(last or "0", 16) + 1)
    values = {
        **_names(known.space),
        "memory_id": id_of(row),
        "created_at": now_text(),
        "by": by,
        "digest": _digest(content),
        "tags": tags,
        "content": content,
    }
    connection.execute(sa.insert(table).values(**values))
    found = terms.indexed(content, tags)
    index.put(connection, known.number, row, found)
    _count(connection, known.space, 1, len(found))
    return _entry(values)


def tag(connection: sa.Connection, known: Known, entry: MemoryEntry, tags: list[str]) -> MemoryEntry:
    """Give an entry further tags."""
    import sqlalchemy as sa

    from .. import schema

    table, row = schema.memories, int(entry.memory_id, 16)
    connection.execute(
        sa.update(table).where(*_is(table, known.space), table.c.memory_id == entry.memory_id).values(tags=tags)
    )
    before = index.remove(connection, known.number, row)
    found = terms.indexed(entry.content, tags)
    index.put(connection, known.number, row, found)
    _count(connection, known.space, 0, len(found) - before)
    return entry.model_copy(update={"tags": tags})


def remove(connection: sa.Connection, known: Known, memory_ids: Sequence[str]) -> None:
    """Forget entries that are there."""
    import sqlalchemy as sa

    from .. import schema

    table, fewer = schema.memories, 0
    for memory_id in memory_ids:
        connection.execute(sa.delete(table).where(*_is(table, known.space), table.c.memory_id == memory_id))
        fewer += index.remove(connection, known.number, int(memory_id, 16))
    _count(connection, known.space, -len(memory_ids), -fewer)


def entries(connection: sa.Connection, space: Space, memory_ids: Sequence[str]) -> dict[str, MemoryEntry]:
    """Return id → entry, of those that are there."""
    import sqlalchemy as sa

    from .. import schema

    table, found = schema.memories, {}
    for start in range(0, len(memory_ids), 500):
        some = table.c.memory_id.in_(memory_ids[start : start + 500])
        for row in connection.execute(sa.select(table).where(*_is(table, space), some)).mappings():
            found[row["memory_id"]] = _entry(row)
    return found


def ids_by(connection: sa.Connection, space: Space, by: str) -> list[str]:
    """Return the ids of what somebody kept."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.memories
    return list(connection.execute(sa.select(table.c.memory_id).where(*_is(table, space), table.c.by == by)).scalars())


def newest(connection: sa.Connection, space: Space, limit: int, before: str, chars: int) -> list[MemoryEntry]:
    """Return entries, newest first, those older than the id ``before``; about ``chars`` characters of them."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.memories
    query = sa.select(table).where(*_is(table, space))
    if before:
        query = query.where(table.c.memory_id < before)
    found = []
    with connection.execute(query.order_by(table.c.memory_id.desc()).limit(limit)) as rows:
        for row in rows.mappings():
            found.append(_entry(row))
            if (chars := chars - len(row["content"])) < 0:
                break
    return found


def is_id(memory_id: str) -> bool:
    """Tell whether a text could be the id of an entry."""
    return len(memory_id) == _ID_CHARS and set(memory_id) <= set("0123456789abcdef")


def id_of(row: int) -> str:
    """Return the id of an entry by its row in its space's index."""
    return f"{row:0{_ID_CHARS}x}"


def _entry(row: Any) -> MemoryEntry:
    tags = row["tags"]
    return MemoryEntry.model_validate({**row, "tags": json.loads(tags) if isinstance(tags, str) else tags})


def _count(connection: sa.Connection, space: Space, entries: int, words: int) -> None:
    import sqlalchemy as sa

    from .. import schema

    table = schema.memory_spaces
    connection.execute(
        sa.update(table)
        .where(*_is(table, space))
        .values(entries=table.c.entries + entries, words=table.c.words + words, updated_at=now_text())
    )


def _is(table: sa.Table, space: Space) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == value for name, value in _names(space).items()]


def _names(space: Space) -> dict[str, str]:
    return {"level": space.level, "owner": space.owner, "session_id": space.session_id}


def _digest(content: str) -> bytes:
    return sha256(content.encode(errors="replace")).digest()
