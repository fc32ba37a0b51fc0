"""Whose memory it is belongs to the key of every entry, and no statement leaves it out."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from support.gateways import ThreadedGateway
from support.memories import Person, person
from support.running import sync

Make = Callable[..., ThreadedGateway]
SPACE = ["level", "owner", "session_id"]


@sync
async def test_level_and_owner_are_part_of_the_primary_key(make_gateway: Make) -> None:
    gateway = make_gateway()
    async with await person(gateway, "ada", "red") as ada:
        await _everything(ada)
    with sqlite3.connect(gateway.config.data_dir / "suzent.db") as connection:

        def key(table: str) -> list[str]:
            columns = [row for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
            return [row[1] for row in sorted(columns, key=lambda row: row[5])]

        assert key("memories") == [*SPACE, "memory_id"]
        assert key("memory_spaces") == SPACE
        # One index for each level of each owner.
        spaces = connection.execute("SELECT DISTINCT space FROM memory_spaces").fetchall()
        indexes = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE memory%'")
        assert {name for (name,) in indexes} == {f"memory_index_{space}" for (space,) in spaces}
        assert len(spaces) == 3


async def _everything(who: Person) -> None:
    """Do all that can be done with a memory, at each level."""
    await who.chat("talk")
    session = {"session_id": "talk"}
    for level, more in (("account", {}), ("enterprise", {}), ("session", session)):
        kept = await who.keep("the lab is zeus", level, **more)
        await who.keep("the lab is zeus", level, tags=["lab"], **more)
        await who.keep("and the other is hera", level, **more)
        for query in ("", "lab"):
            await who.found(query, **more)
            await who.found(query, level=level, **more)
        assert (await who.forget(kept["memory"]["memory_id"], level=level, **more)).status_code == 200


@sync
async def test_no_statement_leaves_out_whose_it_is(make_gateway: Make) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(" ".join(statement.split()))

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", note)
    try:
        gateway = make_gateway()
        async with await person(gateway, "ada", "red") as ada:
            await _everything(ada)
            await ada.forget(level="account", everything=True)
            await ada.forget(level="session", session_id="talk", everything=True)
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", note)
    entries = [each for each in statements if re.search(r"\b(FROM|UPDATE) memories\b", each)]
    assert {each.split()[0] for each in entries} == {"SELECT", "UPDATE", "DELETE"}
    for each in entries:
        _, _, condition = each.partition(" WHERE ")
        missing = [name for name in SPACE if f"memories.{name} = ?" not in condition]
        assert not missing, each
    # What is looked for is looked for in one index, never in several.
    searches = [each for each in statements if " MATCH " in each]
    assert searches
    for each in searches:
        assert len(set(re.findall(r"memory_index_\d+", each))) == 1, each
