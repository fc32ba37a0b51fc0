"""Every address a device can use, as a URL, a pairing link and a QR code: what is true now, not what is wanted."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..protocol.address import NODE_PATH, in_url
from ..protocol.pairing_link import PairingLink
from .public_url import is_local
from .qr import qr_data_uri

if TYPE_CHECKING:
    from ..discovery import LocalAddress
    from ..protocol.rest import Address
    from .service import GatewayService

log = logging.getLogger("suzent_jupyter")

_KEPT_SECONDS = 5.0  # settings pages ask often; networks change seldom
_THIS_MACHINE = "This machine"


@dataclass(frozen=True, slots=True)
class Bound:
    """What the listener has bound.

    Attributes
    ----------
    port, tls_port : int or None
        Of ``ws://`` and ``wss://``.
    pin : str
        Of the certificate; see :class:`~suzent_jupyter.protocol.pairing_link.PairingLink`.
    for_others : bool
        Whether other machines reach any of them; ``plaintext_for_others``: whether they reach ``port``.
    ipv6 : bool
        Whether they do so over IPv6 too.
    public_first : bool
        Whether the public URL is what most devices can use, as behind a Hub.
    """

    port: int | None
    tls_port: int | None
    pin: str
    for_others: bool
    plaintext_for_others: bool
    public_first: bool
    ipv6: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """One address: the socket's URL, and the URL of the gateway that links are made of."""

    label: str
    kind: str
    host: str
    socket_url: str
    base_url: str
    pin: str = ""


def places(bound: Bound, own: list[LocalAddress], public_url: str) -> list[Place]:
    """Return where devices find the gateway, the best address first.

    Parameters
    ----------
    own : list of LocalAddress
        This machine's addresses, the best first.
    public_url : str
        The Jupyter mount as people reach it, ``""`` if unknown. One on loopback counts only where there is no
        listener.
    """
    listed = [place for address in own if (place := _on_network(bound, address)) is not None]
    if public_url:
        host = urlsplit(public_url).hostname or ""
        local = is_local(public_url)
        label, kind = (_THIS_MACHINE, "local") if local else ("Jupyter server", "public")
        public = Place(label, kind, in_url(host), f"ws{public_url.removeprefix('http')}{NODE_PATH}", public_url)
        if not local:
            listed.insert(0 if bound.public_first else len(listed), public)
        elif bound.port is None:
            listed.append(public)
    if bound.port is not None:
        url = f"127.0.0.1:{bound.port}"
        listed.append(Place(_THIS_MACHINE, "local", "127.0.0.1", f"ws://{url}{NODE_PATH}", f"http://{url}"))
    return listed


def _on_network(bound: Bound, address: LocalAddress) -> Place | None:
    if not bound.for_others:
        return None
    host = in_url(address.host)
    plain = f"{host}:{bound.port}" if bound.port is not None and bound.plaintext_for_others else ""
    secure = f"{host}:{bound.tls_port}" if bound.tls_port is not None else ""
    if not plain and not secure:
        return None
    # Suzent's own nodes know only ws://; a page that may use the camera has to come over https://.
    socket_url = f"ws://{plain}{NODE_PATH}" if plain else f"wss://{secure}{NODE_PATH}"
    base_url = f"https://{secure}" if secure else f"http://{plain}"
    return Place(address.label, address.kind, host, socket_url, base_url, bound.pin if secure else "")


class AddressBook:
    """The addresses of one running gateway; this machine's own are looked up off the event loop and kept 5 s."""

    def __init__(self, service: GatewayService) -> None:
        self._service = service
        self._own: list[LocalAddress] = []
        self._until = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def links(self, public_url: str, ticket: str) -> list[Address]:
        """Return every address with its pairing link, and its QR code where a phone could use it."""
        bound = self._service.host.bound
        own = await self._own_addresses(bound.ipv6) if bound.for_others else []
        return await asyncio.to_thread(
            _addresses, places(bound, own, public_url), ticket, self._service.gateway.identity
        )

    async def _own_addresses(self, ipv6: bool) -> list[LocalAddress]:
        if time.monotonic() >= self._until:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look(ipv6))
            # Another caller may wait for the same task: one that hangs up must not take it along.
            await asyncio.shield(self._looking)
        return self._own

    async def _look(self, ipv6: bool) -> None:
        from ..discovery import reachable_addresses

        try:
            self._own = await reachable_addresses(ipv6=ipv6)
        except Exception:
            log.exception("This machine's addresses can't be read")
            self._own = []
        finally:
            self._until = time.monotonic() + _KEPT_SECONDS
            self._looking = None


def _addresses(listed: list[Place], ticket: str, gateway_id: str) -> list[Address]:
    from ..protocol.rest import Address  # pydantic: not before the server answers

    made = []
    for place in listed:
        link = str(PairingLink(place.base_url, ticket, place.pin, gateway_id))
        made.append(
            Address(
                label=place.label,
                host=place.host,
                gateway_url=place.socket_url,
                kind=place.kind,
                pairing_link=link,
                # A phone that scans 127.0.0.1 would look for the gateway in itself.
                qr=None if place.kind == "local" else qr_data_uri(link),
            )
        )
    return made
