"""The files of one call: fetched or decoded into a folder of their own before it runs, gone when it is over."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import platform
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..protocol.artifacts import is_reference
from ..protocol.files import OCTETS, clean_file_name
from ..protocol.limits import Limits
from ..protocol.text import clean_text
from .fetching import Fetcher
from .local_file import MEMORY_BYTES, LocalFile
from .signature import ParameterError, Signature, read_binary

_LIMITS = Limits()
_FILES = 256  # of one call
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_NAME = re.compile(r"suzent-call-([0-9a-f]{8})-([0-9]{1,10})-.+")
_sweeping = threading.Lock()
_swept: list[bool] = []

#: Called with fraction and message of what is fetched.
Told = Callable[[float, str], None]


@dataclass(slots=True)
class _Place:
    """Where in the parameters a file stands, and how it is wanted: its text again where that is not as a file."""

    holder: Any
    key: Any
    where: str
    address: str = ""
    as_text: bool = False


class CallFiles:
    """The files in a call's parameters.

    Parameters
    ----------
    fetcher : Fetcher
        Gets what is kept at the gateway.
    params : dict
        The parameters; what is found in them is replaced by :meth:`lay_down`.
    signature : Signature
        What they are for.
    vouched : collection of str
        Absolute addresses that are the gateway's own.
    """

    def __init__(
        self, fetcher: Fetcher, params: dict[str, Any], signature: Signature, vouched: Collection[str] = ()
    ) -> None:
        self._fetcher = fetcher
        self._folder = ""
        self._count = 0
        self._room = _LIMITS.artifact_bytes
        self._known: dict[tuple[str, str], LocalFile] = {}
        self.places = _find(params, signature, lambda url: fetcher.address(url, vouched))

    async def lay_down(self, told: Told) -> None:
        """Put each file where it is wanted.

        Raises
        ------
        ParameterError
            As :meth:`.fetching.Fetcher.fetch`; ``too_large``; ``invalid_params`` for what is no base64.
        """
        if len(self.places) > _FILES:
            raise ParameterError(f"A call may have {_FILES} files.", "too_large")
        self._folder = await asyncio.to_thread(_make_folder)
        for place in self.places:
            value = place.holder[place.key]
            try:
                if place.address:
                    found = await self._fetched(value, place.address, told)
                else:
                    found = await asyncio.to_thread(self._decoded, value)
                place.holder[place.key] = await asyncio.to_thread(_text, found) if place.as_text else found
            except ParameterError as error:
                name = _shown(value)
                raise ParameterError(
                    f"The file {name}in parameter '{clean_text(place.where, 80)}' can't be used: {error}.", error.code
                ) from None

    def remove(self) -> None:
        """Remove them. Blocks."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _fetched(self, reference: dict[str, Any], address: str, told: Told) -> LocalFile:
        size, sha256 = reference["size"], reference["sha256"]
        known = self._known.get((address, sha256))
        if known is None or known["size"] != size:
            self._take_room(size)
            path = self._path(reference.get("name"))
            shows, message = size > _LIMITS.transfer_shown, f"Fetching {_shown(reference) or 'a file'}".strip()

            def report(taken: int) -> None:
                if shows:
                    told(taken / size, message)

            await self._fetcher.fetch(address, path, size, sha256, report)
            known = self._known[address, sha256] = LocalFile(size=size, path=str(path))
        return LocalFile({**reference, "path": known["path"]})

    def _decoded(self, value: Any) -> LocalFile:
        more = {key: each for key, each in value.items() if key != "base64"} if isinstance(value, dict) else {}
        try:
            data = read_binary(value)
        except ValueError as error:
            raise ParameterError(str(error)) from None
        self._take_room(len(data))
        path = self._path(more.get("name"))
        path.write_bytes(data)
        return LocalFile({**more, "size": len(data), "path": str(path)})

    def _path(self, name: Any) -> Path:
        """Return where a file goes: nothing of its name but what says its kind."""
        self._count += 1
        suffix = Path(clean_file_name(name, "")).suffix
        return Path(self._folder) / f"{self._count}{suffix if _SUFFIX.fullmatch(suffix) else ''}"

    def _take_room(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise ParameterError(f"it is more than {int(_LIMITS.artifact_bytes):,} bytes", "too_large")


def _find(params: dict[str, Any], signature: Signature, address: Callable[[str], str]) -> list[_Place]:
    """Return what is to be laid down: references, and where a path is wanted also what came inside the frame."""
    found: list[_Place] = []
    for name in params:
        item = signature.parameters.get(name)
        kinds = item.file_kinds if item is not None else frozenset()
        waiting: list[tuple[Any, Any]] = [(params, name)]
        while waiting:
            holder, key = waiting.pop()
            value = holder[key]
            if isinstance(value, dict) and _is_good(value):
                if where := address(value["url"]):
                    as_text = value.get("data_url") is True and not kinds
                    found.append(_Place(holder, key, name, where, as_text))
            elif "path" in kinds and _is_inline(value):
                found.append(_Place(holder, key, name))
            elif isinstance(value, dict):
                waiting += [(value, each) for each in value]
            elif isinstance(value, list):
                waiting += [(value, each) for each in range(len(value)) if isinstance(value[each], dict | list | str)]
    return found


def _is_good(value: Mapping[str, Any]) -> bool:
    return is_reference(value) and value["size"] >= 0 and _SHA256.fullmatch(value["sha256"]) is not None


def _is_inline(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("base64"), str)
    return isinstance(value, str) and value[:5].casefold() == "data:" and ";base64," in value[:1200]


def _text(file: LocalFile) -> str:
    """Return the ``data:`` URL that a file was before it was kept."""
    if file["size"] * 4 / 3 > MEMORY_BYTES:
        raise ParameterError(f"as text it is more than {MEMORY_BYTES:,} bytes", "too_large")
    return f"data:{file.get('media_type') or OCTETS};base64,{base64.b64encode(file.file.read_bytes()).decode('ascii')}"


def _shown(value: Any) -> str:
    name = clean_text(value.get("name"), 80) if isinstance(value, dict) else ""
    return f"'{name}' " if name else ""


def _this_machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _make_folder() -> str:
    """Make a folder that this user alone can read; first remove those of processes that were killed."""
    with _sweeping:
        if not _swept:
            _swept.append(True)
            _sweep(Path(tempfile.gettempdir()))
    return tempfile.mkdtemp(prefix=f"suzent-call-{_this_machine()}-{os.getpid()}-")


def _sweep(parent: Path) -> None:
    import psutil

    try:
        found = [each for each in os.scandir(parent) if _NAME.fullmatch(each.name)]
        for each in found:
            machine, number = _NAME.fullmatch(each.name).groups()  # type: ignore[union-attr]
            own = os.name != "posix" or each.stat(follow_symlinks=False).st_uid == os.getuid()
            gone = machine == _this_machine() and not psutil.pid_exists(int(number))
            if own and gone and each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path, ignore_errors=True)
    except OSError:
        pass  # another process sweeps too
