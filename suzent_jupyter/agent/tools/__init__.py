"""What a model may use in a turn; the gateway and its server bring it along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class NodeAccess(Protocol):
    """The devices, as far as the caller of the turn may use them."""

    def nodes(self) -> list[dict[str, Any]]:
        """Return ``{name, platform, description, capabilities: [{name, description, parameters}]}`` for each.

        Where a name is not the only one, ``id`` tells its device apart.
        """

    async def invoke(self, run_id: str, node: str, command: str, params: dict[str, Any]) -> Any:
        """Call a command in the turn ``run_id`` and return its result; cancelling the task cancels the call.

        It may take minutes where somebody must allow it first.

        Raises
        ------
        SuzentError
            When it is refused or fails.
        """


class FileAccess(Protocol):
    """Files under the server's root; hidden ones and those outside do not exist."""

    async def list(self, path: str) -> list[dict[str, Any]]:
        """Return ``{name, path, type, size, modified}`` of a directory's entries."""

    async def read(self, path: str, offset: int, length: int) -> dict[str, Any]:
        """Return ``{path, content, size, offset, next_offset}`` of a text file, ``length`` bytes at most."""

    async def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file and return ``{path, size}``."""


class DispatchAccess(Protocol):
    """The agents of other nodes, as far as the caller of the turn may use them."""

    async def dispatch(self, run_id: str, node: str, prompt: str) -> str:
        """Have a node's agent answer a prompt as part of the turn ``run_id``; cancelling the task stops it.

        Raises
        ------
        SuzentError
            When it is refused or fails.
        """


class RouteAccess(Protocol):
    """Which node suits what, as far as the caller of the turn may use them."""

    async def route(self, query: str) -> dict[str, Any]:
        """Return ``{nodes, considered, decided}``; a node is ``{node, id, has_agent, score, words, confidence, why}``.

        The most suitable node comes first; ``score`` is that of shared words, ``confidence`` a model's, and
        ``decided`` says how the first one was found.

        Raises
        ------
        SuzentError
            When it is refused.
        """


class PermissionAccess(Protocol):
    """Asks somebody before a tool of the gateway's own runs."""

    async def require(self, run_id: str, tool: str, description: str, params: dict[str, Any]) -> None:
        """Return once it is allowed; ``params`` is exactly what it will run with. Cancelling the task ends it.

        Raises
        ------
        SuzentError
            When it is not allowed, or nobody can be asked.
        """


class MemoryAccess(Protocol):
    """What is kept for later, as far as the turn ``run_id`` reaches."""

    async def save(self, run_id: str, content: str, level: str, tags: list[str]) -> dict[str, Any]:
        """Keep a text and return ``{id, level, new}``.

        Raises
        ------
        SuzentError
            When it is refused or fails.
        """

    async def query(self, run_id: str, query: str, limit: int | None) -> list[dict[str, Any]]:
        """Return ``{id, level, content, tags, kept_at, kept_by}`` of what fits, best first; the newest without words.

        Raises
        ------
        SuzentError
            When it is refused or fails.
        """


@dataclass(frozen=True, slots=True)
class Workbench:
    """The tools of one turn; None for what there is not."""

    nodes: NodeAccess | None = None
    files: FileAccess | None = None
    dispatch: DispatchAccess | None = None
    route: RouteAccess | None = None
    permissions: PermissionAccess | None = None
    memory: MemoryAccess | None = None
