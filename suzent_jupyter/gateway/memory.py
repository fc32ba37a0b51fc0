"""What agents and people keep for later: three levels, each with an owner and a full-text index of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.memory import Level, MemoryEntry

if TYPE_CHECKING:
    from .answering.run import Run
    from .principals import Principal
    from .session import NodeSession
    from .store import Store


@dataclass(frozen=True, slots=True)
class Space:
    """One owner's memory of one level. ``session_id`` is ``""`` but for sessions, whose owner is an account."""

    level: Level
    owner: str
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be read and written on somebody's behalf; it is made by the gateway, never from what a caller says.

    Attributes
    ----------
    spaces : tuple of Space
        At most one of each level. A space that does not stand here is not looked into, counted or ranked.
    actor : str
        Who, for the record.
    """

    spaces: tuple[Space, ...]
    actor: str


def reach_of(principal: Principal, session_id: str = "") -> Reach:
    """Return what a caller of full authority reaches by ``/memory``: their own, their organisation's, one session."""
    raise NotImplementedError


def reach_in(run: Run, executor: NodeSession | None) -> Reach:
    """Return what an agent reaches in a turn.

    The account is that of the node that executes it (this gateway's own agent: the caller's). Where somebody of another
    account asks (``is_remote_session``), or the holder of a control grant, there is no account level in it.
    """
    raise NotImplementedError


class Memories:
    """Keeps and finds. Answers come after the commit.

    Parameters
    ----------
    store : Store
        Where it lies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(self, reach: Reach, level: Level, content: str, tags: list[str]) -> tuple[MemoryEntry, bool]:
        """Keep a text; returns it, and whether it is new.

        Raises
        ------
        SuzentError
            ``invalid_request``, ``permission_needed`` for a level out of reach, ``memory_full``, ``store_failed``.
        """
        raise NotImplementedError

    async def query(self, reach: Reach, query: str, levels: tuple[Level, ...], limit: int) -> list[MemoryEntry]:
        """Return what fits, best first; with an empty query what is newest."""
        raise NotImplementedError

    async def forget(self, reach: Reach, level: Level, ids: list[str], *, everything: bool = False) -> int:
        """Forget entries and return how many; ``memory_unknown`` if one is not there, then none is forgotten."""
        raise NotImplementedError
