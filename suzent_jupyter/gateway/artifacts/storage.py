"""Where kept files lie: any file system that fsspec knows, a local directory by default.

fsspec blocks, and so does what it speaks to: all of it happens in a few threads of its own. Whatever goes wrong there
is one of two errors, ``artifact_store_full`` or ``artifact_store_failed``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ...protocol.errors import SuzentError
from ...protocol.limits import KIB, MIB
from ...protocol.text import clean_text

log = logging.getLogger("suzent_jupyter")
T = TypeVar("T")

#: Bytes read or written at once.
PIECE_BYTES = 256 * KIB
_PART_BYTES = 8 * MIB  # of a file that is sent to an object store; its smallest is 5 MiB, and two lie in memory
_THREADS = 8
_PATIENCE = 30.0  # seconds for one step of a file system that may be a network away
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WITHOUT_FOLDERS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "adl")
_S3_PATIENCE = {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 1}}
_PLACE = re.compile(r"[0-9a-f]{8}-[0-9]{1,10}-[0-9a-f]{32}")


class Draft:
    """A file that is being written; it is there for others only once it is finished. Every method blocks."""

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()  # whoever gives up does not wait for the step under way
        self._digest = hashlib.sha256()
        self._file: Any = files.open(path, "wb", block_size=_PART_BYTES)
        self.size = 0

    def write(self, data: bytes) -> None:
        """Add to it."""
        with self._lock:
            self._file.write(data)
            self._digest.update(data)
            self.size += len(data)

    def finish(self) -> str:
        """Complete it, and return its SHA-256 in hexadecimal."""
        with self._lock:
            self._file.close()
            return self._digest.hexdigest()

    def drop(self) -> None:
        """Leave nothing of it."""
        from fsspec.spec import AbstractBufferedFile

        with self._lock:
            if isinstance(self._file, AbstractBufferedFile):
                with contextlib.suppress(Exception):  # there may be nothing to discard any more
                    self._file.discard()
                self._file.closed = True  # or it would be completed when it is closed
            else:
                with contextlib.suppress(OSError):
                    self._file.close()
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._path)


class Storage:
    """The files of one gateway.

    Parameters
    ----------
    url : str
        Where they lie, as fsspec names it; ``""`` for ``directory``.
    directory : Path
        Made with mode 0700 if missing.
    """

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        self._owner = ""
        self._opened: tuple[Any, str] | None = None
        self._opening = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "suzent-files")
        self._signs = bool(url)
        self._told = ""

    def belongs_to(self, owner: str) -> None:
        """Keep apart the files of gateways that share a place: each has a folder of its own."""
        self._owner = owner

    @property
    def is_untouched(self) -> bool:
        """Whether nothing can be there yet. Blocks."""
        return not self._url and not self._directory.exists()

    @property
    def signs(self) -> bool:
        """Whether the store may give out addresses of its own."""
        return self._signs

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something that blocks in a thread.

        Raises
        ------
        SuzentError
            ``artifact_store_full``, or ``artifact_store_failed`` for everything else that is wrong, and for silence.
        """
        try:
            doing = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        except RuntimeError:
            raise SuzentError("stopping", "The gateway is stopping.") from None
        try:
            async with asyncio.timeout(_PATIENCE) as patience:
                done = await doing
            self._told = ""
            return done
        except SuzentError:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and patience.expired():
                raise self._failed(f"it did not answer within {_PATIENCE:g} s") from None
            if isinstance(error, OSError) and error.errno in _FULL:
                raise SuzentError("artifact_store_full", "There is no space left where files are kept.") from None
            raise self._failed(_why(error), error) from None

    async def iterate(self, pieces: Iterator[bytes]) -> Any:
        """Give out what is read or decoded in a thread, piece by piece."""
        while piece := await self.run(next, pieces, b""):
            yield piece

    async def draft(self, place: str) -> Draft:
        """Begin a file; nothing is left of it where its caller does not wait any more."""
        beginning = asyncio.ensure_future(self.run(self._draft, place))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(self._abandoned)
            raise

    def _abandoned(self, begun: asyncio.Future[Draft]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            with contextlib.suppress(RuntimeError):
                self._threads.submit(begun.result().drop)

    # -- everything below blocks --

    def _draft(self, place: str) -> Draft:
        files, folder = self._open()
        return Draft(files, f"{folder}/{place}")

    def open(self, place: str) -> BinaryIO:
        """Open a file for reading."""
        files, folder = self._open()
        opened: BinaryIO = files.open(f"{folder}/{place}", "rb", block_size=2 * PIECE_BYTES, cache_type="readahead")
        return opened

    def size(self, place: str) -> int:
        """Return how large a file is; -1 where there is none."""
        files, folder = self._open()
        files.invalidate_cache(folder)
        try:
            return int(files.size(f"{folder}/{place}"))
        except FileNotFoundError:
            return -1

    def remove(self, *places: str) -> None:
        """Remove files, whether they are there or not."""
        files, folder = self._open()
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                files.rm_file(f"{folder}/{place}")

    def address(self, place: str, seconds: float) -> str:
        """Return where a file can be fetched without us for so long (pre-signed); ``""`` where there is no such way."""
        if not self._signs:
            return ""
        files, folder = self._open()
        try:
            return str(files.sign(f"{folder}/{place}", expiration=int(seconds)))
        except NotImplementedError:
            self._signs = False
        except Exception as error:
            self._signs = False
            log.warning("Files are fetched through this gateway, since their store signs no addresses: %s", _why(error))
        return ""

    def places(self) -> dict[str, float | None]:
        """Return the files of this gateway that are there, and when each was made, in Unix seconds."""
        files, folder = self._open()
        files.invalidate_cache()
        try:
            found = files.ls(folder, detail=True)
        except FileNotFoundError:
            return {}
        named = ((str(each["name"]).rstrip("/").rpartition("/")[2], each) for each in found)
        return {name: _made_at(each) for name, each in named if _PLACE.fullmatch(name)}

    def unfinished(self) -> dict[str, tuple[float | None, str]]:
        """Return what an object store holds of files that were never completed: when each began, and its upload."""
        files, folder = self._open()
        if not hasattr(files, "call_s3"):
            return {}
        bucket, _, prefix = folder.partition("/")
        found = files.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/").get("Uploads", [])
        named = ((str(each["Key"]).rpartition("/")[2], each) for each in found)
        return {
            name: (_made_at({"created": each.get("Initiated")}), each["UploadId"])
            for name, each in named
            if _PLACE.fullmatch(name)
        }

    def abort(self, uploads: dict[str, str]) -> None:
        """Give up such files."""
        files, folder = self._open()
        bucket, _, prefix = folder.partition("/")
        for place, upload in uploads.items():
            files.call_s3("abort_multipart_upload", Bucket=bucket, Key=f"{prefix}/{place}", UploadId=upload)

    def _open(self) -> tuple[Any, str]:
        with self._opening:
            if self._opened is None:
                self._opened = self._connect()
            return self._opened

    def _connect(self) -> tuple[Any, str]:
        if not self._url:
            from fsspec.implementations.local import LocalFileSystem

            self._directory.mkdir(mode=0o700, exist_ok=True)
            if os.name == "posix":
                self._directory.chmod(0o700)
            return LocalFileSystem(auto_mkdir=True, skip_instance_cache=True), self._directory.as_posix()
        import fsspec

        options: dict[str, Any] = {"skip_instance_cache": True}
        protocol = fsspec.utils.get_protocol(self._url)
        if protocol in ("s3", "s3a") and "config_kwargs" not in fsspec.config.conf.get("s3", {}):
            options["config_kwargs"] = _S3_PATIENCE
        files, root = fsspec.core.url_to_fs(self._url, **options)
        folder = f"{str(root).rstrip('/')}/{self._owner}"
        if protocol not in _WITHOUT_FOLDERS:
            files.makedirs(folder, exist_ok=True)
        return files, folder

    def _failed(self, why: str, error: Exception | None = None) -> SuzentError:
        if why != self._told:  # a store that is down must not fill the log
            self._told = why
            log.error("Files can't be kept: %s", why, exc_info=error if log.isEnabledFor(logging.DEBUG) else None)
        return SuzentError("artifact_store_failed", f"The gateway's store for files can't be used: {why}.")


def _why(error: BaseException) -> str:
    """Return what went wrong as a few words: what others write may hold addresses and more."""
    if isinstance(error, OSError) and error.strerror:
        return clean_text(error.strerror, 100).rstrip(".")
    return clean_text(type(error).__name__, 60)


def _made_at(facts: dict[str, Any]) -> float | None:
    for name in ("mtime", "LastModified", "created", "modified"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None
