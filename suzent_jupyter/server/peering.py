"""Peers: the gateways this one drives, those that drive it, and what is done with either."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from ..gateway.audit import Row
from ..gateway.devices import Device
from ..gateway.peers import KeptPeer, KeptPeers, PeerMode
from ..protocol.errors import SuzentError
from ..protocol.params import read_timeout
from ..protocol.peers import ControlResponse, PeerInfo, PeerListResponse, grant_proof
from ..protocol.text import clean_text
from .control_requests import ControlRequests, Waiting
from .own_address import OwnAddress
from .peer_hints import Hints
from .peer_status import PeerStatuses, Status
from .peer_view import inbound_info, is_grant, is_near, is_of, is_same_holder, peer_info
from .reached_at import OwnUrl

if TYPE_CHECKING:
    from ..gateway import Gateway, Principal
    from ..node import TokenVault
    from ..peers.address import PeerAddress
    from ..peers.http import PeerHttp
    from ..peers.remote import Decision, RemoteGateway, Standing
    from ..peers.tokens import PeerTokens
    from ..protocol.peers import ControlRequest, PeerCapability, PeerInvokeRequest, PeerOffer, ProofRequest

log = logging.getLogger("suzent_jupyter")

_NAME_CHARS = 64
_MARGIN = 5.0  # seconds a peer may take beyond a call's time to say that it took too long
_STOP_SECONDS = 1.5
_ANNOUNCED_AT_ONCE = 8
_SHORTEST_PREFIX = 4
_MODULES = ("suzent_jupyter.node", "suzent_jupyter.peers.remote", "suzent_jupyter.peers.references")


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
        self._own_url = own_url
        self._kept = KeptPeers(gateway.store, gateway.audit)
        self._peers: dict[str, KeptPeer] = {}
        self._loaded = asyncio.Event()
        self._made = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._http: PeerHttp | None = None
        self._vault: TokenVault
        self._tokens: PeerTokens
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._requests = ControlRequests(gateway.limits.grant_request_ttl, self._take, self._in_background)
        self._statuses = PeerStatuses(gateway.limits.peer_status_ttl, self._probe, self._seen)
        self._hints = Hints(self._look_again, self._in_background)
        gateway.snapshots["peers"] = self.listing
        gateway.departures.append(self._departed)

    def begin(self) -> None:
        """Load what is kept, then tell those who drive us where we are reached now; all in the background."""
        self._in_background(self._begin())

    async def stop(self) -> None:
        """Give up what is under way, within 2 s."""
        self._statuses.stop()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        if self._http is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._http.close()

    # -- what other parts use

    async def peer(self, principal: Principal, reference: str) -> KeptPeer:
        """Return a peer of the caller's account by id, unique name, address, or unique beginning of the id.

        Raises
        ------
        SuzentError
            ``peer_unknown``.
        """
        await self._loaded.wait()
        found = self._find(principal.account, reference)
        if found is not None:
            return found
        if self._inbound_device(principal.account, reference) is not None:
            raise SuzentError("peer_unknown", f"{_shown(reference)} drives this gateway, and is not driven by it.")
        names = ", ".join(peer.name for peer in self._of(principal.account))
        known = f" There are: {names}." if names else ""
        raise SuzentError("peer_unknown", f"There is no peer {_shown(reference)}.{known}")

    async def driven(self, principal: Principal, reference: str) -> KeptPeer:
        """Return the same, if it may be driven; ``peer_off`` otherwise."""
        peer = await self.peer(principal, reference)
        if peer.mode != "trigger":
            raise SuzentError("peer_off", f"{peer.name} is {'paused' if peer.mode == 'paused' else 'switched off'}.")
        return peer

    async def token(self, peer: KeptPeer) -> str:
        """Return the token a peer gave us; ``peer_revoked`` where there is none that can be read."""
        await self.http()
        token = await self._tokens.get(peer.peer_id)
        if token is None:
            raise SuzentError("peer_revoked", f"There is no token for {peer.name} that could be read.")
        return token

    async def http(self) -> PeerHttp:
        """Return the client that calls peers; what it needs is loaded off the event loop when it is first used."""
        async with self._made:
            if self._http is None:
                for module in _MODULES:
                    await asyncio.to_thread(import_module, module)
                from ..node import TokenVault
                from ..peers.http import PeerHttp
                from ..peers.tokens import PeerTokens

                self._vault = TokenVault(self._gateway.store.path.parent)
                self._tokens = PeerTokens(self._vault)
                self._http = PeerHttp(self._gateway.limits, self._vault)
            return self._http

    async def own_url(self, peer: KeptPeer) -> OwnUrl:
        """Return where a peer reaches this gateway; an empty URL if nowhere."""
        return await self._own_url(peer.base_url)

    def refused_by(self, peer: KeptPeer, error: SuzentError) -> None:
        """Take note that a peer did not accept our token, where that is what ``error`` says."""
        current = self._peers.get(peer.peer_id)
        if error.code == "peer_revoked" and current is not None and current.base_url == peer.base_url:
            self._statuses.note(current, "revoked")

    # -- asking for control

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
        await self._loaded.wait()
        http = await self.http()
        from ..peers.address import PeerAddress, socket_of
        from ..peers.remote import RemoteGateway

        account, limits = principal.account, self._gateway.limits
        known = self._find(account, wanted.base_url)
        device = None if known else self._inbound_device(account, wanted.base_url)
        if known is not None:
            address = PeerAddress(known.base_url)
        else:
            address = _address(device.callback_url if device and device.callback_url else wanted.base_url)
        name = clean_text(wanted.name or "", _NAME_CHARS) or (device.display_name if device else "")
        async with self._lock(account, address.base_url):
            for waiting in self._requests.open(account):
                if waiting.base_url == address.base_url:
                    return waiting.info()
            own = self._gateway.identity
            if address.gateway_id == own or await self._own_address.is_meant(socket_of(address.base_url)):
                raise SuzentError("own_gateway", f"{address.base_url} is this gateway itself.")
            remote = RemoteGateway(http, limits, address.base_url, pin=address.pin)
            here = await self._own_url(address.base_url)
            asked = await remote.request_control(self._gateway.settings.display_name, here.url, own)
            waiting = Waiting(
                principal, address.base_url, name, asked.request_id,
                RemoteGateway(http, limits, address.base_url),
                code=asked.code, expires_at=asked.expires_at,
            )  # fmt: skip
            self._requests.add(waiting)
            self._audit(principal, "peer.control", name or address.base_url, {"base_url": address.base_url})
            return waiting.info()

    async def control_status(self, principal: Principal, request_id: str, base_url: str, name: str) -> ControlResponse:
        """Tell how a request stands; ``expired`` for one that is not known, as after a restart."""
        waiting = self._requests.find(principal.account, request_id)
        if waiting is None:
            return ControlResponse(status="expired", request_id=request_id, base_url=base_url or None)
        if name and not waiting.name:
            waiting.name = clean_text(name, _NAME_CHARS)
        try:
            await self._requests.look(waiting)
        except SuzentError as error:
            if error.code in ("store_unreadable", "store_failed"):
                raise
            log.debug("%s was not asked about our request: %s", waiting.base_url, error.message)
        return waiting.info()

    async def _take(self, waiting: Waiting, decision: Decision) -> KeptPeer:
        assert decision.token is not None
        return await self._adopt(
            waiting.principal, waiting.base_url, waiting.name, decision.node_identity, decision.token, "peer.add"
        )

    async def _adopt(
        self, principal: Principal, base_url: str, name: str, identity: str, token: str, action: str
    ) -> KeptPeer:
        """Keep a peer that gave us a token: in the place of the one it was before, or as a new one."""
        account = principal.account
        former = await self._former(account, base_url, identity)
        async with self._changing:
            former = self._peers.get(former.peer_id) if former is not None else None
            shown = name or clean_text(urlsplit(base_url).netloc, _NAME_CHARS)
            if former is None:
                peer = KeptPeer(account, shown, base_url, node_identity=identity)
            else:
                identity = identity or former.node_identity
                peer = replace(former, base_url=base_url, node_identity=identity, own_device_id="", revoked=False)
            await self._tokens.set(peer.peer_id, token)
            row = Row(account, principal.actor, action, node=peer.name)
            row.detail = {"peer_id": peer.peer_id, "base_url": base_url, "node_identity": identity}
            try:
                await self._kept.put(peer, [row])
            except BaseException:
                if former is None:
                    await self._tokens.forget(peer.peer_id)
                raise
            self._statuses.forget(peer.peer_id)
            self._peers[peer.peer_id] = peer
            for other in self._of(account):
                if other.peer_id != peer.peer_id and other.base_url == base_url:
                    await self._forget(other, principal, {"replaced_by": peer.peer_id})
        self._tell("added" if former is None else "changed", peer)
        self._in_background(self._statuses.refresh([peer], force=True))
        return peer

    async def _former(self, account: str, base_url: str, identity: str) -> KeptPeer | None:
        """Return the peer that a gateway was before: of its identity, else of its address, never of its name."""
        peers = self._of(account)
        for peer in peers:
            if identity and peer.node_identity == identity:
                if peer.base_url == base_url:
                    return peer
                # An identity is only claimed. Where the old address still honours our token, it is another's.
                if (await self._standing(peer)).status != "ready":
                    return peer
        return next((peer for peer in peers if peer.base_url == base_url), None)

    # -- looking

    def listing(self, principal: Principal) -> list[PeerInfo]:
        """Return the peers of the caller's account with what is known of them, both directions side by side."""
        account = principal.account
        inbound = [device for device in self._gateway.devices if is_grant(device, account)]
        listed = []
        for peer in self._of(account):
            theirs = [device for device in inbound if is_of(device, peer)]
            inbound = [device for device in inbound if device not in theirs]
            listed.append(peer_info(peer, theirs, self._statuses.of(peer.peer_id)))
        return listed + [inbound_info(device) for device in inbound]

    async def look(self, principal: Principal, *, refresh: bool) -> PeerListResponse:
        """Return the same, after asking those peers whose status is old; ``refresh``: all of them."""
        await self._loaded.wait()
        await self._statuses.refresh(self._of(principal.account), force=refresh)
        listed = self.listing(principal)
        waiting = [each.info() for each in self._requests.open(principal.account)]
        return PeerListResponse(peers=listed, count=len(listed), requests=waiting)

    async def capabilities(self, principal: Principal, reference: str) -> list[PeerCapability]:
        """Return what a peer's nodes can do, asked now."""
        peer = await self.peer(principal, reference)
        with self._noticing(peer):
            return await (await self._remote(peer)).capabilities()

    # -- driving

    async def invoke(self, principal: Principal, reference: str, wanted: PeerInvokeRequest) -> dict[str, Any]:
        """Call a command of one of a peer's nodes, and return its answer with file references led through here."""
        limits = self._gateway.limits
        seconds = read_timeout(wanted.timeout, limits.invoke_timeout, limits.invoke_timeout_max)
        command = wanted.command.strip()
        if not command:
            raise SuzentError("invalid_request", "`command` is missing.")
        peer = await self.driven(principal, reference)
        body: dict[str, Any] = {"command": command, "params": wanted.params, "timeout": seconds}
        if wanted.node:
            body["node"] = wanted.node
        begun, outcome = asyncio.get_running_loop().time(), "failed"
        try:
            with self._noticing(peer):
                answer = await (await self._remote(peer)).invoke(peer.name, body, seconds, _MARGIN)
            outcome = "ok" if answer.get("success") is True else "failed"
        except SuzentError as error:
            outcome = error.code
            raise
        finally:
            row = Row(principal.account, principal.actor, "peer.invoke", node=peer.name, outcome=outcome)
            row.command = clean_text(command, 128)
            row.duration_ms = (asyncio.get_running_loop().time() - begun) * 1000
            self._gateway.audit.record(row)
        from ..peers.references import with_local_urls

        failure = answer.get("error")
        return {
            "success": answer.get("success") is True,
            "result": await asyncio.to_thread(with_local_urls, answer.get("result"), peer.peer_id),
            "error": clean_text(failure, 2000) or None if failure is not None else None,
        }

    async def set_mode(self, principal: Principal, reference: str, mode: PeerMode) -> str:
        """Drive a peer, pause that, or switch it off; returns the mode in force."""
        peer = await self.peer(principal, reference)
        if peer.mode != mode:
            await self._alter(peer, principal.actor, "peer.mode", {"mode": mode}, mode=mode)
        return mode

    # -- letting them drive us

    async def set_reverse(self, principal: Principal, reference: str, *, enabled: bool) -> None:
        """Give a peer control of this gateway, or take back what was given.

        Raises
        ------
        SuzentError
            As the peer answers; then nothing was granted.
        """
        peer = await self.peer(principal, reference)
        async with self._lock(peer.account, peer.peer_id):
            peer = await self.peer(principal, peer.peer_id)
            given = self._gateway.devices.by_id(peer.reverse_device_id) if peer.reverse_device_id else None
            if enabled and given is None:
                await self._give(principal, peer)
            elif not enabled and given is not None:
                await self._alter(peer, principal.actor, "peer.reverse", {"enabled": False}, reverse_device_id="")
                await self._gateway.revoke(principal, given.device_id)

    async def _give(self, principal: Principal, peer: KeptPeer) -> None:
        here = await self._own_url(peer.base_url)
        if not here.url:
            raise SuzentError(
                "invalid_request",
                f"This gateway has no address at which {peer.name} could reach it.",
                hint="Set `node_lan_bind` to true and restart the server.",
            )
        remote = await self._remote(peer)
        device = Device(
            "", b"", peer.name, platform="peer", scope="agent", account=peer.account, org=principal.org,
            node_identity=peer.node_identity, callback_url=peer.base_url,
        )  # fmt: skip
        row = Row(principal.account, principal.actor, "grant.give", node=peer.name, detail={"base_url": peer.base_url})
        device, token = await self._gateway.issue_grant(device, row)
        try:
            with self._noticing(peer):
                await remote.offer(self._gateway.settings.display_name, here.url, token, here.pin)
            await self._alter(
                peer, principal.actor, "peer.reverse", {"enabled": True}, reverse_device_id=device.device_id
            )
        except BaseException:
            with contextlib.suppress(SuzentError):
                await self._gateway.revoke(principal, device.device_id)
            raise

    async def take_offer(self, principal: Principal, offer: PeerOffer, host: str) -> None:
        """Take control that a gateway which drives us gives us in return.

        Parameters
        ----------
        principal : Principal
            The holder of a grant.
        host : str
            Where the request came from; ``""`` if a proxy stands between.

        Raises
        ------
        SuzentError
            ``address_refused`` unless the address leads to that host, or to the one the operator approved.
        """
        device = self._gateway.devices.by_id(principal.credential_id)
        if device is None or device.scope != "agent":
            raise SuzentError("forbidden", "Only a gateway that holds a grant may offer one.")
        await self._loaded.wait()
        await self.http()
        from ..peers.callback import check_callback
        from ..peers.tokens import checked_token
        from ..protocol.pin import is_pin

        approved = urlsplit(device.callback_url).hostname or ""
        base_url = _address(check_callback(offer.base_url, filter(None, (host, approved)))).base_url
        token = checked_token(offer.token)
        if token is None:
            raise SuzentError("invalid_request", "`token`: this can't be sent in a header.")
        if offer.pin and not (is_pin(offer.pin) and base_url.startswith("https:")):
            raise SuzentError("invalid_request", "`pin` is none, or goes with no https:// address.")
        name = clean_text(offer.name, _NAME_CHARS) or device.display_name
        peer = await self._adopt(principal, base_url, name, device.node_identity, token, "peer.offered")
        if offer.pin:
            await (await self._remote(peer, pin=offer.pin)).standing()  # proves the key, which is kept then

    # -- severing

    async def remove(self, principal: Principal, reference: str) -> str:
        """Sever both directions; returns whose. It works while the peer is offline, and tells it afterwards."""
        await self._loaded.wait()
        account = principal.account
        peer = self._find(account, reference)
        if peer is None:
            device = self._inbound_device(account, reference)
            if device is None:
                await self.peer(principal, reference)  # says which there are
                raise AssertionError
            name, theirs = (
                device.display_name,
                [each for each in self._gateway.devices if is_grant(each, account) and is_same_holder(each, device)],
            )
        else:
            name = peer.name
            theirs = [each for each in self._gateway.devices if is_grant(each, account) and is_near(each, peer)]
        for each in theirs:
            if self._gateway.devices.by_id(each.device_id) is not None:
                await self._gateway.revoke(principal, each.device_id)
        if peer is not None:
            async with self._changing:
                if self._peers.get(peer.peer_id) is not None:
                    await self._forget(self._peers[peer.peer_id], principal, {"revoked": [e.device_id for e in theirs]})
        return name

    async def _forget(self, peer: KeptPeer, principal: Principal, detail: dict[str, Any]) -> None:
        row = Row(peer.account, principal.actor, "peer.remove", node=peer.name)
        row.detail = {"peer_id": peer.peer_id, "base_url": peer.base_url, **detail}
        await self._kept.remove(peer, [row])
        self._peers.pop(peer.peer_id, None)
        self._statuses.forget(peer.peer_id)
        self._tell("removed", peer)
        await self.http()
        await self._tokens.forget(peer.peer_id)

    # -- hints and proofs

    def hear(self, base_url: str, host: str) -> None:
        """Take a hint that a grant we hold has changed; ``host`` is where it came from, ``""`` if unknown."""
        self._hints.heard(clean_text(base_url, 2048), host)

    async def prove(self, wanted: ProofRequest) -> str:
        """Return the proof that this gateway issued a grant, and is reached at that address.

        What is no grant of ours, or no address, is answered in the same way; the proof is none then.
        """
        import secrets

        device = self._gateway.devices.by_id(wanted.device_id)
        digest = device.digest if device is not None and device.scope == "agent" else secrets.token_bytes(32)
        if not await self._is_own(wanted.base_url):
            digest = secrets.token_bytes(32)
        return grant_proof(digest, wanted.nonce, wanted.base_url)

    async def _is_own(self, base_url: str) -> bool:
        await self.http()
        from ..peers.address import socket_of
        from ..peers.callback import normal_host

        try:
            host = normal_host(urlsplit(base_url).hostname or "")
            socket_url = socket_of(_address(base_url).base_url)
        except (ValueError, SuzentError):
            return False
        # Names are not looked up for strangers.
        literal = host == "localhost" or ":" in host or host.replace(".", "").isdigit()
        return literal and await self._own_address.is_meant(socket_url)

    async def _look_again(self, named: dict[str, str]) -> None:
        await self._loaded.wait()
        if not self._peers:
            return
        await self._statuses.refresh(list(self._peers.values()), force=True)
        await self.http()
        from ..peers.callback import check_callback

        for address, host in named.items():
            try:
                base_url = _address(check_callback(address, [host])).base_url
            except SuzentError as error:
                log.debug("A peer's new address is not looked at: %s", error.message)
                continue
            for peer in list(self._peers.values()):
                seen = self._statuses.of(peer.peer_id)
                if peer.base_url != base_url and seen is not None and seen.status == "offline":
                    await self._follow(peer, base_url, [host])

    async def _follow(self, peer: KeptPeer, base_url: str, hosts: list[str]) -> bool:
        """Move a peer to an address where it proves to be; tells whether it did."""
        token = await self._tokens.get(peer.peer_id)
        if token is None or not peer.own_device_id:
            return False
        from ..gateway.tokens import token_digest

        pin = await self._pin_of(peer.base_url) if base_url.startswith("https:") else None
        from ..peers.remote import RemoteGateway

        remote = RemoteGateway(await self.http(), self._gateway.limits, base_url, pin=pin, only_hosts=hosts)
        if not await remote.proves(peer.own_device_id, token_digest(token)):
            return False
        current = self._peers.get(peer.peer_id)
        if current is None or current.base_url != peer.base_url:
            return False
        log.info("The peer '%s' is reached at %s now.", peer.name, base_url)
        moved = await self._alter(peer, "gateway", "peer.moved", {"base_url": base_url}, base_url=base_url)
        if moved is not None:
            self._statuses.forget(peer.peer_id)
            await self._statuses.refresh([moved], force=True)
        return True

    async def _pin_of(self, base_url: str) -> str | None:
        from ..node import VaultError
        from ..node.pin import origin

        try:
            return await asyncio.to_thread(self._vault.get, f"pin:{origin(base_url)}")
        except VaultError:
            return None

    # -- what happens by itself

    async def _begin(self) -> None:
        try:
            for peer in await self._kept.load():
                self._peers[peer.peer_id] = peer
        except SuzentError as error:
            if error.code not in ("store_unreadable", "stopping"):  # which have been reported
                log.warning("The peers can't be read: %s", error.message)
        except Exception:
            log.exception("The peers can't be read")
        finally:
            self._loaded.set()
        holders = [
            device
            for device in self._gateway.devices
            if device.scope == "agent" and device.callback_url and device.status == "active" and not device.expired
        ]
        slots = asyncio.Semaphore(_ANNOUNCED_AT_ONCE)

        async def tell(device: Device) -> None:
            async with slots:
                await self._say_changed(device, moved=True)

        await asyncio.gather(*(tell(device) for device in holders))

    def _departed(self, device: Device, how: Literal["revoked", "paused"]) -> None:
        if device.scope != "agent":
            return
        for peer in self._of(device.account):
            if how == "revoked" and peer.reverse_device_id == device.device_id:
                self._in_background(self._clear_reverse(peer))
            if is_of(device, peer):
                self._tell("changed", peer)
        if how == "revoked" and device.callback_url:
            self._in_background(self._say_changed(device))

    async def _clear_reverse(self, peer: KeptPeer) -> None:
        with contextlib.suppress(SuzentError):
            await self._alter(peer, "gateway", "peer.reverse", {"enabled": False}, reverse_device_id="")

    async def _say_changed(self, device: Device, *, moved: bool = False) -> None:
        """Tell the holder of a grant to look again; ``moved``: and where we are now."""
        try:
            http = await self.http()
            from ..peers.remote import RemoteGateway

            here = await self._own_url(device.callback_url)
            if moved and not here.url:
                return
            # The operator was shown the address when approving. Nothing but its own host is called.
            host = urlsplit(device.callback_url).hostname or ""
            remote = RemoteGateway(http, self._gateway.limits, device.callback_url, only_hosts=[host])
            await remote.say_changed(here.url)
        except SuzentError as error:
            log.debug("The holder of a grant was not told: %s", error.message)
        except Exception as error:
            log.debug("The holder of a grant was not told: %s", type(error).__name__)

    async def _probe(self, peer: KeptPeer) -> Status:
        standing = await self._standing(peer)
        if standing.status == "ready" and standing.device_id != peer.own_device_id:
            with contextlib.suppress(SuzentError):
                await self._alter(peer, "gateway", "peer.known", {}, own_device_id=standing.device_id)
        if standing.status == "offline":
            self._in_background(self._find_again(peer))
        return standing.status

    async def _standing(self, peer: KeptPeer) -> Standing:
        http = await self.http()
        from ..peers.remote import RemoteGateway, Standing

        token = await self._tokens.get(peer.peer_id)
        if token is None:
            return Standing("revoked")
        return await RemoteGateway(http, self._gateway.limits, peer.base_url, token).standing()

    async def _find_again(self, peer: KeptPeer) -> None:
        """Look for a peer where it said that it is told of a revoke, which it may have said later."""
        named = {
            device.callback_url.rstrip("/")
            for device in self._gateway.devices
            if is_grant(device, peer.account) and is_of(device, peer) and device.callback_url
        }
        for base_url in named - {peer.base_url}:
            if await self._follow(peer, base_url, [urlsplit(base_url).hostname or ""]):
                return

    def _seen(self, peer: KeptPeer, status: Status) -> None:
        current = self._peers.get(peer.peer_id)
        if current is None:
            return
        revoked = status == "revoked"
        if status != "offline" and current.revoked != revoked:
            self._in_background(self._note_revoked(current, revoked))
        self._tell("changed", current)

    async def _note_revoked(self, peer: KeptPeer, revoked: bool) -> None:
        if revoked:
            log.info("The peer '%s' does not accept our token any more.", peer.name)
        with contextlib.suppress(SuzentError):
            action = "peer.revoked" if revoked else "peer.accepted"
            await self._alter(peer, "gateway", action, {}, revoked=revoked)

    # -- helpers

    def _of(self, account: str) -> list[KeptPeer]:
        return [peer for peer in self._peers.values() if peer.account == account]

    def _find(self, account: str, reference: str) -> KeptPeer | None:
        peers = self._of(account)
        wanted = reference.strip()
        folded = wanted.casefold()
        for matching in (
            [peer for peer in peers if peer.peer_id == wanted],
            [peer for peer in peers if peer.name.casefold() == folded],
            [peer for peer in peers if peer.base_url == wanted.rstrip("/")],
            [peer for peer in peers if len(wanted) >= _SHORTEST_PREFIX and peer.peer_id.startswith(wanted)],
        ):
            if len(matching) == 1:
                return matching[0]
            if matching:
                ids = [peer.peer_id for peer in matching]
                raise SuzentError(
                    "peer_unknown", f"Several peers are called {_shown(reference)}: {', '.join(ids)}.",
                    hint="Use the id.", details={"ids": ids},
                )  # fmt: skip
        return None

    def _inbound_device(self, account: str, reference: str) -> Device | None:
        devices = [device for device in self._gateway.devices if is_grant(device, account)]
        wanted, folded = reference.strip(), reference.strip().casefold()
        for matching in (
            [device for device in devices if device.device_id == wanted],
            [device for device in devices if device.display_name.casefold() == folded],
        ):
            if len(matching) == 1:
                return matching[0]
        return None

    async def _remote(self, peer: KeptPeer, *, pin: str | None = None) -> RemoteGateway:
        http = await self.http()
        from ..peers.remote import RemoteGateway

        return RemoteGateway(http, self._gateway.limits, peer.base_url, await self.token(peer), pin=pin)

    async def _alter(
        self, peer: KeptPeer, actor: str, action: str, detail: dict[str, Any], **changes: Any
    ) -> KeptPeer | None:
        """Change what is kept of a peer; None if it is gone meanwhile."""
        async with self._changing:
            current = self._peers.get(peer.peer_id)
            if current is None:
                return None
            changed = replace(current, **changes)
            if changed == current:
                return current
            row = Row(peer.account, actor, action, node=peer.name, detail={"peer_id": peer.peer_id, **detail})
            await self._kept.put(changed, [row])
            self._peers[peer.peer_id] = changed
        self._tell("changed", changed)
        return changed

    @contextlib.contextmanager
    def _noticing(self, peer: KeptPeer) -> Any:
        try:
            yield
        except SuzentError as error:
            self.refused_by(peer, error)
            raise

    def _tell(self, kind: str, peer: KeptPeer) -> None:
        def item() -> dict[str, Any]:
            theirs = [each for each in self._gateway.devices if is_grant(each, peer.account) and is_of(each, peer)]
            return peer_info(peer, theirs, self._statuses.of(peer.peer_id)).model_dump()

        self._gateway.changes.publish("peers", kind, item, lambda principal: principal.account == peer.account)

    def _audit(self, principal: Principal, action: str, name: str, detail: dict[str, Any]) -> None:
        self._gateway.audit.record(Row(principal.account, principal.actor, action, node=name, detail=detail))

    def _lock(self, account: str, key: str) -> asyncio.Lock:
        return self._locks.setdefault((account, key), asyncio.Lock())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Something about peers failed in the background", exc_info=error)


def _address(text: str) -> PeerAddress:
    from ..peers.address import peer_address

    try:
        return peer_address(text)
    except ValueError as error:
        raise SuzentError("invalid_request", str(error)) from None


def _shown(reference: str) -> str:
    return f"'{clean_text(reference, 64)}'"
