"""Where tokens that others gave us are kept: the OS keyring where there is one, else an encrypted file.

The file protects against copies of the directory without its key (a backup, a synchronised folder) and against a
glance; whoever can read both files as this user can read the tokens.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .._file_locks import try_lock
from .._files import replace_file

log = logging.getLogger(__name__)

_SERVICE = "suzent-jupyter"
_LOCK_PATIENCE = 10.0  # seconds
_KEYRING_PATIENCE = 5.0  # seconds; a locked keyring may wait for a person who is not there


class VaultError(Exception):
    """The vault can't be read or written; what it holds is left as it is."""


def default_directory() -> Path:
    """Return ``SUZENT_DATA_DIR``, else the folder ``suzent`` of Jupyter's data directory."""
    if chosen := os.environ.get("SUZENT_DATA_DIR"):
        return Path(chosen)
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "suzent"


class TokenVault:
    """Keeps text under keys, safe under several processes.

    Every method blocks on disk or keyring: call them in a thread.

    Parameters
    ----------
    directory : path, optional
        Where the files stand (created with mode 0700; files 0600); :func:`default_directory` otherwise.
    keyring : object, optional
        Anything with ``get_password``, ``set_password`` and ``delete_password``. By default the operating system's,
        unless it has none or the environment says ``SUZENT_KEYRING=off``; False for the file alone.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, keyring: Any = None) -> None:
        self.directory = Path(directory) if directory is not None else default_directory()
        self._file = self.directory / "vault.bin"
        self._key_file = self.directory / "vault.key"
        self._given_keyring = keyring
        self._keyring: Any = None
        self._keyring_known = False

    def get(self, key: str) -> str | None:
        """Return the text under ``key``, or None.

        Raises
        ------
        VaultError
            When the file is there but can't be read.
        """
        with self._locked():
            return self._get(key)

    def set(self, key: str, value: str) -> None:
        """Keep ``value`` under ``key``; it is on disk when this returns.

        A file whose content can't be read is set aside under another name first, never overwritten.

        Raises
        ------
        VaultError
            When it can't be written.
        """
        with self._locked():
            self._set(key, value)

    def setdefault(self, key: str, make: Callable[[], str]) -> str:
        """Return the text under ``key``, made and kept first where there is none; raises as ``get`` and ``set``."""
        with self._locked():
            value = self._get(key)
            if value is None:
                value = make()
                self._set(key, value)
            return value

    def delete(self, key: str) -> None:
        """Forget ``key``; raises as ``get`` and ``set``."""
        with self._locked():
            self._ask_keyring("delete_password", key)
            entries = self._read()
            if entries.pop(key, None) is not None:
                self._write(entries)

    def _get(self, key: str) -> str | None:
        # The file first: it holds a key only where the keyring would not take it, so there it is the newer one.
        entries = self._read()
        if key in entries:
            return entries[key]
        found = self._ask_keyring("get_password", key)
        return found if isinstance(found, str) else None

    def _set(self, key: str, value: str) -> None:
        try:
            entries = self._read()
        except VaultError as error:
            if error.__cause__ is not None:  # the disk, not the content: trying again may help
                raise
            self._set_aside()
            entries = {}
        if self._ask_keyring("set_password", key, value) is not _FAILED:
            if entries.pop(key, None) is not None:
                self._write(entries)
            return
        entries[key] = value
        self._write(entries)

    # -- the keyring

    def _ask_keyring(self, action: str, key: str, *rest: str) -> Any:
        if not self._keyring_known:
            self._keyring, self._keyring_known = self._find_keyring(), True
        if self._keyring is None:
            return _FAILED
        call = getattr(self._keyring, action)
        answer = _within(_KEYRING_PATIENCE, lambda: call(f"{_SERVICE}:{self.directory}", key, *rest))
        if answer is _TOO_LATE:
            log.warning("The keyring did not answer within %g s; using %s.", _KEYRING_PATIENCE, self._file)
            self._keyring = None
            return _FAILED
        return answer

    def _find_keyring(self) -> Any:
        if self._given_keyring is not None:
            return self._given_keyring or None
        if os.environ.get("SUZENT_KEYRING", "").casefold() in ("off", "0", "false", "no"):
            return None
        found = _within(_KEYRING_PATIENCE, _system_keyring)
        return None if found in (_FAILED, _TOO_LATE) else found

    # -- the file

    def _read(self) -> dict[str, str]:
        from cryptography.fernet import Fernet, InvalidToken

        try:
            sealed = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise VaultError(f"{self._file} can't be read: {error.strerror or error}.") from error
        try:
            key = self._key_file.read_bytes()
        except FileNotFoundError:
            raise VaultError(f"{self._file} can't be read: its key {self._key_file} is gone.") from None
        except OSError as error:
            raise VaultError(f"{self._key_file} can't be read: {error.strerror or error}.") from error
        for path in (self._file, self._key_file):
            _close_to_others(path)
        try:
            entries = json.loads(Fernet(key).decrypt(sealed))
        except (InvalidToken, ValueError):
            raise VaultError(
                f"{self._file} can't be read: it is damaged, or {self._key_file} is not its key."
            ) from None
        if not isinstance(entries, dict):
            raise VaultError(f"{self._file} can't be read: it holds something else.")
        return {str(key): value for key, value in entries.items() if isinstance(value, str)}

    def _write(self, entries: dict[str, str]) -> None:
        from cryptography.fernet import Fernet

        try:
            if not self._key_file.exists():
                replace_file(self._key_file, Fernet.generate_key())
            key = self._key_file.read_bytes()
            replace_file(self._file, Fernet(key).encrypt(json.dumps(entries).encode()))
        except (OSError, ValueError) as error:
            raise VaultError(f"{self._file} can't be written: {error}.") from error

    def _set_aside(self) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        try:
            for path in (self._file, self._key_file):
                if path.exists():
                    aside = path.with_name(f"{path.name}.unreadable-{stamp}-{os.getpid()}")
                    path.rename(aside)
                    log.warning("%s could not be read; it now is %s, and a new one takes its place.", path, aside.name)
        except OSError as error:
            raise VaultError(f"{self._file} can't be set aside: {error}.") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock file: between processes, and between threads of this one."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.directory / "vault.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise VaultError(f"{self.directory} can't be used: {error.strerror or error}.") from error
        try:
            deadline = time.monotonic() + _LOCK_PATIENCE
            while not _try_lock(handle):
                if time.monotonic() > deadline:
                    raise VaultError(f"{self.directory} is locked by another process.")
                time.sleep(0.01)
            yield
        finally:
            os.close(handle)  # which also releases the lock


_FAILED = object()
_TOO_LATE = object()


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns, or a mark that it failed or took too long."""
    answer: list[Any] = [_TOO_LATE]

    def work() -> None:
        try:
            answer[0] = call()
        except Exception as error:
            log.debug("keyring: %s", error)
            answer[0] = _FAILED

    thread = threading.Thread(target=work, daemon=True, name="suzent-keyring")
    thread.start()
    thread.join(seconds)
    return answer[0]


def _system_keyring() -> Any:
    import keyring
    from keyring.backends import fail, null

    found = keyring.get_keyring()
    # Backends below 1 store in clear text or need a person at the terminal.
    if isinstance(found, fail.Keyring | null.Keyring) or found.priority < 1:
        raise LookupError("no usable keyring")
    return found


def _close_to_others(path: Path) -> None:
    """Take back what a copy or a restored backup may have given to other users of this machine."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            path.chmod(0o600)
            log.warning("%s could be read by other users; it can't be any more.", path)
    except OSError as error:  # such as a file of another user's
        log.warning("%s may be read by other users, which can't be changed: %s", path, error.strerror or error)


def _try_lock(handle: int) -> bool:
    try:
        return try_lock(handle)
    except OSError:
        return True  # a file system without locks: atomic replacement still keeps the file whole
