"""Control in return: given to a peer that we drive, and taken from one that drives us."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...gateway.audit import Row
from ...gateway.devices import Device
from ...gateway.peers import KeptPeer
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from .book import NAME_CHARS, OFFERED, PeerBook
from .places import base_address, is_same_host, looks_like_address
from .view import is_grant

if TYPE_CHECKING:
    from ...gateway import Principal
    from ...protocol.peers import PeerOffer


class Reverse:
    """The other direction of a link.

    Parameters
    ----------
    book : PeerBook
        The peers.
    """

    def __init__(self, book: PeerBook) -> None:
        self._book = book
        self._gateway = book.gateway

    async def set_reverse(self, principal: Principal, reference: str, *, enabled: bool) -> None:
        """Give a peer control of this gateway, or take back what was given.

        Raises
        ------
        SuzentError
            As the peer answers; then nothing was granted.
        """
        peer = await self._book.peer(principal, reference)
        async with self._book.lock(peer.account, peer.peer_id):
            peer = await self._book.peer(principal, peer.peer_id)
            given = self._gateway.devices.by_id(peer.reverse_device_id) if peer.reverse_device_id else None
            if enabled and given is None:
                await self._give(principal, peer)
            elif not enabled and given is not None:
                await self._book.alter(peer, principal.actor, "peer.reverse", {"enabled": False}, reverse_device_id="")
                await self._gateway.credentials.revoke(principal, given.device_id)

    async def _give(self, principal: Principal, peer: KeptPeer) -> None:
        here = await self._book.own_url_of(peer.base_url)
        if not here.url:
            raise SuzentError(
                "invalid_request",
                f"This gateway has no address at which {peer.name} could reach it.",
                hint="Set `node_lan_bind` to true and restart the server.",
            )
        remote = await self._book.remote(peer)
        device = Device(
            "", b"", peer.name, platform="peer", scope="agent", account=peer.account, org=principal.org,
            node_identity="" if self._is_anothers(peer) else peer.node_identity, callback_url=peer.base_url,
        )  # fmt: skip
        row = Row(principal.account, principal.actor, "grant.give", node=peer.name, detail={"base_url": peer.base_url})
        # What the peer holds already ends only when it has taken the new one.
        device, token = await self._gateway.credentials.issue_grant(device, row, replaces=False)
        try:
            with self._book.noticing(peer):
                taken = await remote.offer(self._gateway.settings.display_name, here.url, token, here.pin)
            held = device if taken else self._held_already(device)
            await self._book.alter(
                peer, principal.actor, "peer.reverse", {"enabled": True}, reverse_device_id=held.device_id
            )
        except BaseException:
            with contextlib.suppress(SuzentError):
                await self._gateway.credentials.revoke(principal, device.device_id)
            raise
        for other in self._of_same_holder(device):
            if other is not held:
                await self._gateway.credentials.revoke(principal, other.device_id)

    def _of_same_holder(self, device: Device) -> list[Device]:
        return [
            each
            for each in self._gateway.devices
            if each.account == device.account and each.is_held_by(device.node_identity, device.callback_url)
        ]

    def _held_already(self, device: Device) -> Device:
        """Return the grant that the peer says it holds and keeps."""
        for each in self._of_same_holder(device):
            if each is not device and each.speaks:
                return each
        raise SuzentError("bad_peer_answer", f"{device.display_name} says it holds a grant, but there is none.")

    def _is_anothers(self, peer: KeptPeer) -> bool:
        """Tell whether the identity a peer claims is that of a holder elsewhere, whose grant must not end for it."""
        return any(
            is_grant(each, peer.account)
            and each.node_identity == peer.node_identity
            and bool(each.callback_url)
            and not is_same_host(each.callback_url, peer.base_url)
            for each in self._gateway.devices
        )

    async def take_offer(self, principal: Principal, offer: PeerOffer, host: str) -> bool:
        """Take control that a gateway which drives us gives us in return; False where what is held already is kept.

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
        await self._book.loaded.wait()
        await self._book.http()
        from ...peers.callback import check_callback
        from ...peers.tokens import checked_token
        from ...protocol.pin import is_pin

        approved = urlsplit(device.callback_url).hostname or ""
        base_url = base_address(check_callback(offer.base_url, filter(None, (host, approved)))).base_url
        token = checked_token(offer.token)
        if token is None:
            raise SuzentError("invalid_request", "`token`: this can't be sent in a header.")
        if offer.pin and not (is_pin(offer.pin) and base_url.startswith("https:")):
            raise SuzentError("invalid_request", "`pin` is none, or goes with no https:// address.")
        async with self._book.lock(device.account, "offers"):
            peer = await self._adopt(principal, device, offer, base_url, token)
        if offer.pin and peer is not None:
            await (await self._book.remote(peer, pin=offer.pin)).standing()  # proves the key, which is kept then
        return peer is not None

    async def _adopt(
        self, principal: Principal, device: Device, offer: PeerOffer, base_url: str, token: str
    ) -> KeptPeer | None:
        """Keep what is offered; None where a peer of ours stands there whose grant holds.

        Nothing the holder says may touch a link that works: neither another's, nor the name of one.
        """
        mine = self._book.of(principal.account)
        identity = device.node_identity
        former = next((peer for peer in mine if peer.base_url == base_url), None)
        if former is None and identity:
            of_identity = [peer for peer in mine if peer.node_identity == identity]
            former = next((peer for peer in of_identity if is_same_host(peer.base_url, base_url)), None)
        if former is not None:
            standing = await self._book.standing(former)
            if standing.status == "ready" and former.base_url == base_url:
                return None
            if standing.status == "ready" or (former.base_url == base_url and standing.status == "offline"):
                raise SuzentError("address_refused", f"{former.name} is a peer already, and its grant may still hold.")
        elif len(mine) >= self._gateway.limits.offered_peers:
            raise SuzentError("too_many_requests", "This gateway has so many peers that it takes no more offers.")
        name = clean_text(offer.name, NAME_CHARS) or device.display_name
        taken = {peer.name.casefold() for peer in mine} | {peer.peer_id for peer in mine}
        if name.casefold() in taken or looks_like_address(name):
            name = ""  # its address then
        return await self._book.put(principal, former, base_url, name, identity, token, OFFERED)
