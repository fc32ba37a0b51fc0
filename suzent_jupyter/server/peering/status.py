"""How each peer is right now: asked in parallel, once at a time, and taken for true for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...gateway.clock import now_text

if TYPE_CHECKING:
    from ...gateway.peers import KeptPeer

Status = Literal["ready", "revoked", "offline"]
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Seen:
    """What a peer said, and when: in UTC, and by the monotonic clock."""

    status: Status
    checked_at: str
    at: float


class PeerStatuses:
    """What is known of each peer.

    Parameters
    ----------
    ttl : float
        Seconds for which it is taken for true.
    probe : callable
        Asks one peer; bounded in time by itself, and never fails.
    changed : callable
        Hears of a peer whose status is another one now.
    """

    def __init__(
        self, ttl: float, probe: Callable[[KeptPeer], Awaitable[Status]], changed: Callable[[KeptPeer, Status], None]
    ) -> None:
        self._ttl = ttl
        self._probe = probe
        self._changed = changed
        self._seen: dict[str, Seen] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def of(self, peer_id: str) -> Seen | None:
        """Return what was last seen of a peer."""
        return self._seen.get(peer_id)

    def note(self, peer: KeptPeer, status: Status) -> None:
        """Take note of what a peer has just shown, asked or not."""
        before = self._seen.get(peer.peer_id)
        self._seen[peer.peer_id] = Seen(status, now_text(), time.monotonic())
        if before is None or before.status != status:
            self._changed(peer, status)

    def forget(self, peer_id: str) -> None:
        """Believe nothing of a peer any more, nor what it is being asked at the moment."""
        self._seen.pop(peer_id, None)
        self._asking.pop(peer_id, None)

    async def refresh(self, peers: Iterable[KeptPeer], *, force: bool = False) -> None:
        """Ask those whose status is old; ``force``: all of them, also those that are being asked already."""
        asked = [peer for peer in peers if force or self._is_old(peer.peer_id)]
        if force and (running := [self._asking[peer.peer_id] for peer in asked if peer.peer_id in self._asking]):
            await asyncio.wait(running)  # what they say may be older than the reason to ask
        tasks = [self._ask(peer) for peer in asked]
        if tasks:
            await asyncio.wait(tasks)

    def stop(self) -> None:
        """Ask nobody any more."""
        for task in self._asking.values():
            task.cancel()

    def _is_old(self, peer_id: str) -> bool:
        seen = self._seen.get(peer_id)
        return seen is None or time.monotonic() - seen.at >= self._ttl

    def _ask(self, peer: KeptPeer) -> asyncio.Task[None]:
        task = self._asking.get(peer.peer_id)
        if task is None:
            task = self._asking[peer.peer_id] = asyncio.get_running_loop().create_task(self._look(peer))
        return task

    async def _look(self, peer: KeptPeer) -> None:
        this = asyncio.current_task()
        try:
            async with self._slots:
                status = await self._probe(peer)
            if self._asking.get(peer.peer_id) is this:
                self.note(peer, status)
        finally:
            if self._asking.get(peer.peer_id) is this:
                del self._asking[peer.peer_id]
