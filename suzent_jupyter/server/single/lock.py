"""Which of several servers with one ``data_dir`` is the gateway: the one that holds a lock of the operating system.

The system takes the lock back whatever happens to its holder, SIGKILL included. Beside it stands who belongs together:
the gateway and its guests share a second lock, so that a newcomer leaves a gateway that has just gone to those who know
its token.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import weakref
from pathlib import Path
from typing import Any

from ..._file_locks import SHARES, share_lock, try_lock, unlock


class NoLockError(Exception):
    """Nothing can be locked there; the message says why."""


class GatewayLock:
    """One server's hold on a ``data_dir``. Its methods block on the disk; none waits for another process.

    Parameters
    ----------
    directory : Path
        Made with mode 0700 if missing.

    Raises
    ------
    NoLockError
        Here and in :meth:`take`, where the directory or its file system does not allow locks.
    """

    def __init__(self, directory: Path) -> None:
        self._member = False
        self._held = False
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _open(directory / "gateway.lock")
            try:
                self._members = _open(directory / "gateway.members")
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as error:
            raise NoLockError(error.strerror or str(error)) from error
        self._open = True
        _open_locks.add(self)

    @property
    def held(self) -> bool:
        """Whether we are the gateway."""
        return self._held

    def take(self) -> bool:
        """Try to become the gateway; a newcomer does not, while guests of the last one live."""
        if self._held:
            return True
        if not _try_lock(self._lock):
            return False
        if not self._member and not self._nobody_else():
            unlock(self._lock)
            return False
        self._held = True
        self.write_note({})
        self.join()
        return True

    def take_over_from_the_dead(self) -> bool:
        """Try to become the gateway although guests of the last one seem to live: they had their time."""
        self._member = True
        return self.take()

    def join(self) -> None:
        """Be one of those who belong together."""
        self._member = True
        share_lock(self._members)

    def write_note(self, note: dict[str, Any]) -> None:
        """Leave a note for those who find the lock taken. The holder's; no secrets: the file may be copied."""
        text = json.dumps(note).encode()
        os.lseek(self._lock, 0, os.SEEK_SET)
        os.write(self._lock, text)
        os.ftruncate(self._lock, len(text))

    def read_note(self) -> dict[str, Any]:
        """Return the holder's note; ``{}`` while there is none."""
        os.lseek(self._lock, 0, os.SEEK_SET)
        try:
            note = json.loads(os.read(self._lock, 65536))
        except ValueError:  # just being written
            return {}
        return note if isinstance(note, dict) else {}

    def close(self) -> None:
        """Let go of everything."""
        _open_locks.discard(self)
        if self._open:
            self._open = self._held = False
            os.close(self._lock)
            os.close(self._members)

    def _nobody_else(self) -> bool:
        if not _try_lock(self._members, SHARES):
            return False
        unlock(self._members, SHARES)
        return True


def this_machine() -> str:
    """Name the loopback this process reaches: of a locked file on a network home, the holder may be elsewhere."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/net').readlink()}"
    except OSError:
        return platform.node()


def _open(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    if os.name == "posix" and os.fstat(handle).st_uid != os.getuid():
        os.close(handle)
        raise PermissionError(errno.EPERM, f"{path} belongs to somebody else")
    return handle


def _try_lock(handle: int, count: int = 1) -> bool:
    try:
        return try_lock(handle, count)
    except OSError as error:
        raise NoLockError(error.strerror or str(error)) from error


_open_locks: weakref.WeakSet[GatewayLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for lock in list(_open_locks):
        lock.close()


if hasattr(os, "register_at_fork"):
    # A lock lives as long as any process has its file open, and a forked child may outlive us.
    os.register_at_fork(after_in_child=_let_go_in_child)
