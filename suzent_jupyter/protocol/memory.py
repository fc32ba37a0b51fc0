"""What agents and people keep for later: bodies of ``/memory`` and the frames ``memory.*`` of ``/ws/gateway``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .device import Frame
from .rest import Body

#: ``account``: one person's own; ``enterprise``: their organisation's; ``session``: one conversation's.
Level = Literal["account", "enterprise", "session"]
LEVELS: tuple[Level, ...] = ("account", "enterprise", "session")


class MemoryEntry(Body):
    """Something that is kept.

    Attributes
    ----------
    memory_id : str
        Unique within its level and owner.
    content : str
        The text.
    session_id : str
        The conversation, for level ``session``.
    created_at : str
        UTC, ISO 8601.
    by : str
        Who kept it: as the audit trail names callers, at level ``enterprise`` whose account it was.
    score : float, optional
        BM25 over what the caller reaches; larger fits better. None where nothing was looked for.
    """

    memory_id: str
    level: Level
    content: str
    tags: list[str] = Field(default_factory=list)
    session_id: str = ""
    created_at: str = ""
    by: str = ""
    score: float | None = None


class MemoryListResponse(Body):
    """``GET /memory``: what fits ``query``, best first, or without one everything, newest first.

    Attributes
    ----------
    next : str, optional
        Of everything, what to ask for as ``before`` to get what follows; None where that is all.
    """

    memories: list[MemoryEntry] = Field(default_factory=list)
    count: int = 0
    next: str | None = None


class MemorySave(Body):
    """``POST /memory``."""

    content: str
    level: Level = "account"
    tags: list[str] = Field(default_factory=list)
    session_id: str = ""


class MemorySaved(Body):
    """Its answer, once it is on disk. ``created`` is false where the same text was there already."""

    success: bool = True
    memory: MemoryEntry
    created: bool = True


class MemoryForget(Body):
    """``DELETE /memory``: the entries of these ids, or with ``everything`` all of a level (or session)."""

    level: Level = "account"
    ids: list[str] = Field(default_factory=list)
    everything: bool = False
    session_id: str = ""


class MemoryForgotten(Body):
    """Its answer."""

    success: bool = True
    forgotten: int = 0


class MemoryRequest(Frame):
    """Node → gateway: an agent keeps or looks for something; the gateway decides by ``run_id`` where it may.

    Without a ``level`` a query looks into all that is in reach; what is saved without one is the conversation's.
    """

    type: Literal["memory.query", "memory.save"]
    id: str | int
    run_id: str = ""
    query: str = ""
    limit: int | None = None
    content: str = ""
    level: Level | None = None
    tags: list[str] = Field(default_factory=list)


class MemoryResult(Frame):
    """Gateway → node: the answer, or ``error`` as ``{code, message, hint, retryable}``.

    What was saved is the one entry of ``memories``; ``created`` is false where the same text was there already.
    """

    type: Literal["memory.result"] = "memory.result"
    id: str | int
    ok: bool
    memories: list[dict[str, Any]] = Field(default_factory=list)
    created: bool | None = None
    error: dict[str, Any] | None = None
