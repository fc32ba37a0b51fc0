"""The model's tools for files under the server's root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ..data import show
from .answering import answering

if TYPE_CHECKING:
    from pydantic_ai import Tool

    from ...protocol.limits import Limits
    from . import FileAccess, PermissionAccess

_ENTRIES = 500
_WRITES = "Write a text file under the server's root; an existing one is replaced."


def file_tools(
    files: FileAccess, limits: Limits, permissions: PermissionAccess | None, run_id: str
) -> list[Tool[None]]:
    """Return ``list_files``, ``read_file`` and ``write_file`` for the turn ``run_id``; the last one asks first."""
    from pydantic_ai import Tool

    room = int(limits.agent_file_bytes)

    @answering
    async def list_files(path: str = "") -> Any:
        """List a directory.

        Parameters
        ----------
        path
            Relative to the root, with forward slashes; empty for the root itself.
        """
        entries = await files.list(path)
        listed: dict[str, Any] = {"path": path, "entries": entries[:_ENTRIES]}
        if len(entries) > _ENTRIES:
            listed["note"] = f"{len(entries) - _ENTRIES:,} further entries are not shown."
        return show(listed, int(limits.agent_result_bytes)).text

    @answering
    async def read_file(path: str, offset: int = 0) -> Any:
        """Read a text file, or the cells of a notebook as text.

        Parameters
        ----------
        path
            Relative to the root, with forward slashes.
        offset
            The byte to start from; next_offset of an earlier answer goes on where that ended.
        """
        return show(await files.read(path, max(0, offset), room), room * 8).text

    @answering
    async def write_file(path: str, content: str) -> Any:
        """Write a text file; an existing one is replaced. A person must allow it first.

        Parameters
        ----------
        path
            Relative to the root, with forward slashes. Its directory must exist.
        content
            The whole text.
        """
        size = len(content.encode(errors="replace"))
        if size > room * 4:
            raise SuzentError("too_large", f"The text takes {size:,} bytes; {room * 4:,} is the most.")
        if permissions is None:
            raise SuzentError("permission_needed", "Writing files needs somebody's permission.")
        await permissions.require(run_id, "write_file", _WRITES, {"path": path, "content": content})
        return show(await files.write(path, content), int(limits.agent_result_bytes)).text

    return [Tool(each, takes_ctx=False) for each in (list_files, read_file, write_file)]
