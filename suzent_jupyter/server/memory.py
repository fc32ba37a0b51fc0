"""What the routes of memory do."""

from __future__ import annotations

from ..protocol.errors import SuzentError
from ..protocol.memory import MemoryForget, MemoryForgotten, MemoryListResponse, MemorySave, MemorySaved
from .request import Request


async def list_memories(request: Request) -> MemoryListResponse:
    """Return what is kept, or what fits ``?query=``; ``level``, ``session_id`` and ``limit`` narrow it."""
    raise SuzentError("stopping", "Not yet.")


async def save_memory(request: Request) -> MemorySaved:
    """Keep a text."""
    request.model(MemorySave)
    raise SuzentError("stopping", "Not yet.")


async def forget_memories(request: Request) -> MemoryForgotten:
    """Forget some of it."""
    request.model(MemoryForget)
    raise SuzentError("stopping", "Not yet.")
