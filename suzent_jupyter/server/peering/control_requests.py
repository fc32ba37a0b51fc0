"""Our own control requests: asked, waited for in the background, and remembered when they are decided."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.peers import ControlResponse

if TYPE_CHECKING:
    from ...gateway import Principal
    from ...gateway.peers import KeptPeer
    from ...peers.remote import Decision, RemoteGateway

log = logging.getLogger("suzent_jupyter")

_POLL_SECONDS, _SLOWEST_POLL, _SLOWER = 2.0, 10.0, 1.25
_REMEMBERED = 256
_TRIES_TO_KEEP = 10


@dataclass(eq=False)
class Waiting:
    """One request, and what came of it.

    Attributes
    ----------
    principal : Principal
        Who asked.
    remote : RemoteGateway
        Whom.
    proven : frozenset of str
        The ids of peers that the gateway there has proved to be.
    status : str
        ``pending``, ``approved``, ``denied`` or ``expired``.
    """

    principal: Principal
    base_url: str
    name: str
    request_id: str
    remote: RemoteGateway
    code: str = ""
    expires_at: str = ""
    gateway_id: str = ""
    proven: frozenset[str] = frozenset()
    status: str = "pending"
    peer_id: str | None = None
    problem: SuzentError | None = None
    decision: Decision | None = field(default=None, repr=False)
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def info(self) -> ControlResponse:
        """Return it as ``GET /nodes/control-status`` shows it."""
        return ControlResponse(
            status=self.status,
            request_id=self.request_id,
            base_url=self.base_url,
            code=self.code,
            peer_id=self.peer_id,
            expires_at=self.expires_at,
        )


class ControlRequests:
    """They end with this process: the other side then approves a token that nobody fetches.

    Parameters
    ----------
    ttl : float
        Seconds after which nobody waits any more.
    take : callable
        Keeps the peer that an approved request made, and returns it.
    run : callable
        Runs a coroutine in the background.
    """

    def __init__(
        self,
        ttl: float,
        take: Callable[[Waiting, Decision], Awaitable[KeptPeer]],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ttl = ttl
        self._take = take
        self._run = run
        # Ids are chosen by the other side: two gateways may choose the same.
        self._requests: OrderedDict[tuple[str, str, str], Waiting] = OrderedDict()

    def add(self, waiting: Waiting) -> None:
        """Wait for the answer to a request that was just made."""
        account = waiting.principal.account
        waiting.until = time.monotonic() + self._ttl
        self._requests[account, waiting.base_url, waiting.request_id] = waiting
        decided = [key for key, each in self._requests.items() if each.status != "pending"]
        for key in decided[: max(0, len(self._requests) - _REMEMBERED)]:
            del self._requests[key]
        self._run(self._wait(waiting))

    def open(self, account: str, base_url: str = "") -> list[Waiting]:
        """Return those that wait; with an address those of it alone."""
        return [
            each
            for key, each in self._requests.items()
            if key[0] == account and base_url in ("", key[1]) and each.status == "pending"
        ]

    def drop(self, account: str, base_url: str) -> None:
        """Wait for the answer of an address no longer, nor take it."""
        for waiting in self.open(account, base_url):
            waiting.status, waiting.decision = "expired", None

    def find(self, account: str, request_id: str, base_url: str = "") -> Waiting | None:
        """Return one, also one that was decided; without an address the newest of that id."""
        if base_url:
            return self._requests.get((account, base_url, request_id))
        newest = reversed(self._requests.items())
        return next((each for key, each in newest if (key[0], key[2]) == (account, request_id)), None)

    async def look(self, waiting: Waiting) -> None:
        """Ask the other side now.

        Raises
        ------
        SuzentError
            When it can't be asked, or its token can't be kept; both are tried again.
        """
        async with waiting.lock:  # the token is served once
            if waiting.status != "pending":
                return
            if waiting.decision is None:
                decision = await waiting.remote.decision(waiting.request_id)
                if waiting.status != "pending":
                    return  # dropped meanwhile
                if decision.status == "pending":
                    if time.monotonic() > waiting.until:
                        waiting.status = "expired"
                    return
                if decision.status != "approved":
                    waiting.status = decision.status
                    return
                if decision.token is None:
                    waiting.status = "expired"
                    log.warning(
                        "%s approved our request, and somebody fetched the token before us: revoke it there and ask "
                        "again.",
                        waiting.base_url,
                    )
                    return
                waiting.decision = decision
            peer = await self._take(waiting, waiting.decision)
            waiting.peer_id, waiting.status, waiting.decision = peer.peer_id, "approved", None

    async def _wait(self, waiting: Waiting) -> None:
        pause, tries = _POLL_SECONDS, 0
        while waiting.status == "pending":
            await asyncio.sleep(pause)
            pause = min(pause * _SLOWER, _SLOWEST_POLL)
            try:
                await self.look(waiting)
            except SuzentError as error:
                log.debug("%s was not asked about our request: %s", waiting.base_url, error.message)
                tries += waiting.decision is not None
                if tries >= _TRIES_TO_KEEP or time.monotonic() > waiting.until:
                    waiting.status = "expired"
                    waiting.decision = None
