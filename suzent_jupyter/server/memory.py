"""What the routes of memory do."""

from __future__ import annotations

from ..gateway.memory.memories import MOST
from ..gateway.memory.reach import reach_of
from ..protocol.errors import SuzentError
from ..protocol.memory import (
    LEVELS,
    Level,
    MemoryForget,
    MemoryForgotten,
    MemoryListResponse,
    MemorySave,
    MemorySaved,
)
from .request import Request


async def list_memories(request: Request) -> MemoryListResponse:
    """Return what is kept, or what fits ``?query=``; ``level``, ``session_id`` and ``limit`` narrow it.

    Without ``query`` the answer's ``next`` is the ``before`` of the page that follows.
    """
    reach = reach_of(request.principal, request.query.get("session_id", ""))
    levels = _levels(request.query.get("level", ""))
    limit = request.number("limit", None, 1, MOST)
    query = request.query.get("query", "")
    memories, following = request.gateway.memories, None
    if query.strip():
        found = await memories.query(reach, query, levels, limit)
    else:
        found, following = await memories.newest(reach, levels, limit or MOST, request.query.get("before", ""))
    return MemoryListResponse(memories=found, count=len(found), next=following)


async def save_memory(request: Request) -> MemorySaved:
    """Keep a text."""
    body = request.model(MemorySave)
    reach = reach_of(request.principal, body.session_id)
    entry, is_new = await request.gateway.memories.save(reach, body.level, body.content, body.tags)
    return MemorySaved(memory=entry, created=is_new)


async def forget_memories(request: Request) -> MemoryForgotten:
    """Forget some of it."""
    body = request.model(MemoryForget)
    reach = reach_of(request.principal, body.session_id)
    gone = await request.gateway.memories.forget(reach, body.level, body.ids, everything=body.everything)
    return MemoryForgotten(forgotten=gone)


def _levels(wanted: str) -> tuple[Level, ...]:
    if not wanted:
        return LEVELS
    found = tuple(level for level in LEVELS if level == wanted)
    if not found:
        raise SuzentError("invalid_request", f"`level` must be one of {', '.join(LEVELS)}.", hint="Or leave it out.")
    return found
