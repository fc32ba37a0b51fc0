"""Keeps, finds and forgets. What is not in the caller's reach is not looked into, so nothing can tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ...protocol.memory import LEVELS, Level, MemoryEntry
from ...protocol.text import clean_lines, clean_tags
from ..audit import Audit, Row
from . import index, spaces, terms
from .ranking import Collection
from .reach import Reach, Space

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ..store import Store

MOST = 1000
"""Entries of one answer."""

_ANSWER_CHARS = 400_000  # of one answer's texts, about
_CHOSEN = 50  # of each space, at least, before all are ranked together


class Memories:
    """The memory of one gateway. Answers come after the commit.

    Parameters
    ----------
    store : Store
        Where it lies.
    audit : Audit
        Where it is noted who kept and who forgot something; never what.
    limits : Limits
        ``memory_chars``, ``memory_entries``, ``memory_results``, ``memory_sessions`` and ``tags``.
    owner : str
        The account that owns the gateway.
    """

    def __init__(self, store: Store, audit: Audit, limits: Limits, owner: str) -> None:
        self._store = store
        self._audit = audit
        self._limits = limits
        self._owner = owner

    async def save(self, reach: Reach, level: Level, content: str, tags: list[str]) -> tuple[MemoryEntry, bool]:
        """Keep a text; returns it, and whether it is new. Of one that was there already further tags are kept.

        Raises
        ------
        SuzentError
            ``invalid_request``, ``permission_needed`` for a level out of reach (``no_org`` for somebody without an
            organisation), ``conversation_unknown``, ``memory_full``, ``store_failed``.
        """
        space, text = reach.space(level), self._text(content)
        wanted = clean_tags(tags, int(self._limits.tags))
        # Of what an organisation shares it counts whose it is; of one's own, which program it was.
        by = reach.account if level == "enterprise" else reach.actor
        row = Row(reach.account, reach.actor, "memory.save", detail={"level": level})
        answer: list[tuple[MemoryEntry, bool]] = []

        def work(connection: sa.Connection) -> None:
            entry, is_new = self._save(connection, space, text, wanted, by)
            row.outcome = "ok" if is_new else "known"
            row.detail = {"level": level, "memory_id": entry.memory_id, **_session(space)}
            answer.append((entry, is_new))

        self._audit.publish(await self._audit.change([row], work))
        return answer[-1]

    async def query(
        self, reach: Reach, query: str, levels: Sequence[Level] = LEVELS, limit: int | None = None
    ) -> list[MemoryEntry]:
        """Return what fits, best first; with an empty query what is newest.

        Raises
        ------
        SuzentError
            ``invalid_request`` for a question or number that is too large.
        """
        limit = self._number(limit)
        if not query.strip():
            return (await self.newest(reach, levels, limit))[0]
        if len(query) > (most := int(self._limits.memory_chars)):
            raise SuzentError("invalid_request", f"`query` may have {most:,} characters at most, not {len(query):,}.")
        asked = terms.asked(query)
        wanted = [each for each in reach.spaces if each.level in levels]
        if not asked or not wanted:
            return []
        found = await self._store.run(lambda connection: _ranked(connection, wanted, asked, limit))
        return _within(found)

    async def newest(
        self, reach: Reach, levels: Sequence[Level] = LEVELS, limit: int | None = None, before: str = ""
    ) -> tuple[list[MemoryEntry], str | None]:
        """Return entries, newest first, and what to give as ``before`` for those that follow; None where none do.

        Raises
        ------
        SuzentError
            ``invalid_request`` for a ``before`` that no answer has named.
        """
        limit = self._number(limit)
        if before and not spaces.is_id(before):
            raise SuzentError("invalid_request", "`before` must be what an answer gave as `next`.")
        wanted = [each for each in reach.spaces if each.level in levels]

        def work(connection: sa.Connection) -> list[MemoryEntry]:
            return [
                entry for each in wanted for entry in spaces.newest(connection, each, limit + 1, before, _ANSWER_CHARS)
            ]

        found = await self._store.run(work)
        found.sort(key=lambda entry: entry.memory_id, reverse=True)
        shown = _within(found[:limit])
        return shown, shown[-1].memory_id if len(shown) < len(found) else None

    async def forget(self, reach: Reach, level: Level, ids: list[str], *, everything: bool = False) -> int:
        """Forget entries and return how many. Answered once nothing of them is left in the file.

        Of what an organisation shares everybody may forget what is their own, and the gateway's owner all of it.

        Raises
        ------
        SuzentError
            ``memory_unknown`` if one is not there, ``not_owner`` if one is somebody else's; none is forgotten then.
        """
        space = reach.space(level)
        by = reach.account if level == "enterprise" and reach.account != self._owner else ""
        if everything == bool(ids):
            raise SuzentError("invalid_request", "Give either `ids`, or `everything`.")
        row = Row(reach.account, reach.actor, "memory.forget", detail={"level": level})
        answer: list[int] = []

        def work(connection: sa.Connection) -> None:
            if everything and not by:
                forgotten = spaces.drop(connection, space)
            else:
                forgotten = _forget(connection, space, spaces.ids_by(connection, space, by) if everything else ids, by)
            answer.append(forgotten)
            row.detail = {"level": level, "entries": forgotten, **_session(space)}
            self._store.empty_log_soon()

        self._audit.publish(await self._audit.change([row], work))
        await self._purge(space)
        return answer[-1]

    # -- checks --

    def _text(self, content: str) -> str:
        most = int(self._limits.memory_chars)
        if len(content) > most:
            raise SuzentError(
                "invalid_request",
                f"`content` may have {most:,} characters at most, not {len(content):,}.",
                hint="Keep a short note, and the long text in a file.",
            )
        text = clean_lines(content).strip()
        if not text:
            raise SuzentError("invalid_request", "`content` must not be empty.", hint="Give the text to keep.")
        return text

    def _number(self, limit: int | None) -> int:
        if limit is None:
            return int(self._limits.memory_results)
        if not 1 <= limit <= MOST:
            raise SuzentError("invalid_request", f"`limit` must be a whole number from 1 to {MOST}.")
        return limit

    # -- on the store's thread --

    def _save(
        self, connection: sa.Connection, space: Space, text: str, tags: list[str], by: str
    ) -> tuple[MemoryEntry, bool]:
        known = spaces.open_space(connection, space, int(self._limits.memory_sessions))
        there = spaces.same(connection, space, text)
        if there is not None:
            more = clean_tags([*there.tags, *tags], int(self._limits.tags))
            return (spaces.tag(connection, known, there, more) if more != there.tags else there), False
        if known.entries >= self._limits.memory_entries:
            raise SuzentError("memory_full", f"{known.entries:,} entries are kept at level `{space.level}` already.")
        return spaces.add(connection, known, text, tags, by), True

    async def _purge(self, space: Space) -> None:
        """Take what was forgotten out of the index for good, in steps between which others may write."""

        def step(connection: sa.Connection) -> bool:
            known = spaces.find(connection, space)
            more = known is not None and index.purge(connection, known.number, first=first)
            if not more:
                self._store.empty_log_soon()
            return more

        first = True
        while await self._store.run(step):
            first = False


def _ranked(connection: sa.Connection, wanted: list[Space], asked: list[str], limit: int) -> list[MemoryEntry]:
    together = Collection()
    chosen: list[tuple[Space, int, list[str]]] = []
    for space in wanted:
        known = spaces.find(connection, space)
        if known is None or not known.entries:
            continue
        together.entries += known.entries
        together.words += known.words
        for term in asked:
            together.holding[term] += index.count(connection, known.number, term)
        for row, held in index.search(connection, known.number, asked, max(limit, _CHOSEN)):
            chosen.append((space, row, held))
    found: list[MemoryEntry] = []
    for space in wanted:
        scores = {spaces.id_of(row): together.score(asked, held) for each, row, held in chosen if each == space}
        entries = spaces.entries(connection, space, list(scores))
        found += [entry.model_copy(update={"score": scores[key]}) for key, entry in entries.items()]
    found.sort(key=lambda entry: (entry.score, entry.memory_id), reverse=True)
    return found[:limit]


def _forget(connection: sa.Connection, space: Space, ids: list[str], by: str) -> int:
    wanted = list(dict.fromkeys(ids))
    known = spaces.find(connection, space)
    there = {} if known is None else spaces.entries(connection, space, [each for each in wanted if spaces.is_id(each)])
    for each in wanted:
        if each not in there:
            raise SuzentError("memory_unknown", f"There is no entry '{each[:64]}' at level `{space.level}`.")
        if by and there[each].by != by:
            raise SuzentError(
                "not_owner",
                f"Somebody else kept '{each}' for your organisation.",
                hint="Who kept it, or the gateway's owner, can forget it.",
            )
    if known is not None:
        spaces.remove(connection, known, wanted)
    return len(wanted)


def _session(space: Space) -> dict[str, str]:
    return {"conversation": space.session_id} if space.session_id else {}


def _within(found: list[MemoryEntry]) -> list[MemoryEntry]:
    """Return as many, and at least one, as one answer may hold."""
    left = _ANSWER_CHARS
    shown: list[MemoryEntry] = []
    for entry in found:
        left -= len(entry.content)
        if shown and left < 0:
            break
        shown.append(entry)
    return shown
