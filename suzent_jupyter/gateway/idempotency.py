"""Calls that were asked twice: the second asker gets what the first one got, or waits with it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from .calls import Outcome

Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    fingerprint: bytes
    future: asyncio.Future[Outcome]
    askers: int = 0
    expires: float = float("inf")
    size: int = 0

    def follow(self) -> asyncio.Future[Outcome]:
        """Return a future of the asker's own. The call itself is cancelled when its last asker gives up."""
        follower: asyncio.Future[Outcome] = self.future.get_loop().create_future()
        self.askers += 1

        def copy(done: asyncio.Future[Outcome]) -> None:
            if follower.done():
                return
            if done.cancelled():
                follower.cancel()
            elif (error := done.exception()) is not None:
                follower.set_exception(error)
            else:
                follower.set_result(done.result())

        def given_up(done: asyncio.Future[Outcome]) -> None:
            self.askers -= 1
            if done.cancelled() and self.askers == 0 and not self.future.done():
                self.future.cancel()

        self.future.add_done_callback(copy)
        follower.add_done_callback(given_up)
        return follower


class Idempotency:
    """Results by (account, key), kept for a while and up to a total size."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0

    def find(self, key: Key, fingerprint: bytes) -> asyncio.Future[Outcome] | None:
        """Return a future of the first call's end.

        Raises
        ------
        SuzentError
            ``idempotency_conflict`` if it asked for something else, ``node_busy`` when as many wait for it as may wait
            for a node.
        """
        entry = self._entries.get(key)
        if entry is not None and entry.expires <= self._clock():
            self._drop(key)
            entry = None
        if entry is None:
            return None
        if entry.fingerprint != fingerprint:
            raise SuzentError("idempotency_conflict", f"The key '{key[1]}' was used for a different call.")
        if entry.askers >= self._limits.calls_in_flight + self._limits.calls_waiting and not entry.future.done():
            raise SuzentError("node_busy", f"{entry.askers} callers wait for the call with this key already.")
        return entry.follow()

    def hold(self, key: Key, fingerprint: bytes, future: asyncio.Future[Outcome]) -> asyncio.Future[Outcome]:
        """Remember a call under way and return the asker's own future.

        Its outcome is kept; a refusal is not, so that it may be tried again.
        """
        entry = self._entries[key] = _Entry(fingerprint, future)
        future.add_done_callback(lambda done: self._settle(key, entry, done))
        return entry.follow()

    def settle_late(self, key: Key, fingerprint: bytes, outcome: Outcome) -> None:
        """Keep a result that came after its deadline, for whoever asks again with the same key."""
        if key not in self._entries:
            future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            future.set_result(outcome)
            self._settle(key, _Entry(fingerprint, future), future)

    def _settle(self, key: Key, entry: _Entry, done: asyncio.Future[Outcome]) -> None:
        if done.cancelled() or done.exception() is not None:
            if self._entries.get(key) is entry:
                del self._entries[key]
            return
        entry.size = len(bytes(done.result().result)) + 200
        entry.expires = self._clock() + self._limits.idempotency_ttl
        if entry.size > self._limits.idempotency_bytes:
            self._entries.pop(key, None)
            return
        self._entries[key] = entry
        self._entries.move_to_end(key)
        self._bytes += entry.size
        now = self._clock()
        for old in list(self._entries):
            kept = self._entries[old]
            if not kept.future.done():
                continue
            if kept.expires > now and self._bytes <= self._limits.idempotency_bytes:
                break
            self._drop(old)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key)
        self._bytes -= entry.size
