"""An agent's files: those of the Jupyter server's contents manager, hidden ones and all outside its root left out."""

from __future__ import annotations

import asyncio
import copy
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

if TYPE_CHECKING:
    from ..agent.tools import FileAccess
    from ..protocol.limits import Limits

_PATH_CHARS = 1024
_DRIVE = re.compile(r"^[A-Za-z]:|:\$|::")  # also a Windows file's other streams
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LIST_HINT = "List the directory to see what there is."


def file_access(contents: Any, limits: Limits, *private: Path) -> FileAccess | None:
    """Return the files of a contents manager, sync or async; None where there is no manager.

    Directories in ``private``, and Jupyter's own, hold tokens: below the root they count as hidden.
    """
    return None if contents is None else _Files(contents, limits, private)


class _Files:
    def __init__(self, contents: Any, limits: Limits, private: tuple[Path, ...]) -> None:
        self._contents = contents
        self._limits = limits
        self._private = private

    async def list(self, path: str) -> list[dict[str, Any]]:
        path = await self._checked(path)
        model = await self._get(path, content=False)
        if model["type"] != "directory":
            raise SuzentError("invalid_request", f"{_quoted(path)} is a file; read it.", hint="")
        model = await self._get(path, content=True, type="directory")
        entries = [entry for entry in model["content"] if not str(entry["name"]).startswith(".")]
        inside = await asyncio.to_thread(lambda: [self._is_inside(str(entry["path"])) for entry in entries])
        shown = [_entry(entry) for entry, seen in zip(entries, inside, strict=True) if seen]
        return sorted(shown, key=lambda entry: entry["name"])

    async def read(self, path: str, offset: int, length: int) -> dict[str, Any]:
        path = await self._checked(path)
        model = await self._get(path, content=False)
        kind, size = model["type"], model.get("size") or 0
        if kind == "directory":
            raise SuzentError("invalid_request", f"{_quoted(path)} is a directory; list it.", hint="")
        if size > self._limits.frame_bytes:
            raise SuzentError(
                "too_large",
                f"{_quoted(path)} has {size:,} bytes; {int(self._limits.frame_bytes):,} is the most.",
                hint="",
            )
        if kind == "notebook":
            notebook = await self._get(path, content=True, type="notebook")
            text = await asyncio.to_thread(_cells, notebook["content"])
        else:
            binary = _binary(path, model.get("mimetype"), size)
            try:
                model = await self._get(path, content=True, type="file", format="text")
            except SuzentError as error:
                raise binary if error.code == "invalid_request" else error from None
            text = model["content"]
            if "\0" in text:
                raise binary
        return {"path": path, **await asyncio.to_thread(_part, text, offset, length)}

    async def write(self, path: str, content: str) -> dict[str, Any]:
        path = await self._checked(path)
        folder, _, name = path.rpartition("/")
        if not name:
            raise SuzentError("invalid_request", "Name the file to write.", hint="")
        if name.lower().endswith(".ipynb"):
            raise SuzentError(
                "invalid_request", "Notebooks can be read here, not written.", hint="Write a .py or .md file."
            )
        if (await self._get(folder, content=False))["type"] != "directory":
            raise SuzentError("invalid_request", f"{_quoted(folder)} is no directory.", hint=_LIST_HINT)
        try:
            known = await self._get(path, content=False)
        except SuzentError as error:
            if error.code != "file_unknown":
                raise
        else:
            if known["type"] == "directory":
                raise SuzentError("invalid_request", f"{_quoted(path)} is a directory.", hint="Choose another name.")
        saved = await self._call("save", {"type": "file", "format": "text", "content": content}, path)
        return {"path": path, "size": saved.get("size") or len(content.encode())}

    async def _checked(self, path: str) -> str:
        """Return a path in the manager's form; ``file_unknown`` for what is hidden or outside."""
        path = check_path(path)
        if not await asyncio.to_thread(self._is_inside, path) or (path and await self._call("is_hidden", path)):
            raise _unknown(path)
        return path

    def _is_inside(self, path: str) -> bool:
        """Tell whether a path, with its links followed, stays under the root and hits nothing hidden; uses the disk."""
        root = Path(os.path.realpath(Path(self._contents.root_dir).expanduser()))
        real = Path(os.path.realpath(root / path))
        if any(real.is_relative_to(each) for each in self._private_below(root)):
            return False
        return real.is_relative_to(root) and not any(part.startswith(".") for part in real.relative_to(root).parts)

    def _private_below(self, root: Path) -> Iterator[Path]:
        from jupyter_core.paths import jupyter_config_dir, jupyter_data_dir, jupyter_runtime_dir

        for each in (*self._private, jupyter_config_dir(), jupyter_data_dir(), jupyter_runtime_dir()):
            real = Path(os.path.realpath(each))
            if real != root and real.is_relative_to(root):
                yield real

    async def _get(self, path: str, **options: Any) -> dict[str, Any]:
        model: dict[str, Any] = await self._call("get", path, **options)
        return model

    async def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call the manager: an async one as the server does, a sync one, which waits for the disk, in a thread."""
        from jupyter_server.services.contents.manager import AsyncContentsManager
        from tornado.web import HTTPError

        path = str(arguments[-1])
        try:
            if isinstance(self._contents, AsyncContentsManager):
                answer = getattr(self._contents, method)(*arguments, **options)
            else:
                manager = _for_threads(self._contents, asyncio.get_running_loop())
                answer = await asyncio.to_thread(getattr(manager, method), *arguments, **options)
            return await answer if hasattr(answer, "__await__") else answer
        except HTTPError as error:
            raise _refused(path, error.status_code) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _unknown(path) from None
        except OSError as error:
            raise SuzentError("forbidden", f"{_quoted(path)} can't be used: {error.strerror}.", hint="") from None


def check_path(path: str) -> str:
    """Return a path below the root with its empty and ``.`` parts left out.

    Raises
    ------
    SuzentError
        ``file_unknown`` for hidden parts and for what leads out: ``..``, absolute paths, drive letters, other
        separators, control characters, and any of these percent-encoded, once or more often.
    """
    if len(path) > _PATH_CHARS:
        raise _unknown(path)
    form = path
    for _ in range(4):
        _check_form(form, path)
        decoded = unquote(form, errors="surrogateescape")
        if decoded == form:
            break
        form = decoded
    else:
        raise _unknown(path)
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _check_form(form: str, path: str) -> None:
    parts = form.split("/")
    if (
        form.startswith(("/", "~"))
        or "\\" in form
        or _UNPRINTABLE.search(form)
        or any(_DRIVE.search(part) or (part.strip().startswith(".") and part != ".") for part in parts)
    ):
        raise _unknown(path)


def _unknown(path: str) -> SuzentError:
    return SuzentError(
        "file_unknown",
        f"There is no file {_quoted(path)} here.",
        hint=f"Paths are relative to the root, with forward slashes; hidden files don't count. {_LIST_HINT}",
    )


def _refused(path: str, status: int) -> SuzentError:
    # The manager's own words name absolute paths.
    if status == 404:
        return _unknown(path)
    if status in (401, 403):
        return SuzentError("forbidden", f"The server may not use {_quoted(path)}.", hint="")
    if status == 413:
        return SuzentError("too_large", f"{_quoted(path)} is too large.", hint="")
    if status < 500:
        return SuzentError("invalid_request", f"The server does not take {_quoted(path)} for that.", hint="")
    return SuzentError("internal", f"The server failed with {_quoted(path)}.", hint="Its log says why.")


def _binary(path: str, media_type: Any, size: int) -> SuzentError:
    kind = clean_text(media_type, 64) or "unknown type"
    return SuzentError("invalid_request", f"{_quoted(path)} is not text: {kind}, {size:,} bytes.", hint="")


def _quoted(path: str) -> str:
    return f"'{clean_text(path, 200)}'"


def _entry(model: dict[str, Any]) -> dict[str, Any]:
    modified = model.get("last_modified")
    return {
        "name": model["name"],
        "path": str(model["path"]).strip("/"),
        "type": model["type"],
        "size": model.get("size"),
        "modified": modified.isoformat() if isinstance(modified, datetime) else str(modified or ""),
    }


def _cells(notebook: Any) -> str:
    """Return the cells of a notebook as one script, in the percent format; outputs are left out."""
    cells = []
    for number, cell in enumerate(notebook.get("cells", []), 1):
        source = cell.get("source", "")
        source = source if isinstance(source, str) else "".join(source)
        cells.append(f"# %% [{cell.get('cell_type', 'raw')}] {number}\n{source}\n")
    return "\n".join(cells)


def _part(text: str, offset: int, length: int) -> dict[str, Any]:
    """Return ``length`` bytes from ``offset``, moved to where characters begin and end."""
    data = text.encode(errors="replace")
    size = len(data)
    start = min(offset, size)
    while start < size and data[start] & 0xC0 == 0x80:
        start += 1
    end = min(start + max(4, length), size)
    while start < end < size and data[end] & 0xC0 == 0x80:
        end -= 1
    content = data[start:end].decode()
    return {"content": content, "size": size, "offset": start, "next_offset": end if end < size else None}


def _for_threads(manager: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Return a copy of a sync manager whose events are told on the loop, where their listeners live."""
    twin = copy.copy(manager)
    emit: Callable[[Any], Any] = manager.emit
    twin.emit = lambda data: loop.call_soon_threadsafe(emit, data)
    return twin
