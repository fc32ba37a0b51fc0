"""Files for their owner alone: written whole or not at all, and read only if nobody else had a hand in them.

Everything here blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file, mode 0600, so that at any moment either the old or the new one is there.

    Parameters
    ----------
    path : Path
        In a folder that is there.
    data : bytes
        All it will hold.
    durable : bool
        Return only when it would outlast a power cut; what dies with its process need not.

    Raises
    ------
    OSError
        When it can't be written; the old one is as it was.
    """
    draft = _draft(path, data, durable)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Do the same unless there is a file already, whoever wrote it; raises alike."""
    draft = _draft(path, data, True)
    try:
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def read_private(path: Path, most: int = 65536) -> bytes:
    """Return the first ``most`` bytes of a file that this user alone can have written and can read.

    Raises
    ------
    OSError
        When it can't be read; PermissionError when it belongs to somebody else, or others may read it: not to be
        trusted.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if os.name == "posix" and (
            not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077
        ):
            raise PermissionError(errno.EPERM, "not this user's alone", str(path))
        return file.read(most)


def _draft(path: Path, data: bytes, durable: bool) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some network file systems can't
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
