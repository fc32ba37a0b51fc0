"""Joining other gateways: the connections of ``peers`` and the rows the store keeps of them, side by side."""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from ..gateway.audit import Row
from ..gateway.joins import KeptJoin, KeptJoins
from ..protocol.errors import SuzentError
from ..protocol.pairing_link import PairingLink
from ..protocol.text import clean_text
from .background import Background
from .own_address import OwnAddress

if TYPE_CHECKING:
    from ..gateway import Gateway, Principal
    from ..node import NodeHost
    from ..peers.joins import Join, Joins, Kind
    from ..protocol.rest import ConnectionInfo, ConnectRequest

log = logging.getLogger("suzent_jupyter")

_PATTERNS = 64
_NAME_CHARS = 64
_STOP_SECONDS = 0.5


class Joining:
    """This gateway as a node of others.

    Parameters
    ----------
    gateway : Gateway
        The hub.
    own_address : OwnAddress
        Where it is reached itself.
    """

    def __init__(self, gateway: Gateway, own_address: OwnAddress) -> None:
        self._gateway = gateway
        self._own_address = own_address
        self._kept = KeptJoins(gateway.store, gateway.audit)
        self._joins: Joins | None = None
        self._made = asyncio.Lock()
        self._background = Background("gateways that are joined")
        self._listed = asyncio.Event()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        gateway.snapshots["connections"] = self.list

    def begin(self) -> None:
        """Join again, in the background, what was joined when this gateway stopped."""
        self._background.run(self._resume())

    async def stop(self) -> None:
        """Leave every gateway, within 2 s; they are joined again at the next start."""
        await self._background.stop(_STOP_SECONDS)
        if self._joins is not None:
            await self._joins.stop()

    # -- what the routes do

    def list(self, principal: Principal) -> list[ConnectionInfo]:
        """Return the connections of the caller's account."""
        return [join.info() for join in self._joins.visible(principal.account)] if self._joins is not None else []

    async def listed(self) -> None:
        """Wait until the kept joins are known."""
        await self._listed.wait()

    async def connect(self, principal: Principal, wanted: ConnectRequest) -> ConnectionInfo:
        """Become a node of another gateway; answered after its first word, or some seconds.

        A gateway that was joined already is joined again if need be, else nothing changes, unless another name or
        other capabilities are asked for.

        Raises
        ------
        SuzentError
            ``invalid_request``, ``own_gateway``, ``gateway_unreachable``, ``not_a_gateway`` or ``gateway_refused``.
            A gateway that is new is not kept then.
        """
        if problem := self._gateway.store.problem:
            raise SuzentError("store_unreadable", f"Nothing can be kept: {problem}")
        joins = await self._get()
        await self.listed()
        from ..peers.joins import Join, offers
        from ..peers.probe import probe

        url = _canonical(wanted.gateway_url)
        async with self._lock(principal.account, url):
            found = joins.find(principal.account, url)
            kept = _terms(principal.account, url, wanted, found)
            invited = PairingLink.is_link(wanted.gateway_url)
            if (
                found is not None
                and found.running
                and (found.name, found.patterns) == (kept.name, kept.capabilities)
                and not (invited and found.status != "connected")
            ):
                return found.info()
            if await self._own_address.is_meant(url):
                raise _own(url)
            offer, _ = await asyncio.gather(offers(kept.capabilities), probe(url, self._gateway.limits.join_probe))
            if found is not None:
                await joins.leave(found)
            join = found or Join(kept.account, url, added_at=kept.added_at)
            join.name, join.patterns = kept.name, kept.capabilities
            joins.add(join)
            try:
                self._start(joins, join, offer, wanted.gateway_url if invited else None)
                await joins.first_news(join)
                _check(join, new=found is None)
                await self._kept.put(principal, kept)
            except BaseException:
                if found is None:
                    await joins.leave(join)
                    joins.forget(join)
                raise
        return join.info()

    async def disconnect(self, principal: Principal, address: str) -> str:
        """Leave a gateway, or drop one from the list that was left before; returns what was done.

        Raises
        ------
        SuzentError
            ``connection_unknown``, with the ones there are.
        """
        joins = await self._get()
        await self.listed()
        url = _canonical(address)
        join = joins.find(principal.account, url)
        if join is None:
            known = [each.gateway_url for each in joins.visible(principal.account)]
            names = f" It has joined: {', '.join(known)}." if known else ""
            raise SuzentError(
                "connection_unknown", f"This gateway has not joined {url}.{names}", details={"connections": known}
            )
        async with self._lock(join.account, join.gateway_url):
            kept, running = _row(join), join.running
            await self._kept.leave(principal, kept, forget=not running)
            if running:
                await joins.leave(join)
                return f"Disconnected from {url}."
            joins.forget(join)
            return f"Forgot {url}; it was not connected."

    async def offers(self) -> Any:
        """Return the declarations of what this gateway offers where it joins; takes seconds where drivers are slow."""
        await self._get()
        from ..peers.joins import offers

        return [each.declaration() for each in await offers() if not self._gateway.settings.denies(each.name)]

    def settings_changed(self) -> None:
        """Follow this gateway's name and denied commands."""
        if self._joins is not None:
            self._joins.withhold()
            self._background.run(self._rename(self._joins))

    # -- what happens by itself

    async def _resume(self) -> None:
        try:
            rows = await self._kept.load()
            if not rows:
                return
            joins = await self._get()
            from ..peers.joins import Join, fitting, offers

            found = [
                joins.add(Join(row.account, row.gateway_url, row.name, list(row.capabilities), row.added_at))
                for row in rows
            ]
            self._listed.set()
            wanted = [join for join, row in zip(found, rows, strict=True) if row.wanted]
            known = await offers() if wanted else []
            for join in wanted:
                async with self._lock(join.account, join.gateway_url):
                    if not join.running and joins.find(join.account, join.gateway_url) is join:
                        self._start(joins, join, fitting(known, join.patterns))
        except SuzentError as error:
            if error.code != "store_unreadable":  # which has been reported
                log.warning("The gateways that were joined are not joined again: %s", error.message)
        except Exception:
            log.exception("The gateways that were joined are not joined again")
        finally:
            self._listed.set()

    async def _rename(self, joins: Joins) -> None:
        for join in joins:
            async with self._lock(join.account, join.gateway_url):
                await joins.rename(join)

    async def _get(self) -> Joins:
        """Return the joins; what they need is loaded off the event loop when they are first asked for."""
        async with self._made:
            if self._joins is None:
                await asyncio.to_thread(import_module, "suzent_jupyter.peers.joins")
                from ..peers.joins import Joins

                self._joins = Joins(
                    self._gateway.store.path.parent,
                    own_name=lambda: self._gateway.settings.display_name,
                    denied=self._gateway.settings.denies,
                    is_self=self._is_self,
                    on_change=self._changed,
                    on_call=self._called,
                )
            return self._joins

    def _lock(self, account: str, url: str) -> asyncio.Lock:
        """Return what keeps two changes of one join apart."""
        return self._locks.setdefault((account, url), asyncio.Lock())

    @staticmethod
    def _start(joins: Joins, join: Join, offer: Any, link: str | None = None) -> None:
        try:
            joins.start(join, offer, link)
        except ValueError as error:
            raise SuzentError("invalid_request", str(error)) from None

    def _is_self(self, host: NodeHost) -> bool:
        return self._gateway.is_itself(host.node_identity or "", host.pairing_code, host.node_id)

    def _changed(self, kind: Kind, join: Join) -> None:
        self._gateway.changes.publish(
            "connections",
            kind,
            lambda: join.info().model_dump(),
            lambda principal: principal.account == join.account,
        )
        if kind == "changed" and join.status == "refused":
            self._background.run(self._note_refusal(join))

    async def _note_refusal(self, join: Join) -> None:
        async with self._lock(join.account, join.gateway_url):
            if join.status != "refused" or self._joins is None:
                return
            if self._joins.find(join.account, join.gateway_url) is not join:
                return  # it was new, and whoever asked for it has been told
            try:
                await self._kept.refused(_row(join), join.error or "")
            except SuzentError as error:
                log.warning("That %s refuses this gateway could not be kept: %s", join.gateway_url, error.message)

    def _called(self, join: Join, command: str, seconds: float, error: str | None) -> None:
        host = urlsplit(join.gateway_url).netloc
        self._gateway.audit.record(
            Row(
                join.account,
                f"gateway:{host}",
                "invoke",
                node=join.shown_name,
                command=clean_text(command, 128),
                outcome="ok" if error is None else "failed",
                duration_ms=seconds * 1000,
                detail={"gateway_url": join.gateway_url},
            )
        )


def _canonical(address: str) -> str:
    from ..peers.address import canonical_url

    try:
        return canonical_url(address)
    except ValueError as error:
        raise SuzentError("invalid_request", str(error)) from None


def _terms(account: str, url: str, wanted: ConnectRequest, join: Join | None) -> KeptJoin:
    """Return what is asked for; what is left out stays as it is."""
    name = join.name if join is not None else ""
    if wanted.name:  # Suzent's programs send "" for none
        name = clean_text(wanted.name, _NAME_CHARS)
        if not name:
            raise SuzentError("invalid_request", "`name` must be text that can be read.")
    patterns = join.patterns if join is not None else []
    if wanted.capabilities is not None:
        patterns = wanted.capabilities
        if len(patterns) > _PATTERNS or any(not 0 < len(pattern) <= 128 for pattern in patterns):
            raise SuzentError("invalid_request", "`capabilities` must be patterns such as camera.*, 64 at most.")
    kept = KeptJoin(account, url, name, list(patterns))
    return kept if join is None else KeptJoin(account, url, name, list(patterns), join.added_at)


def _row(join: Join) -> KeptJoin:
    return KeptJoin(join.account, join.gateway_url, join.name, join.patterns, join.added_at)


def _check(join: Join, *, new: bool) -> None:
    """Fail if the join just begun came to nothing."""
    from ..peers.joins import ITSELF

    if join.status == "refused":
        if join.error == ITSELF:
            raise _own(join.gateway_url)
        raise SuzentError("gateway_refused", f"{join.gateway_url} does not take this gateway: {join.error}.")
    if join.status == "reconnecting" and new:
        raise SuzentError("gateway_unreachable", f"{join.gateway_url} can't be joined: {join.error}.")


def _own(url: str) -> SuzentError:
    return SuzentError("own_gateway", f"{url} is this gateway itself.")
