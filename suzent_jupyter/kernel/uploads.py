"""Files and large bytes of calls and prompts: sent ahead to a gateway that keeps them, and named by reference then."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..protocol.limits import KIB, Limits
from ..protocol.paths import local_path
from .errors import CallCancelled, ContentError, InvalidParams, KernelError, UsageError
from .plain import one_line
from .results import Binary
from .sniff import sniff
from .transfers import Transfer

if TYPE_CHECKING:
    from .rest import Rest

Record = dict[str, Any]

_LIMITS = Limits()
_PIECE_BYTES = 256 * KIB
_DEPTH = 64
_OCTETS = "application/octet-stream"
_BYTES = (bytes, bytearray, memoryview)


class File:
    """A file of this machine whose content goes along with a call or a prompt. A plain path names one over there.

    Parameters
    ----------
    path : path-like
        ``~`` is this user's home.
    media_type : str, optional
        Told by its name or its first bytes otherwise.

    Raises
    ------
    UsageError
        There is no such file, or it can't be read.

    Examples
    --------
    >>> gw["GPU box"].segment(image=sz.File("scan.tif"))
    """

    def __init__(self, path: Any, media_type: str = "") -> None:
        self.path = local_path(os.fspath(path), Path.exists)
        self.name = self.path.name
        with self.open() as file:
            head = file.read(64)
        self.media_type = media_type or mimetypes.guess_type(self.name)[0] or sniff(head) or _OCTETS

    def open(self) -> BinaryIO:
        """Open it for reading."""
        try:
            return self.path.open("rb")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise UsageError(
                f"The file '{one_line(str(self.path), 300)}' can't be read: {why}.", hint="Name a file of this machine."
            ) from None

    def __len__(self) -> int:
        return self.path.stat().st_size

    def as_json(self) -> dict[str, str]:
        """Return its content as it travels inside a frame."""
        with self.open() as file:
            content = file.read()
        return {"media_type": self.media_type, "base64": _base64(content), "name": self.name}

    def __repr__(self) -> str:
        return f"<File {one_line(str(self.path), 200)!r}>"


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to be sent."""

    name: str
    media_type: str
    size: int
    open: Callable[[], Iterator[bytes]]


class Uploads:
    """Sends files to one gateway.

    Parameters
    ----------
    rest : Rest
        Its routes.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._known: dict[str, bool] = {}  # by address

    def needed(self, params: Any) -> bool:
        """Tell whether :meth:`ready` has something to do; it takes time, and nearly no call needs it."""
        return isinstance(params, Mapping) and holds_large(params)

    def ready(self, params: Any, *, shown: bool = True, stopped: Callable[[], bool] = bool) -> Any:
        """Return parameters in which what is large is a reference; unchanged for a gateway that keeps nothing.

        Parameters
        ----------
        shown : bool
            Whether to show how far a large one is.
        stopped : callable
            Tells whether to give up.

        Raises
        ------
        KernelError
            ``too_large``, ``artifact_store_full``, ``artifact_store_failed``, or the gateway can't be reached. Nothing
            was called then.
        """
        if not self._is_kept_there():
            return params
        return self._replaced(params, {}, 0, lambda source: self._send(source, shown, stopped))

    def attachments(
        self, files: Sequence[Any], *, shown: bool = True, stopped: Callable[[], bool] = bool
    ) -> list[Record]:
        """Return files as a prompt carries them: paths, :class:`File`, :class:`~.results.Binary` or bytes.

        Raises
        ------
        UsageError, KernelError
            One can't be read; and as :meth:`ready`.
        """
        if isinstance(files, str | os.PathLike | File | Binary | bytes | bytearray | memoryview):
            files = [files]
        found = [_opened(each) for each in files]
        sent: list[Record] = []
        for each in found:
            if len(each) > _LIMITS.hoist_bytes and self._is_kept_there():
                sent.append(self._send(_source(each), shown, stopped))
            else:
                sent.append(each.as_json())
        return sent

    def _is_kept_there(self) -> bool:
        """Tell whether the gateway knows the route: one that doesn't gets everything inside the frame, as ever."""
        url = self._rest.url
        if url not in self._known:
            try:
                self._rest.get("/artifacts/-")
                knows = False
            except KernelError as error:
                if error.status not in (404, 405):
                    raise
                knows = error.code == "artifact_unknown"
            self._known[url] = knows
        return self._known[url]

    def _replaced(self, value: Any, done: dict[int, Record], depth: int, send: Callable[[_Source], Record]) -> Any:
        if depth > _DEPTH:
            raise InvalidParams("The parameters are nested too deeply.")
        if _is_large(value):
            if id(value) not in done:
                done[id(value)] = send(_source(value))
            return done[id(value)]
        if isinstance(value, Mapping):
            return {key: self._replaced(each, done, depth + 1, send) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(each, done, depth + 1, send) for each in value]
        return value

    def _send(self, source: _Source, shown: bool, stopped: Callable[[], bool]) -> Record:
        digest = hashlib.sha256()
        with Transfer("Sending", "Sent", source.name, source.size, shown=shown) as told:

            def pieces() -> Iterator[bytes]:
                nonlocal digest
                digest, through = hashlib.sha256(), 0  # anew, where another address is tried
                for piece in source.open():
                    if stopped():
                        raise CallCancelled("The call was cancelled while its files were sent.")
                    through += len(piece)
                    if through > source.size:
                        break
                    digest.update(piece)
                    yield piece
                    told(through)
                if through != source.size:
                    raise ContentError(
                        f"'{one_line(source.name, 80)}' changed while it was sent.",
                        hint="Send it again when it is complete.",
                    )

            answer = self._rest.upload(
                "/artifacts", pieces, source.size, source.media_type, {"name": source.name} if source.name else {}
            )
        reference: Record = answer["artifact"]
        if (reference.get("size"), reference.get("sha256")) != (source.size, digest.hexdigest()):
            raise ContentError("What the gateway keeps is not what was sent.", hint="Send it again.")
        return reference


def holds_large(value: Any, depth: int = 0) -> bool:
    """Tell whether there is something in a value that is better not inside a frame."""
    if isinstance(value, Mapping):
        return depth < _DEPTH and any(holds_large(each, depth + 1) for each in value.values())
    if isinstance(value, list | tuple):
        return depth < _DEPTH and any(holds_large(each, depth + 1) for each in value)
    return _is_large(value)


def _is_large(value: Any) -> bool:
    if isinstance(value, _BYTES):
        return memoryview(value).nbytes > _LIMITS.hoist_bytes
    if type(value) is Binary:  # not a file that stays on a peer
        return len(value.data) > _LIMITS.hoist_bytes
    return isinstance(value, File) and len(value) > _LIMITS.hoist_bytes


def _opened(value: Any) -> File | Binary:
    if isinstance(value, File | Binary):
        return value
    if isinstance(value, _BYTES):
        data = bytes(value)
        return Binary(data, sniff(data) or _OCTETS)
    if isinstance(value, str | os.PathLike):
        return File(value)
    raise UsageError(f"A {type(value).__name__} can't be attached.", hint="Give paths, bytes or results' files.")


def _source(value: Any) -> _Source:
    if isinstance(value, File):
        return _Source(value.name, value.media_type, len(value), lambda: _read(value))
    data = memoryview(value.data if isinstance(value, Binary) else value).cast("B")
    media_type = value.media_type if isinstance(value, Binary) else sniff(bytes(data[:64])) or _OCTETS
    name = value.name if isinstance(value, Binary) else ""
    return _Source(name, media_type, data.nbytes, lambda: _slices(data))


def _read(file: File) -> Iterator[bytes]:
    with file.open() as opened:
        while piece := opened.read(_PIECE_BYTES):
            yield piece


def _slices(data: memoryview) -> Iterator[bytes]:
    for at in range(0, data.nbytes, _PIECE_BYTES):
        yield bytes(data[at : at + _PIECE_BYTES])


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
