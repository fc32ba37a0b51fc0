"""Grants that change and gateways that move: told to those who hold a grant, and found out by those who hear of it.

Neither side believes the other's word. A hint makes a holder ask for itself, and an address is taken for a peer's only
after what answers there has proved that it issued our token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...gateway.devices import Device
from ...gateway.peers import KeptPeer
from ...protocol.address import is_loopback_host
from ...protocol.errors import SuzentError
from ...protocol.peers import grant_proof
from ...protocol.text import clean_text
from ..auth import is_loopback
from ..own_address import OwnAddress
from .book import PeerBook
from .hints import Hints
from .places import base_address
from .view import is_grant, is_of

if TYPE_CHECKING:
    from ...protocol.peers import ProofRequest

log = logging.getLogger("suzent_jupyter")

_ANNOUNCED_AT_ONCE = 8
_FOLLOWING_BEATS = 2  # times `callback_timeout`: for all addresses that were named meanwhile


class Moves:
    """What is said and heard of changes.

    Parameters
    ----------
    book : PeerBook
        The peers.
    own_address : OwnAddress
        Where this gateway is reached.
    """

    def __init__(self, book: PeerBook, own_address: OwnAddress) -> None:
        self._book = book
        self._gateway = book.gateway
        self._own_address = own_address
        self._hints = Hints(self._look_again, book.in_background)

    async def announce(self) -> None:
        """Tell those who drive us where we are reached now. Not those whose grant is paused: they would drop it."""
        holders = [
            device
            for device in self._gateway.devices
            if device.scope == "agent" and device.callback_url and device.speaks
        ]
        slots = asyncio.Semaphore(_ANNOUNCED_AT_ONCE)

        async def tell(device: Device) -> None:
            async with slots:
                await self.say_changed(device, moved=True)

        await asyncio.gather(*(tell(device) for device in holders))

    def hear(self, base_url: str, host: str) -> None:
        """Take a hint that a grant we hold has changed; ``host`` is where it came from, ``""`` if unknown."""
        self._hints.heard(clean_text(base_url, 2048), host)

    async def prove(self, wanted: ProofRequest, host: str) -> str:
        """Return the proof that this gateway issued a grant, and is reached at that address.

        Loopback is an address of ours on this machine alone: on the machine of a holder it is somebody else's, who
        could pass the question on to us. ``host`` is where it came from, ``""`` if unknown.

        What is no grant of ours, or no address, is answered in the same way; the proof is none then.
        """
        device = self._gateway.devices.by_id(wanted.device_id)
        digest = device.digest if device is not None and device.scope == "agent" else secrets.token_bytes(32)
        if not await self._is_own(wanted.base_url, host):
            digest = secrets.token_bytes(32)
        return grant_proof(digest, wanted.nonce, wanted.base_url)

    async def _is_own(self, base_url: str, asked_from: str) -> bool:
        await self._book.http()
        from ...peers.address import socket_of
        from ...peers.callback import normal_host

        try:
            host = normal_host(urlsplit(base_url).hostname or "")
            socket_url = socket_of(base_address(base_url).base_url)
        except (ValueError, SuzentError):
            return False
        if is_loopback_host(host) and not (asked_from and is_loopback(asked_from)):
            return False
        # Names are not looked up for strangers.
        literal = host == "localhost" or ":" in host or host.replace(".", "").isdigit()
        return literal and await self._own_address.is_meant(socket_url)

    async def _look_again(self, named: dict[str, str]) -> None:
        await self._book.loaded.wait()
        if not self._book.all:
            return
        await self._book.statuses.refresh(list(self._book.all.values()), force=True)
        await self._book.http()
        from ...peers.callback import check_callback

        async def try_at(address: str, host: str) -> None:
            try:
                base_url = base_address(check_callback(address, [host])).base_url
            except SuzentError as error:
                log.debug("A peer's new address is not looked at: %s", error.message)
                return
            for peer in list(self._book.all.values()):
                seen = self._book.statuses.of(peer.peer_id)
                if peer.base_url != base_url and seen is not None and seen.status == "offline":
                    await self._follow(peer, base_url, [host])

        # Whoever names addresses that never answer must not hold up the next look, which may be of a real change.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FOLLOWING_BEATS * self._gateway.limits.callback_timeout):
                await asyncio.gather(*(try_at(address, host) for address, host in named.items()))

    async def _follow(self, peer: KeptPeer, base_url: str, hosts: list[str]) -> bool:
        """Move a peer to an address where it proves to be; tells whether it did."""
        token = await self._book.tokens.get(peer.peer_id)
        if token is None or not peer.own_device_id:
            return False
        from ...gateway.tokens import token_digest

        pin = await self._pin_of(peer.base_url) if base_url.startswith("https:") else None
        from ...peers.remote import RemoteGateway

        remote = RemoteGateway(await self._book.http(), self._gateway.limits, base_url, pin=pin, only_hosts=hosts)
        if not await remote.proves(peer.own_device_id, token_digest(token)):
            return False
        current = self._book.all.get(peer.peer_id)
        if current is None or current.base_url != peer.base_url:
            return False
        log.info("The peer '%s' is reached at %s now.", peer.name, base_url)
        moved = await self._book.alter(peer, "gateway", "peer.moved", {"base_url": base_url}, base_url=base_url)
        if moved is not None:
            self._book.statuses.forget(peer.peer_id)
            await self._book.statuses.refresh([moved], force=True)
        return True

    async def _pin_of(self, base_url: str) -> str | None:
        from ...node.pin import Trust

        return await asyncio.to_thread(Trust(base_url, vault=self._book.vault).known) or None

    async def say_changed(self, device: Device, *, moved: bool = False) -> None:
        """Tell the holder of a grant to look again; ``moved``: and where we are now."""
        try:
            http = await self._book.http()
            from ...peers.remote import RemoteGateway

            here = await self._book.own_url_of(device.callback_url)
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

    async def find_elsewhere(self, peer: KeptPeer) -> None:
        """Look for a peer where it said that it is told of a revoke, which it may have said later."""
        named = {
            device.callback_url
            for device in self._gateway.devices
            if is_grant(device, peer.account) and is_of(device, peer) and device.callback_url
        }
        for base_url in named - {peer.base_url}:
            if await self._follow(peer, base_url, [urlsplit(base_url).hostname or ""]):
                return
