"""Locks of the operating system on open files, gone with whoever holds them."""

from __future__ import annotations

import errno
import os
import sys

SHARES = 1 << 16  #: How many can hold a share at once on Windows, where each locks a byte of its own.
_FAR = 1 << 30  # Windows locks bytes, and a locked byte can't be read: lock one that isn't there
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def try_lock(handle: int, count: int = 1) -> bool:
    """Lock an open file for oneself alone; return False if somebody else has it.

    Parameters
    ----------
    handle : int
        A file descriptor, open for writing.
    count : int
        Bytes to lock on Windows: :data:`SHARES` where others may hold shares.

    Raises
    ------
    OSError
        When the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, count)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def unlock(handle: int, count: int = 1) -> None:
    """Let go of what :func:`try_lock` took."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, count)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)


def share_lock(handle: int) -> None:
    """Take a share; waits for whoever holds the lock alone, which should be for an instant."""
    if sys.platform == "win32":
        import msvcrt
        import random

        os.lseek(handle, _FAR + random.randrange(SHARES), os.SEEK_SET)  # noqa: S311 - shares as bytes of their own
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH)
