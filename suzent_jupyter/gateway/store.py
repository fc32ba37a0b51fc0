"""The database: one writer thread, so that no statement ever runs on the event loop.

Jobs that arrive while one transaction is written share the next (group commit): each is answered only after its commit
is on disk. A file that can't be read is never touched; the gateway then works without keeping anything and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import SuzentError

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger("suzent_jupyter")
T = TypeVar("T")

_NETWORK_FILE_SYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "afs",
    "fuse.sshfs",
    "9p",
    "lustre",
    "glusterfs",
    "ceph",
    "gpfs",
    "beegfs",
)


@dataclass(slots=True)
class _Job:
    work: Callable[[sa.Connection], Any]
    future: Future[Any]


class Store:
    """SQLite at ``directory/suzent.db``.

    Parameters
    ----------
    directory : Path
        Made with mode 0700 if missing.
    poll : float
        Seconds between looks for changes made by another process.
    on_foreign_change : callable, optional
        Called on the writer thread, with its connection, after another process wrote to the file.
    """

    def __init__(
        self, directory: Path, poll: float = 1.0, on_foreign_change: Callable[[sa.Connection], None] | None = None
    ) -> None:
        self.path = directory / "suzent.db"
        #: Why nothing can be kept; ``""`` while all is well.
        self.problem = ""
        self._poll = poll
        self._on_foreign_change = on_foreign_change
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._data_version = 0
        self._empties_log = False
        self._closed = False

    async def open(self, load: Callable[[sa.Connection], T]) -> T | None:
        """Open the file and return what ``load`` reads from it, or None (then :attr:`problem` says why)."""
        opened: Future[T | None] = Future()
        self._thread = threading.Thread(target=self._run, args=(load, opened), name="suzent-store", daemon=True)
        self._thread.start()
        return await asyncio.wrap_future(opened)

    async def close(self) -> None:
        """Finish every job and close the file."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 5)

    def run(self, work: Callable[[sa.Connection], T]) -> asyncio.Future[T]:
        """Run ``work`` in a transaction on the writer thread; the future is done after the commit.

        Raises
        ------
        SuzentError
            ``store_unreadable`` when the file could not be opened, ``stopping`` after :meth:`close`; the future may
            end with ``store_failed``.
        """
        if self._closed:
            raise _stopping()
        if self.problem:
            raise SuzentError("store_unreadable", f"Nothing can be kept: {self.problem}")
        job = _Job(work, Future())
        self._jobs.put(job)
        return asyncio.wrap_future(job.future)

    def run_unawaited(self, work: Callable[[sa.Connection], None]) -> asyncio.Future[None] | None:
        """Do the same where nobody waits for it: what fails is in the log alone. None where nothing can be kept."""
        try:
            written = self.run(work)
        except SuzentError:
            return None
        written.add_done_callback(lambda done: done.cancelled() or done.exception())
        return written

    # -- everything below runs on the writer thread --

    def empty_log_soon(self) -> None:
        """Leave nothing in the write-ahead log of what this job deletes; done before the job is answered."""
        self._empties_log = True

    def _run(self, load: Callable[[sa.Connection], Any], opened: Future[Any]) -> None:
        engine = None
        try:
            import sqlalchemy as sa

            engine = self._open_engine(sa)
            connection = engine.connect()
            with connection.begin():
                loaded = load(connection)
            self._data_version = self._read_data_version(connection)
        except Exception as error:
            self.problem = f"{self.path}: {_first_line(error)}"
            log.error("The gateway's database can't be used and is left as it is. %s", self.problem)
            opened.set_result(None)
            if engine is not None:
                engine.dispose()
            self._refuse(SuzentError("store_unreadable", f"Nothing can be kept: {self.problem}"))
            return
        opened.set_result(loaded)
        try:
            self._work(connection)
        finally:
            connection.close()
            engine.dispose()

    def _open_engine(self, sa: Any) -> sa.Engine:
        directory = self.path.parent
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix" and directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        if fresh:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        else:
            _check_readable(self.path)
        if os.name == "posix":
            self.path.chmod(0o600)
        engine: sa.Engine = sa.create_engine(f"sqlite:///{self.path}", poolclass=sa.pool.StaticPool)
        journal = "DELETE" if on_network_file_system(self.path) else "WAL"

        def set_up(connection: sqlite3.Connection, _record: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
            for pragma in ("busy_timeout=5000", f"journal_mode={journal}", "synchronous=FULL", "secure_delete=ON"):
                connection.execute(f"PRAGMA {pragma}")

        def begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        sa.event.listen(engine, "connect", set_up)
        sa.event.listen(engine, "begin", begin)

        from . import schema

        with engine.begin() as connection:
            schema.bring_up_to_date(connection)
        return engine  # type: ignore[no-any-return]

    def _work(self, connection: sa.Connection) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._poll)
            except queue.Empty:
                self._look_for_foreign_changes(connection)
                continue
            if job is None:
                self._drain()
                return
            jobs, ended = [job], False
            while len(jobs) < 256 and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    ended = True
                    break
                jobs.append(following)
            self._commit(connection, jobs)
            if ended:
                self._drain()
                return
            self._look_for_foreign_changes(connection)

    def _commit(self, connection: sa.Connection, jobs: list[_Job]) -> None:
        # From here on a job can't be given up any more: it is done or it fails.
        jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        answers: list[tuple[_Job, Any]] = []
        try:
            with connection.begin():
                for job in jobs:
                    try:
                        with connection.begin_nested():
                            answers.append((job, job.work(connection)))
                    except SuzentError as error:
                        job.future.set_exception(error)
                    except Exception as error:
                        log.exception("Writing to %s failed", self.path)
                        job.future.set_exception(_failed(error))
        except Exception as error:
            log.exception("Writing to %s failed", self.path)
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(_failed(error))
            return
        if self._empties_log:
            self._empty_log(connection)
        for job, answer in answers:
            job.future.set_result(answer)

    def _empty_log(self, connection: sa.Connection) -> None:
        self._empties_log = False
        try:
            # Not within a transaction, which SQLAlchemy would begin.
            connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except Exception:
            log.exception("Emptying the write-ahead log of %s failed", self.path)  # the next checkpoint will

    def _look_for_foreign_changes(self, connection: sa.Connection) -> None:
        try:
            version = self._read_data_version(connection)
            if version != self._data_version:
                self._data_version = version
                if self._on_foreign_change is not None:
                    with connection.begin():
                        self._on_foreign_change(connection)
        except Exception:
            log.exception("Looking for changes in %s failed", self.path)

    @staticmethod
    def _read_data_version(connection: sa.Connection) -> int:
        version: int = connection.connection.cursor().execute("PRAGMA data_version").fetchone()[0]
        return version

    def _refuse(self, error: SuzentError) -> None:
        """Answer jobs that slipped in while the file was being opened, until the store is closed."""
        while (job := self._jobs.get()) is not None:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _drain(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(_stopping())


def peek_setting(directory: Path, name: str) -> Any:
    """Return a remembered setting before the store is open, which takes longer; None if there is none."""
    path = directory / "suzent.db"
    if not path.is_file():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
            return json.loads(row[0]) if row is not None else None
    except (sqlite3.Error, ValueError, OSError):
        return None  # why, the store says when it is opened


def _check_readable(path: Path) -> None:
    """Raise unless the file is a sound database of ours; without writing a byte to it."""
    from . import schema

    location = f"file:{path.as_posix().replace('?', '%3f').replace('#', '%23')}"
    try:
        _check(location + "?mode=ro", schema)
    except sqlite3.OperationalError:
        # After a crash there may be a journal that only a writer can play back; it belongs to the file.
        _check(location + "?mode=rw", schema)


def _check(location: str, schema: Any) -> None:
    connection = sqlite3.connect(location, uri=True)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        if tables and not (version and tables >= schema.tables_of(version)):
            raise RuntimeError("it is the database of another program")
        if version > schema.SCHEMA_VERSION:
            raise RuntimeError(f"it was written by a newer version (schema {version})")
        sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if sound != "ok":
            raise RuntimeError(f"it is damaged ({sound.splitlines()[0]})")
    finally:
        connection.close()


def on_network_file_system(path: Path) -> bool:
    """Tell whether ``path`` lies where WAL's shared memory does not work, as Hub homes often do."""
    import psutil

    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return False
    real = path.resolve()
    best = max(
        (mount for mount in mounts if real.is_relative_to(mount.mountpoint)),
        key=lambda mount: len(mount.mountpoint),
        default=None,
    )
    return best is not None and best.fstype.casefold().startswith(_NETWORK_FILE_SYSTEMS)


def _stopping() -> SuzentError:
    return SuzentError("stopping", "The gateway is stopping; nothing was changed.")


def _failed(error: BaseException) -> SuzentError:
    return SuzentError("store_failed", f"Nothing was changed: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).splitlines() or [type(error).__name__])[0]
