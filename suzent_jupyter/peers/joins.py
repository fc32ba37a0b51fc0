"""This gateway as a node of others: one :class:`Join` for each gateway, all on the gateway's own event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from ..node import Capability, NodeHost
from ..node.builtin import available
from ..protocol.errors import SuzentError
from ..protocol.rest import ConnectionInfo
from .address import canonical_url
from .vault import JoinVault

log = logging.getLogger("suzent_jupyter")

Status = Literal["connecting", "pending", "connected", "reconnecting", "refused", "stopped"]
Kind = Literal["added", "changed", "removed"]

_FIRST_NEWS = 2.0  # seconds to wait for the other gateway's word, after it was found to be there
_LEAVE_SECONDS = 2.0  # seconds; the whole gateway has three to stop in
#: Why a join to oneself is refused.
ITSELF = "that is this gateway itself"


@dataclass(eq=False)
class Join:
    """One gateway that was joined, whether or not we are there now.

    Attributes
    ----------
    account, gateway_url : str
        Whose join it is, and where to.
    name : str
        Under which name; ``""`` for whatever this gateway is called.
    patterns : list of str
        What is offered there, as patterns; empty for all.
    status : str
        ``connecting``, ``pending``, ``connected``, ``reconnecting``, ``refused`` or ``stopped``.
    since : str
        Since when; UTC, ISO 8601.
    error : str, optional
        Why it is refused, or what keeps it from being connected.
    """

    account: str
    gateway_url: str
    name: str = ""
    patterns: list[str] = field(default_factory=list)
    added_at: str = ""
    status: Status = "stopped"
    since: str = ""
    error: str | None = None
    shown_name: str = ""
    offer: list[Capability] = field(default_factory=list)
    host: NodeHost | None = None
    task: asyncio.Task[None] | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        """Whether it is joined, or on its way."""
        return self.status not in ("refused", "stopped")

    def info(self) -> ConnectionInfo:
        """Return it as ``GET /nodes/connections`` shows it."""
        host = self.host if self.running else None
        return ConnectionInfo(
            gateway_url=self.gateway_url,
            display_name=self.shown_name,
            status=self.status,
            pairing_code=host.pairing_code if host else None,
            node_id=host.node_id if host else None,
            error=self.error,
            since=self.since,
            added_at=self.added_at,
            capabilities=list(host.capabilities) if host else [],
            pending_approval=list(host.pending_approval) if host else [],
        )

    def turn(self, status: Status, error: str | None = None) -> None:
        """Note the state it is in now."""
        if status != self.status:
            self.since = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.status, self.error = status, error


class Joins:
    """The joins of this gateway. Make and use it on the gateway's event loop.

    Parameters
    ----------
    directory : Path
        Where the vault of their tokens stands.
    own_name : callable
        How this gateway is called.
    denied : callable
        Whether a command is never to be carried out, whoever asks.
    is_self : callable
        Whether the gateway that a host talks to is this very one.
    on_change : callable
        Hears ``added``, ``changed`` or ``removed`` and the join.
    on_call : callable
        Hears of each call another gateway made: the join, command, seconds and, where it failed, the error.
    """

    def __init__(
        self,
        directory: Path,
        *,
        own_name: Callable[[], str],
        denied: Callable[[str], bool],
        is_self: Callable[[NodeHost], bool],
        on_change: Callable[[Kind, Join], None],
        on_call: Callable[[Join, str, float, str | None], None],
    ) -> None:
        self._directory = directory
        self._own_name = own_name
        self._denied = denied
        self._is_self = is_self
        self._on_change = on_change
        self._on_call = on_call
        self._joins: dict[tuple[str, str], Join] = {}
        self._stopping = False

    # -- which there are

    def __iter__(self) -> Iterator[Join]:
        return iter(list(self._joins.values()))

    def visible(self, account: str) -> list[Join]:
        """Return the joins of an account."""
        return [join for join in self._joins.values() if join.account == account]

    def find(self, account: str, gateway_url: str) -> Join | None:
        """Return the join of a gateway."""
        return self._joins.get((account, gateway_url))

    def add(self, join: Join) -> Join:
        """Take over a join that does not run yet."""
        join.shown_name = join.name or self._own_name()
        known = self.find(join.account, join.gateway_url)
        self._joins[join.account, join.gateway_url] = join
        if known is None:
            self._on_change("added", join)
        return join

    def forget(self, join: Join) -> None:
        """Drop a join that does not run; its token stays, so that joining again needs no approval."""
        if self._joins.get((join.account, join.gateway_url)) is join:
            del self._joins[join.account, join.gateway_url]
            self._on_change("removed", join)

    # -- coming and going

    def start(self, join: Join, offer: list[Capability], link: str | None = None) -> None:
        """Join in the background; a join that runs is left alone.

        ``link`` is the pairing link it was given with, whose ticket and pin the device uses.

        Raises
        ------
        ValueError
            When the name can't be printed.
        """
        if join.running or self._stopping:
            return
        host = self._make_host(join, link or join.gateway_url, offer)
        if link and canonical_url(host.url) != join.gateway_url:
            host = self._make_host(join, join.gateway_url, offer)
        join.host, join.offer, join.shown_name = host, offer, host.name
        join.news.clear()
        join.turn("connecting")
        join.task = asyncio.get_running_loop().create_task(self._run(join, host))
        self._on_change("changed", join)

    def _make_host(self, join: Join, address: str, offer: list[Capability]) -> NodeHost:
        return NodeHost(
            address,
            name=join.name or self._own_name(),
            capabilities=[each for each in offer if not self._denied(each.name)],
            vault=JoinVault(self._directory, join.account, join.gateway_url),
            on_status=lambda host: self._heard(join, host),
            on_call=lambda command, seconds, error: self._on_call(join, command, seconds, error),
        )

    async def first_news(self, join: Join) -> None:
        """Wait until the other gateway has said something, or can't be reached, for a moment at most."""
        try:
            async with asyncio.timeout(_FIRST_NEWS):
                await join.news.wait()
        except TimeoutError:
            pass  # it is slow; what comes of it, `connections` shows

    async def leave(self, join: Join) -> None:
        """End the connection; the other gateway sees an ordinary goodbye."""
        host, task = join.host, join.task
        if host is not None and task is not None and not task.done():
            host.stop()
            await asyncio.wait([task], timeout=_LEAVE_SECONDS)
            task.cancel()
        join.host = join.task = None
        if join.status != "stopped":
            join.turn("stopped")
            self._on_change("changed", join)

    async def stop(self) -> None:
        """End all connections, within 2 s."""
        self._stopping = True
        await asyncio.gather(*(self.leave(join) for join in self._joins.values() if join.running))

    def withhold(self) -> None:
        """Stop offering what is denied now, and offer again what is not any more; in force at once."""
        for join in self._joins.values():
            if join.host is None or not join.running:
                continue
            offered = [each for each in join.offer if not self._denied(each.name)]
            if [each.name for each in offered] != list(join.host.capabilities):
                join.host.update(offered)
                self._on_change("changed", join)

    async def rename(self, join: Join) -> None:
        """Bear this gateway's new name where no other one was given: a name is told when connecting."""
        if join.host is not None and join.running and not join.name and join.host.name != self._own_name():
            await self.leave(join)
            self.start(join, join.offer)

    async def _run(self, join: Join, host: NodeHost) -> None:
        try:
            await host.run()
        except Exception:
            log.exception("The connection to %s ended in an unforeseen way", join.gateway_url)
            if join.host is host:
                join.turn("stopped", "it ended in an unforeseen way; the server log has the traceback")
                self._on_change("changed", join)

    def _heard(self, join: Join, host: NodeHost) -> None:
        if join.host is not host or join.status == "refused":
            return
        if host.status in ("pending", "connected") and self._is_self(host):
            join.turn("refused", ITSELF)
            host.stop()
        elif host.status != "idle":
            join.turn(host.status, None if host.status == "stopped" else host.last_error)
        if join.status != "connecting":
            join.news.set()
        if not (join.status == "stopped" and self._stopping):
            self._on_change("changed", join)


async def offers(patterns: Iterable[str] = ()) -> list[Capability]:
    """Return the built-in capabilities that work on this machine, or those of them that a pattern fits.

    As with Suzent, a gateway that joins another one offers what its machine can do; nothing that a notebook declared
    is among it.

    Raises
    ------
    SuzentError
        ``invalid_request`` for a pattern that fits none.
    """
    known = await available()
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(each.name, pattern) for each in known):
            names = ", ".join(each.name for each in known) or "nothing"
            raise SuzentError(
                "invalid_request", f"This machine offers nothing like '{pattern[:64]}'; it offers: {names}."
            )
    return fitting(known, wanted)


def fitting(known: list[Capability], patterns: Sequence[str]) -> list[Capability]:
    """Return those that a pattern fits; all of them where there is no pattern."""
    return [each for each in known if not patterns or any(fnmatchcase(each.name, pattern) for pattern in patterns)]
