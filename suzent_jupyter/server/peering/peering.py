"""Peers: the gateways this one drives, those that drive it, and what is done with either."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...gateway.audit import Row
from ...gateway.devices import Departure, Device
from ...gateway.peers import KeptPeer
from ...protocol.errors import SuzentError
from ...protocol.params import read_timeout
from ...protocol.peers import ControlResponse, PeerInfo, PeerListResponse
from ...protocol.text import clean_text
from ..own_address import OwnAddress
from .book import NAME_CHARS, PeerBook
from .control_requests import ControlRequests, Waiting
from .moves import Moves
from .places import base_address, looks_like_address
from .reached_at import OwnUrl
from .reverse import Reverse
from .view import inbound_info, is_grant, is_near, is_of, peer_info

if TYPE_CHECKING:
    from ...gateway import Gateway, Principal
    from ...peers.http import PeerHttp
    from ...peers.remote import Decision
    from ...protocol.peers import (
        ControlRequest,
        PeerCapability,
        PeerInvokeRequest,
        PeerMode,
        PeerOffer,
        ProofRequest,
    )

log = logging.getLogger("suzent_jupyter")

_MARGIN = 5.0  # seconds a peer may take beyond a call's time to say that it took too long


class Peering:
    """This gateway and its peers. Make and use it on the gateway's event loop.

    Parameters
    ----------
    gateway : Gateway
        The hub.
    own_address : OwnAddress
        Where it is reached itself.
    own_url : callable
        Returns where the peer at a URL reaches this gateway; an empty URL if nowhere.
    """

    def __init__(self, gateway: Gateway, own_address: OwnAddress, own_url: Callable[[str], Awaitable[OwnUrl]]) -> None:
        self._gateway = gateway
        self._own_address = own_address
        self._book = PeerBook(gateway, own_url)
        self._moves = Moves(self._book, own_address)
        self._book.away = self._moves.find_elsewhere
        self._reverse = Reverse(self._book)
        self._requests = ControlRequests(gateway.limits.grant_request_ttl, self._take, self._book.in_background)
        gateway.snapshots["peers"] = self.listing
        gateway.departures.append(self._departed)

    def begin(self) -> None:
        """Load what is kept, then tell those who drive us where we are reached now; all in the background."""
        self._book.in_background(self._begin())

    async def _begin(self) -> None:
        await self._book.load()
        await self._moves.announce()

    async def stop(self) -> None:
        """Give up what is under way, within 2 s."""
        await self._book.stop()

    # -- what other parts use

    async def driven(self, principal: Principal, reference: str) -> KeptPeer:
        """Return a peer of the caller's account that may be driven; ``peer_unknown`` or ``peer_off`` otherwise."""
        return await self._book.driven(principal, reference)

    async def token(self, peer: KeptPeer) -> str:
        """Return the token a peer gave us; ``peer_revoked`` where there is none that can be read."""
        return await self._book.token(peer)

    async def http(self) -> PeerHttp:
        """Return the client that calls peers; what it needs is loaded off the event loop when it is first used."""
        return await self._book.http()

    async def own_url(self, peer: KeptPeer) -> OwnUrl:
        """Return where a peer reaches this gateway; an empty URL if nowhere."""
        return await self._book.own_url_of(peer.base_url)

    def noticing(self, peer: KeptPeer) -> AbstractContextManager[None]:
        """Take note, while a peer is called, that it does not accept our token."""
        return self._book.noticing(peer)

    def way_back(self, peer: KeptPeer) -> str:
        """Return what to do when a peer took its control back."""
        return self._book.way_back(peer)

    def while_kept(self, peer: KeptPeer, end: Callable[[SuzentError], None]) -> AbstractContextManager[None]:
        """Call ``end`` with ``revoked`` if a peer is removed while something is read from it."""
        return self._book.while_kept(peer, end)

    async def set_reverse(self, principal: Principal, reference: str, *, enabled: bool) -> None:
        """Give a peer control of this gateway, or take it back; see :meth:`.reverse.Reverse.set_reverse`."""
        await self._reverse.set_reverse(principal, reference, enabled=enabled)

    async def take_offer(self, principal: Principal, offer: PeerOffer, host: str) -> bool:
        """Take control that is given in return; see :meth:`.reverse.Reverse.take_offer`."""
        return await self._reverse.take_offer(principal, offer, host)

    def hear(self, base_url: str, host: str) -> None:
        """Take a hint that a grant we hold has changed; see :meth:`.moves.Moves.hear`."""
        self._moves.hear(base_url, host)

    async def prove(self, wanted: ProofRequest, host: str) -> str:
        """Return the proof that this gateway issued a grant; see :meth:`.moves.Moves.prove`."""
        return await self._moves.prove(wanted, host)

    # -- what the routes do

    async def control(self, principal: Principal, wanted: ControlRequest) -> ControlResponse:
        """Ask another gateway for control; who waits for its answer already asks no second time.

        Raises
        ------
        SuzentError
            ``invalid_request``, ``own_gateway``, ``peer_unreachable``, ``peer_refused``, ``bad_peer_answer`` or
            ``store_unreadable``.
        """
        if problem := self._gateway.store.problem:
            raise SuzentError("store_unreadable", f"Nothing can be kept: {problem}")
        await self._book.loaded.wait()
        http = await self._book.http()
        from ...peers.address import PeerAddress, socket_of
        from ...peers.remote import RemoteGateway

        account, limits = principal.account, self._gateway.limits
        known = self._book.find(account, wanted.base_url)
        device = None
        if known is None and not looks_like_address(wanted.base_url):  # its name is anybody's to choose
            device = self._book.inbound_device(account, wanted.base_url)
        if known is not None:
            address = PeerAddress(known.base_url)
        else:
            address = base_address(device.callback_url if device and device.callback_url else wanted.base_url)
        name = clean_text(wanted.name or "", NAME_CHARS) or (device.display_name if device else "")
        async with self._book.lock(account, address.base_url):
            for waiting in self._requests.open(account, address.base_url):
                await self._requests.look(waiting)  # it may have forgotten it, or have decided
                if waiting.status in ("pending", "approved"):
                    return waiting.info()
            own = self._gateway.identity
            if address.gateway_id == own or await self._own_address.is_meant(socket_of(address.base_url)):
                raise SuzentError("own_gateway", f"{address.base_url} is this gateway itself.")
            remote = RemoteGateway(http, limits, address.base_url, pin=address.pin)
            here = await self._book.own_url_of(address.base_url)
            # Before it gives us another token, since with that it may forget the one it would prove to have given.
            proven = await self._book.proven_at(account, address.base_url, address.pin)
            asked = await remote.request_control(self._gateway.settings.display_name, here.url, own)
            waiting = Waiting(
                principal, address.base_url, name, asked.request_id,
                RemoteGateway(http, limits, address.base_url),
                code=asked.code, expires_at=asked.expires_at, proven=proven,
            )  # fmt: skip
            self._requests.add(waiting)
            self._audit(principal, "peer.control", name or address.base_url, {"base_url": address.base_url})
            return waiting.info()

    async def control_status(self, principal: Principal, request_id: str, base_url: str, name: str) -> ControlResponse:
        """Tell how a request stands; ``expired`` for one that is not known, as after a restart."""
        await self._book.http()
        address = ""
        if base_url:
            with contextlib.suppress(SuzentError):  # a peer's name, say, which is no matter: the id will do
                address = base_address(base_url).base_url
        account = principal.account
        waiting = self._requests.find(account, request_id, address) or self._requests.find(account, request_id)
        if waiting is None:
            return ControlResponse(status="expired", request_id=request_id, base_url=base_url or None)
        if name and not waiting.name:
            waiting.name = clean_text(name, NAME_CHARS)
        try:
            await self._requests.look(waiting)
        except SuzentError as error:
            if error.code in ("store_unreadable", "store_failed"):
                raise
            log.debug("%s was not asked about our request: %s", waiting.base_url, error.message)
        return waiting.info()

    async def _take(self, waiting: Waiting, decision: Decision) -> KeptPeer:
        assert decision.token is not None
        return await self._book.adopt(
            waiting.principal,
            waiting.base_url,
            waiting.name,
            decision.node_identity,
            decision.token,
            "peer.add",
            waiting.proven,
        )

    def listing(self, principal: Principal) -> list[PeerInfo]:
        """Return the peers of the caller's account with what is known of them, both directions side by side."""
        account = principal.account
        inbound = [device for device in self._gateway.devices if is_grant(device, account)]
        listed = []
        for peer in self._book.of(account):
            theirs = [device for device in inbound if is_of(device, peer)]
            inbound = [device for device in inbound if device not in theirs]
            listed.append(peer_info(peer, theirs, self._book.statuses.of(peer.peer_id)))
        return listed + [inbound_info(device) for device in inbound]

    async def look(self, principal: Principal, *, refresh: bool) -> PeerListResponse:
        """Return the same, after asking those peers whose status is old; ``refresh``: all of them."""
        await self._book.loaded.wait()
        await self._book.statuses.refresh(self._book.of(principal.account), force=refresh)
        listed = self.listing(principal)
        waiting = [each.info() for each in self._requests.open(principal.account)]
        return PeerListResponse(peers=listed, count=len(listed), requests=waiting)

    async def capabilities(self, principal: Principal, reference: str) -> list[PeerCapability]:
        """Return what a peer's nodes can do, asked now."""
        peer = await self._book.peer(principal, reference)
        with self._book.noticing(peer):
            return await (await self._book.remote(peer)).capabilities()

    async def invoke(self, principal: Principal, reference: str, wanted: PeerInvokeRequest) -> dict[str, Any]:
        """Call a command of one of a peer's nodes, and return its answer with file references led through here."""
        limits = self._gateway.limits
        seconds = read_timeout(wanted.timeout, limits.invoke_timeout, limits.invoke_timeout_max)
        command = wanted.command.strip()
        if not command:
            raise SuzentError("invalid_request", "`command` is missing.")
        peer = await self._book.driven(principal, reference)
        body: dict[str, Any] = {"command": command, "params": wanted.params, "timeout": seconds}
        if wanted.node:
            body["node"] = wanted.node
        begun, outcome = asyncio.get_running_loop().time(), "failed"
        try:
            with self._book.noticing(peer):
                remote = await self._book.remote(peer)
                if wanted.node:
                    await remote.check_node(peer.name, wanted.node, command)
                answer = await remote.invoke(peer.name, body, seconds, _MARGIN)
            outcome = "ok" if answer.get("success") is True else "failed"
        except SuzentError as error:
            outcome = error.code
            raise
        finally:
            row = Row(principal.account, principal.actor, "peer.invoke", node=peer.name, outcome=outcome)
            row.command = clean_text(command, 128)
            row.duration_ms = (asyncio.get_running_loop().time() - begun) * 1000
            self._gateway.audit.record(row)
        from ...peers.references import with_local_urls

        failure = answer.get("error")
        return {
            "success": answer.get("success") is True,
            "result": await asyncio.to_thread(with_local_urls, answer.get("result"), peer.peer_id),
            "error": clean_text(failure, 2000) or None if failure is not None else None,
        }

    async def set_mode(self, principal: Principal, reference: str, mode: PeerMode) -> str:
        """Drive a peer, pause that, or switch it off; returns the mode in force."""
        peer = await self._book.peer(principal, reference)
        if peer.mode != mode:
            await self._book.alter(peer, principal.actor, "peer.mode", {"mode": mode}, mode=mode)
        return mode

    async def remove(self, principal: Principal, reference: str) -> str:
        """Sever both directions; returns whose. It works while the peer is offline, and tells it afterwards."""
        await self._book.loaded.wait()
        account = principal.account
        grants = [each for each in self._gateway.devices if is_grant(each, account)]
        peer = self._book.find(account, reference)
        if peer is None:
            device = self._book.inbound_device(account, reference)
            if device is None:
                await self._book.peer(principal, reference)  # says which there are
                raise AssertionError
            name, theirs = (
                device.display_name,
                [
                    each
                    for each in grants
                    if each is device or each.is_held_by(device.node_identity, device.callback_url)
                ],
            )
        else:
            name, theirs = peer.name, [each for each in grants if is_near(each, peer)]
        for each in theirs:
            if self._gateway.devices.by_id(each.device_id) is not None:
                await self._gateway.credentials.revoke(principal, each.device_id)
        if peer is not None:
            self._requests.drop(account, peer.base_url)  # or its approval would bring the peer back
            async with self._book.changing:
                if self._book.all.get(peer.peer_id) is not None:
                    await self._book.forget(
                        self._book.all[peer.peer_id], principal, {"revoked": [e.device_id for e in theirs]}
                    )
        return name

    def _departed(self, device: Device, how: Departure) -> None:
        if device.scope != "agent":
            return
        drives_only = True
        for peer in self._book.of(device.account):
            if how == "revoked" and peer.reverse_device_id == device.device_id:
                self._book.in_background(self._clear_reverse(peer))
            if is_of(device, peer):
                drives_only = False
                self._book.tell("changed", peer)
        if drives_only:
            gone = self._gateway.devices.by_id(device.device_id) is not device  # an expired one stays
            self._gateway.changes.publish(
                "peers",
                "removed" if gone else "changed",
                lambda: inbound_info(device).model_dump(),
                lambda principal: principal.account == device.account,
            )
        if how == "revoked" and device.callback_url:
            self._book.in_background(self._moves.say_changed(device))

    async def _clear_reverse(self, peer: KeptPeer) -> None:
        with contextlib.suppress(SuzentError):
            await self._book.alter(peer, "gateway", "peer.reverse", {"enabled": False}, reverse_device_id="")

    def _audit(self, principal: Principal, action: str, name: str, detail: dict[str, Any]) -> None:
        self._gateway.audit.record(Row(principal.account, principal.actor, action, node=name, detail=detail))
