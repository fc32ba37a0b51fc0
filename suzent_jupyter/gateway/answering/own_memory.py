"""The memory as this gateway's own agent uses it: what its turn reaches, and only while that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.memory import LEVELS
from ..memory.reach import Reach, reach_in
from ..principals import Principal
from .dispatching import asker_of_own

if TYPE_CHECKING:
    from ..gateway import Gateway


class OwnMemory:
    """See :class:`~suzent_jupyter.agent.tools.MemoryAccess`."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._gateway = gateway
        self._principal = principal

    async def save(self, run_id: str, content: str, level: str, tags: list[str]) -> dict[str, Any]:
        """Keep a text."""
        known = next((each for each in LEVELS if each == level), None)
        if known is None:
            raise SuzentError("invalid_request", f"`level` must be one of {', '.join(LEVELS)}.", hint="")
        entry, is_new = await self._gateway.memories.save(self._reach(run_id), known, content, tags)
        return {"id": entry.memory_id, "level": entry.level, "new": is_new}

    async def query(self, run_id: str, query: str, limit: int | None) -> list[dict[str, Any]]:
        """Return what fits."""
        found = await self._gateway.memories.query(self._reach(run_id), query, limit=limit)
        return [
            {
                "id": entry.memory_id,
                "level": entry.level,
                "content": entry.content,
                "tags": entry.tags,
                "kept_at": entry.created_at,
                "kept_by": entry.by,
            }
            for entry in found
        ]

    def _reach(self, run_id: str) -> Reach:
        asker = asker_of_own(self._gateway, self._principal, run_id)
        assert asker.run is not None
        return reach_in(asker.run, None)
