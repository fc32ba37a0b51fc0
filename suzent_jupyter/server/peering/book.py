"""What is kept and known of peers, and the one place where that changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from ...gateway.audit import Row
from ...gateway.devices import Device
from ...gateway.peers import KeptPeer, KeptPeers
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ..background import Background
from .flips import Flips
from .lookup import find_grant, find_peer, shown
from .places import is_same_host
from .reached_at import OwnUrl
from .status import PeerStatuses, Status
from .view import is_grant, is_of, peer_info

if TYPE_CHECKING:
    from ...gateway import Gateway, Principal
    from ...node import TokenVault
    from ...peers.http import PeerHttp
    from ...peers.remote import RemoteGateway, Standing
    from ...peers.tokens import PeerTokens

log = logging.getLogger("suzent_jupyter")

NAME_CHARS = 64
OFFERED = "peer.offered"
_WORD = re.compile(r"\w[\w.-]*")
_STOP_SECONDS = 1.5
_ASKED_FOR_PROOF = 32  # peers, when a gateway is asked for control
_MODULES = ("suzent_jupyter.node", "suzent_jupyter.peers.remote", "suzent_jupyter.peers.references")


class PeerBook:
    """The peers of all accounts, their tokens and how they are; and the client that calls them.

    Parameters
    ----------
    gateway : Gateway
        The hub.
    own_url : callable
        Returns where the peer at a URL reaches this gateway.
    """

    def __init__(self, gateway: Gateway, own_url: Callable[[str], Awaitable[OwnUrl]]) -> None:
        self.gateway = gateway
        #: Looks for a peer that does not answer.
        self.away: Callable[[KeptPeer], Coroutine[Any, Any, None]] | None = None
        self.all: dict[str, KeptPeer] = {}
        #: Set when the kept peers are known.
        self.loaded = asyncio.Event()
        self.changing = asyncio.Lock()
        self.statuses = PeerStatuses(gateway.limits.peer_status_ttl, self._probe, self._seen)
        self.vault: TokenVault
        self.tokens: PeerTokens
        self._own_url = own_url
        self._flips = Flips()
        self._readers: dict[str, set[Callable[[SuzentError], None]]] = {}
        self._background = Background("peers")
        self.in_background = self._background.run
        self._kept = KeptPeers(gateway.store, gateway.audit)
        self._http: PeerHttp | None = None
        self._made = asyncio.Lock()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def load(self) -> None:
        """Read what is kept; what can't be read counts as none."""
        try:
            for peer in await self._kept.load():
                self.all[peer.peer_id] = peer
        except SuzentError as error:
            if error.code not in ("store_unreadable", "stopping"):  # which have been reported
                log.warning("The peers can't be read: %s", error.message)
        except Exception:
            log.exception("The peers can't be read")
        finally:
            self.loaded.set()

    async def stop(self) -> None:
        """Give up what is under way, within 2 s."""
        self.statuses.stop()
        await self._background.stop(_STOP_SECONDS)
        if self._http is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._http.close()

    async def peer(self, principal: Principal, reference: str) -> KeptPeer:
        """Return a peer of the caller's account by id, unique name, address, or unique beginning of the id.

        Raises
        ------
        SuzentError
            ``peer_unknown``.
        """
        await self.loaded.wait()
        found = self.find(principal.account, reference)
        if found is not None:
            return found
        if self.inbound_device(principal.account, reference) is not None:
            raise SuzentError("peer_unknown", f"{shown(reference)} drives this gateway, and is not driven by it.")
        names = ", ".join(peer.name for peer in self.of(principal.account))
        known = f" There are: {names}." if names else ""
        raise SuzentError("peer_unknown", f"There is no peer {shown(reference)}.{known}")

    async def driven(self, principal: Principal, reference: str) -> KeptPeer:
        """Return the same, if it may be driven; ``peer_off`` otherwise."""
        peer = await self.peer(principal, reference)
        if peer.mode != "trigger":
            raise SuzentError(
                "peer_off",
                f"{peer.name} is {'paused' if peer.mode == 'paused' else 'switched off'}.",
                hint=f"`%suzent mode {self._word(peer)} trigger` lets you drive it again.",
            )
        return peer

    async def token(self, peer: KeptPeer) -> str:
        """Return the token a peer gave us; ``peer_revoked`` where there is none that can be read."""
        await self.http()
        token = await self.tokens.get(peer.peer_id)
        if token is None:
            raise SuzentError("peer_revoked", f"There is no token for {peer.name} that could be read.")
        return token

    async def http(self) -> PeerHttp:
        """Return the client that calls peers; what it needs is loaded off the event loop when it is first used."""
        async with self._made:
            if self._http is None:
                for module in _MODULES:
                    await asyncio.to_thread(import_module, module)
                from ...node import TokenVault
                from ...peers.http import PeerHttp
                from ...peers.tokens import PeerTokens

                self.vault = TokenVault(self.gateway.store.path.parent)
                self.tokens = PeerTokens(self.vault)
                self._http = PeerHttp(self.gateway.limits, self.vault)
            return self._http

    async def own_url_of(self, peer_url: str) -> OwnUrl:
        """Return where the peer at a URL reaches this gateway; an empty URL if nowhere."""
        return await self._own_url(peer_url)

    async def adopt(
        self,
        principal: Principal,
        base_url: str,
        name: str,
        identity: str,
        token: str,
        action: str,
        proven: Collection[str] = (),
    ) -> KeptPeer:
        """Keep a peer that gave us a token: in the place of the one it was before, or as a new one.

        ``proven`` are the ids of peers that the gateway at this address has proved to be.
        """
        former = await self._former(principal.account, base_url, identity, proven)
        return await self.put(principal, former, base_url, name, identity, token, action)

    async def put(
        self,
        principal: Principal,
        former: KeptPeer | None,
        base_url: str,
        name: str,
        identity: str,
        token: str,
        action: str,
    ) -> KeptPeer:
        """Keep a peer in the place of a former one, or as a new one."""
        account = principal.account
        async with self.changing:
            if action == OFFERED and any(
                other.base_url == base_url and (former is None or other.peer_id != former.peer_id)
                for other in self.of(account)
            ):
                raise SuzentError("address_refused", "A peer of that address was added meanwhile.")
            former = self.all.get(former.peer_id) if former is not None else None
            called = name or clean_text(urlsplit(base_url).netloc, NAME_CHARS)
            if former is None:
                peer = KeptPeer(account, called, base_url, node_identity=identity)
            else:
                identity = identity or former.node_identity
                peer = replace(former, base_url=base_url, node_identity=identity, own_device_id="", revoked=False)
            await self.tokens.set(peer.peer_id, token)
            row = Row(account, principal.actor, action, node=peer.name)
            row.detail = {"peer_id": peer.peer_id, "base_url": base_url, "node_identity": identity}
            if former is not None and former.base_url != base_url:
                row.detail["was_at"] = former.base_url
            try:
                await self._kept.put(peer, [row])
            except BaseException:
                if former is None:
                    await self.tokens.forget(peer.peer_id)
                raise
            self.statuses.forget(peer.peer_id)
            self.all[peer.peer_id] = peer
            for other in self.of(account):
                if other.peer_id != peer.peer_id and other.base_url == base_url:
                    await self.forget(other, principal, {"replaced_by": peer.peer_id})
        self.tell("added" if former is None else "changed", peer)
        self.in_background(self.statuses.refresh([peer], force=True))
        return peer

    async def _former(self, account: str, base_url: str, identity: str, proven: Collection[str]) -> KeptPeer | None:
        """Return the peer that a gateway was before: of its identity, else of its address, never of its name.

        An identity is only claimed. At another address it counts for a gateway that has proved to be that peer, or
        is on the same machine; and nowhere while the old address still honours our token.
        """
        peers = self.of(account)
        for peer in peers:
            if identity and peer.node_identity == identity:
                if peer.base_url == base_url:
                    return peer
                likely = peer.peer_id in proven or is_same_host(peer.base_url, base_url)
                if likely and (await self.standing(peer)).status != "ready":
                    return peer
        return next((peer for peer in peers if peer.base_url == base_url), None)

    async def proven_at(self, account: str, base_url: str, pin: str | None) -> frozenset[str]:
        """Return the peers that the gateway at an address proves to be, of those that are elsewhere by what we know."""
        asked = [
            peer
            for peer in self.of(account)
            if peer.own_device_id and peer.base_url != base_url and not is_same_host(peer.base_url, base_url)
        ][:_ASKED_FOR_PROOF]
        if not asked:
            return frozenset()
        http = await self.http()
        from ...gateway.tokens import token_digest
        from ...peers.remote import RemoteGateway

        remote = RemoteGateway(http, self.gateway.limits, base_url, pin=pin)

        async def proves(peer: KeptPeer) -> bool:
            token = await self.tokens.get(peer.peer_id)
            return token is not None and await remote.proves(peer.own_device_id, token_digest(token))

        found = await asyncio.gather(*map(proves, asked))
        return frozenset(peer.peer_id for peer, proved in zip(asked, found, strict=True) if proved)

    async def forget(self, peer: KeptPeer, principal: Principal, detail: dict[str, Any]) -> None:
        """Drop a peer and its token; call it while :attr:`changing` is held."""
        row = Row(peer.account, principal.actor, "peer.remove", node=peer.name)
        row.detail = {"peer_id": peer.peer_id, "base_url": peer.base_url, **detail}
        await self._kept.remove(peer, [row])
        self.all.pop(peer.peer_id, None)
        self._flips.forget(peer.peer_id)
        self.statuses.forget(peer.peer_id)
        for end in list(self._readers.get(peer.peer_id, ())):
            end(_severed(peer))
        self.tell("removed", peer)
        await self.http()
        await self.tokens.forget(peer.peer_id)

    async def _probe(self, peer: KeptPeer) -> Status:
        standing = await self.standing(peer)
        if standing.status == "ready" and not peer.own_device_id:  # it stays, whatever the peer says next
            with contextlib.suppress(SuzentError):
                await self.alter(peer, "gateway", "peer.known", {}, own_device_id=standing.device_id)
        if standing.status == "offline" and self.away is not None:
            self.in_background(self.away(peer))
        return standing.status

    async def standing(self, peer: KeptPeer) -> Standing:
        """Ask a peer whether our token still holds; never fails."""
        http = await self.http()
        from ...peers.remote import RemoteGateway, Standing

        token = await self.tokens.get(peer.peer_id)
        if token is None:
            return Standing("revoked")
        return await RemoteGateway(http, self.gateway.limits, peer.base_url, token).standing()

    def _seen(self, peer: KeptPeer, status: Status) -> None:
        current = self.all.get(peer.peer_id)
        if current is None:
            return
        revoked = status == "revoked"
        if status != "offline" and current.revoked != revoked and self._flips.allows(peer.peer_id):
            self.in_background(self._note_revoked(current, revoked))
        self.tell("changed", current)

    async def _note_revoked(self, peer: KeptPeer, revoked: bool) -> None:
        seen = self.statuses.of(peer.peer_id)
        if seen is None or (seen.status == "revoked") != revoked:
            return  # it has given us another token meanwhile
        if revoked:
            log.info("The peer '%s' does not accept our token any more.", peer.name)
        with contextlib.suppress(SuzentError):
            action = "peer.revoked" if revoked else "peer.accepted"
            await self.alter(peer, "gateway", action, {}, revoked=revoked)

    def of(self, account: str) -> list[KeptPeer]:
        """Return the peers of an account."""
        return [peer for peer in self.all.values() if peer.account == account]

    def find(self, account: str, reference: str) -> KeptPeer | None:
        """Return a peer by what somebody typed; None if it is none, ``peer_unknown`` if it is several."""
        return find_peer(self.of(account), reference)

    def inbound_device(self, account: str, reference: str) -> Device | None:
        """Return the grant of a gateway that may only drive us, by its id or name."""
        return find_grant([device for device in self.gateway.devices if is_grant(device, account)], reference)

    async def remote(self, peer: KeptPeer, *, pin: str | None = None) -> RemoteGateway:
        """Return a peer to be called with its token; fails as :meth:`token`."""
        http = await self.http()
        from ...peers.remote import RemoteGateway

        return RemoteGateway(http, self.gateway.limits, peer.base_url, await self.token(peer), pin=pin)

    async def alter(
        self, peer: KeptPeer, actor: str, action: str, detail: dict[str, Any], **changes: Any
    ) -> KeptPeer | None:
        """Change what is kept of a peer; None if it is gone meanwhile."""
        async with self.changing:
            current = self.all.get(peer.peer_id)
            if current is None:
                return None
            changed = replace(current, **changes)
            if changed == current:
                return current
            row = Row(peer.account, actor, action, node=peer.name, detail={"peer_id": peer.peer_id, **detail})
            await self._kept.put(changed, [row])
            self.all[peer.peer_id] = changed
        self.tell("changed", changed)
        return changed

    def way_back(self, peer: KeptPeer) -> str:
        """Return what to do when a peer took its control back."""
        return f"`%suzent control {self._word(peer)}` asks it for control again."

    def _word(self, peer: KeptPeer) -> str:
        """Return a peer as a word of a command: its name, or its id where that would need quotes or is not its own."""
        own = [other.name.casefold() for other in self.of(peer.account)].count(peer.name.casefold()) == 1
        return peer.name if own and _WORD.fullmatch(peer.name) else peer.peer_id

    @contextlib.contextmanager
    def noticing(self, peer: KeptPeer) -> Iterator[None]:
        """Take note, while a peer is called, that it does not accept our token; the error then names the way back."""
        try:
            yield
        except SuzentError as error:
            current = self.all.get(peer.peer_id)
            if error.code == "peer_revoked" and current is not None:
                error.hint = self.way_back(current)
                if current.base_url == peer.base_url:
                    self.statuses.note(current, "revoked")
            raise

    @contextlib.contextmanager
    def while_kept(self, peer: KeptPeer, end: Callable[[SuzentError], None]) -> Iterator[None]:
        """Call ``end`` with ``revoked`` if a peer is removed while something is read from it."""
        if peer.peer_id not in self.all:
            end(_severed(peer))
        readers = self._readers.setdefault(peer.peer_id, set())
        readers.add(end)
        try:
            yield
        finally:
            readers.discard(end)
            if not readers:
                self._readers.pop(peer.peer_id, None)

    def tell(self, kind: str, peer: KeptPeer) -> None:
        """Tell subscribers of a peer that came, changed or went."""

        def item() -> dict[str, Any]:
            theirs = [each for each in self.gateway.devices if is_grant(each, peer.account) and is_of(each, peer)]
            return peer_info(peer, theirs, self.statuses.of(peer.peer_id)).model_dump()

        self.gateway.changes.publish("peers", kind, item, lambda principal: principal.account == peer.account)

    def lock(self, account: str, key: str) -> asyncio.Lock:
        """Return what keeps two changes of one thing apart."""
        return self._locks.setdefault((account, key), asyncio.Lock())


def _severed(peer: KeptPeer) -> SuzentError:
    message = f"{peer.name} was removed here while it answered; its turn may go on over there."
    return SuzentError("revoked", message, hint="Its operator can stop it.")
