"""Files go when their time is over, when they take too much room, and when a gateway that was killed left them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ..answering.staging import this_machine
from . import rows

if TYPE_CHECKING:
    from ..store import Store
    from .storage import Storage

log = logging.getLogger("suzent_jupyter")

_OFTEN, _SELDOM = 0.1, 60.0
_STRAY_SECONDS = 86400.0  # another process may be writing it; none does for a day


def new_place() -> str:
    """Return a name for a file where it lies: whose it is, if that process dies before it is taken up."""
    return f"{this_machine()}-{os.getpid()}-{secrets.token_hex(16)}"


class Sweeping:
    """Looks after the files of one gateway.

    Parameters
    ----------
    store : Store
        What knows of them.
    storage : Storage
        Where they lie.
    limits : Limits
        ``artifact_ttl`` and ``artifact_store_bytes``.
    """

    def __init__(self, store: Store, storage: Storage, limits: Limits) -> None:
        self._store = store
        self._storage = storage
        self._limits = limits
        self._begun = time.time()
        self._something = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._removing: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Sweep what was left, and from then on while there is anything."""
        self._work = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Sweep no more."""
        tasks = [*self._removing, *([self._work] if self._work is not None else [])]
        for task in tasks:
            if task is self._work:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2)

    def expect(self) -> None:
        """Take note that there is something to look after."""
        self._something.set()

    def remove(self, places: Iterable[str]) -> None:
        """Remove files that nobody needs, in the background; what can't be removed now is a leftover later."""

        async def work() -> None:
            with contextlib.suppress(SuzentError):
                await self._storage.run(self._storage.remove, *places)

        task = asyncio.create_task(work())
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def sweep(self) -> None:
        """Remove what has expired, and while all take too much room, what expires first."""
        gone = await self._store.run(partial(rows.take_expired, most=self._limits.artifact_store_bytes))
        if gone:
            log.debug("%d kept files are over", len(gone))
            with contextlib.suppress(SuzentError):
                await self._storage.run(self._storage.remove, *gone)

    async def remove_leftovers(self) -> None:
        """Remove what is there and in no row: uploads that broke off with their process."""
        if await self._storage.run(lambda: self._storage.is_untouched):
            return
        uploads = await self._storage.run(self._storage.unfinished)
        over = await self._storage.run(self._dead, {place: made for place, (made, _) in uploads.items()})
        if over:
            await self._storage.run(self._storage.abort, {place: uploads[place][1] for place in over})
        found = await self._storage.run(self._storage.places)
        if not found:
            return
        known = await self._store.run(rows.places)
        strays = {place: made for place, made in found.items() if place not in known}
        dead = await self._storage.run(self._dead, strays)
        if dead:
            await self._storage.run(self._storage.remove, *dead)
            log.info("Removed %d files that uploads had left unfinished", len(dead))

    def _dead(self, strays: dict[str, float | None]) -> list[str]:
        """Return the files whose process is gone. Blocks."""
        import psutil

        dead = []
        for place, made in strays.items():
            machine, number, _ = place.split("-")
            old = made is not None and made < time.time() - _STRAY_SECONDS
            if machine != this_machine():
                gone = old
            elif int(number) == os.getpid():
                gone = made is not None and made < self._begun - 1  # an earlier process of this number
            else:
                gone = old or not psutil.pid_exists(int(number))
            if gone:
                dead.append(place)
        return dead

    async def _run(self) -> None:
        pause = min(max(self._limits.artifact_ttl / 4, _OFTEN), _SELDOM)
        try:
            await self.remove_leftovers()
            await self.sweep()
            if await self._store.run(rows.total):
                self._something.set()
        except SuzentError as error:
            log.warning("Kept files could not be looked through: %s", error.message)
            self._something.set()
        while True:
            await self._something.wait()
            await asyncio.sleep(pause)
            try:
                await self.sweep()
                if not await self._store.run(rows.total):
                    self._something.clear()
            except SuzentError as error:
                log.debug("Kept files could not be swept: %s", error.message)
