"""All of discovery for one gateway: being found, and finding others on the LAN and in the tailnet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.address import DEFAULT_PORT, NODE_PATH, in_url
from ..protocol.text import clean_text
from .addresses import local_addresses
from .advertiser import Advertiser
from .browser import Found, browse
from .mdns import Service, within
from .names import stable_tag
from .probe import Prober
from .tailscale import Machine, TailscaleStatus, tailscale_status

if TYPE_CHECKING:
    from ..protocol.rest import DiscoverResponse, LanGateway, TailnetGateway

log = logging.getLogger("suzent_jupyter")

BROWSE_SECONDS = 3.0
BROWSE_SECONDS_MAX = 10.0
_PROBE_SECONDS = 2.0
_SLACK_SECONDS = 3.0
_STOP_SECONDS = 1.0

OFF = "Discovery is switched off; `%suzent config node_discovery_enabled true` switches it on."


class DiscoverySettings(Protocol):
    """What an operator may change; read at each use."""

    node_discovery_enabled: bool
    display_name: str


class Discovery:
    """Advertises one gateway while it listens for other devices, and looks for others on request.

    Parameters
    ----------
    settings : DiscoverySettings
        The gateway's own; call :meth:`refresh` after a change.
    place : str
        What tells this gateway from others on this machine, such as its data directory.
    port, tls_port : int, optional
        Of the listener; None without one.
    lan : bool
        Whether the listener is bound beyond loopback. It is advertised only then.
    ipv6 : bool
        Whether it is bound to IPv6 too.
    interfaces : sequence of str, optional
        Addresses of the interfaces to use for mDNS; all by default. With loopback it advertises loopback, for tests.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        place: str,
        *,
        port: int | None,
        tls_port: int | None = None,
        lan: bool = False,
        ipv6: bool = False,
        interfaces: Sequence[str] | None = None,
    ) -> None:
        self._settings = settings
        self._place = place
        self._port = port
        self._tls_port = tls_port
        self._lan = lan
        self._ipv6 = ipv6
        self._interfaces = interfaces
        self._tag = ""
        self._advertiser = Advertiser(self._wanted, interfaces)
        self._running: asyncio.Task[DiscoverResponse] | None = None

    @property
    def instance(self) -> str:
        """The mDNS instance name this gateway is advertised by, or empty."""
        return self._advertiser.instance

    @property
    def problem(self) -> str:
        """One line that says why it is not advertised although it should be, or empty."""
        return self._advertiser.problem

    def start(self) -> None:
        """Begin to advertise, in the background."""
        if self._port is not None and self._lan:
            self._advertiser.start()

    def refresh(self) -> None:
        """Follow a change of the settings."""
        self._advertiser.refresh()

    async def stop(self) -> None:
        """Say goodbye and give up looking, within a second. Never raises."""
        work: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._advertiser.stop())]
        if self._running is not None:
            self._running.cancel()
            work.append(self._running)
        await within(_STOP_SECONDS, asyncio.wait(work))

    async def discover(self, seconds: float = BROWSE_SECONDS) -> DiscoverResponse:
        """Look for gateways. Whoever asks while it looks gets the same answer. Never fails.

        Parameters
        ----------
        seconds : float
            How long to wait for answers on the LAN; 10 at most. Probing takes up to two more.
        """
        from ..protocol.rest import DiscoverResponse

        if not self._settings.node_discovery_enabled:
            return DiscoverResponse(problems=[OFF])
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._discover(min(seconds, BROWSE_SECONDS_MAX)))
        return await asyncio.shield(self._running)

    # -- being found ------------------------------------------------------------------------------------------

    async def _wanted(self) -> Service | None:
        if self._port is None or not self._settings.node_discovery_enabled:
            return None
        if not self._tag:
            self._tag = await asyncio.to_thread(stable_tag, self._place)
        if self._interfaces is not None:
            hosts = list(self._interfaces)
        else:  # multicast does not cross a tailnet
            hosts = [each.host for each in await local_addresses() if each.kind == "lan"]
        usable = tuple(host for host in hosts if self._ipv6 or ":" not in host)
        if not usable:
            return None
        return Service(self._settings.display_name, self._port, self._tls_port, usable, self._tag)

    # -- finding others ---------------------------------------------------------------------------------------

    async def _discover(self, seconds: float) -> DiscoverResponse:
        from ..protocol.rest import DiscoverResponse

        prober = Prober()
        (found, lan_problem), status = await asyncio.gather(self._browse(seconds), _tailnet(prober))
        lan = await asyncio.gather(*(_lan_entry(each, prober) for each in found))
        answering = {host for peer in status.peers if prober.known(host := _host(peer), DEFAULT_PORT)}
        peers = not_in_lan(status.peers, found, answering)
        tailnet = await asyncio.gather(*(_tailnet_entry(each, prober) for each in peers))
        problems = [each for each in (self.problem, lan_problem, status.problem) if each]
        return DiscoverResponse(lan=list(lan), tailscale=list(tailnet), problems=problems)

    async def _browse(self, seconds: float) -> tuple[list[Found], str]:
        try:
            async with asyncio.timeout(seconds + _SLACK_SECONDS):
                found = await browse(seconds, self._interfaces)
            own = {each.host for each in await local_addresses()} | set(self._interfaces or ())
        except Exception as error:  # such as a machine without any network
            log.debug("Looking for gateways by mDNS failed", exc_info=True)
            return [], clean_text(f"The local network can't be searched by mDNS: {error or type(error).__name__}.", 200)
        return [each for each in found if not self._is_own(each, own)], ""

    def _is_own(self, found: Found, own: set[str]) -> bool:
        if self._tag and found.server == f"suzent-{self._tag}.local.":
            return True
        return found.port == self._port and not own.isdisjoint(found.hosts)


async def _tailnet(prober: Prober) -> TailscaleStatus:
    status = await tailscale_status()
    await within(_PROBE_SECONDS, asyncio.gather(*(prober.answers(_host(peer), DEFAULT_PORT) for peer in status.peers)))
    if any(prober.known(_host(peer), DEFAULT_PORT) for peer in status.peers):
        # Now that packets went there, Tailscale knows at which address of the LAN a machine is, if it is there.
        again = await tailscale_status()
        return status if again.problem else replace(status, peers=again.peers)
    return status


def _host(peer: Machine) -> str:
    # The address works without MagicDNS, which this machine may have switched off.
    return peer.ips[0] if peer.ips else peer.dns_name


async def _lan_entry(found: Found, prober: Prober) -> LanGateway:
    from ..protocol.rest import LanGateway

    answering = await prober.first(found.hosts, found.port)
    host = answering or found.hosts[0]
    return LanGateway(
        name=found.name,
        host=host,
        port=found.port,
        auth_mode=found.auth_mode,
        gateway_url=f"ws://{in_url(host)}:{found.port}{NODE_PATH}",
        reachable=answering is not None,
        tls_port=found.tls_port,
    )


async def _tailnet_entry(peer: Machine, prober: Prober) -> TailnetGateway:
    from ..protocol.rest import TailnetGateway

    host = _host(peer)
    return TailnetGateway(
        name=peer.name,
        host=host,
        port=DEFAULT_PORT,
        tailscale_ip=peer.ips[0] if peer.ips else "",
        dns_name=peer.dns_name,
        gateway_url=f"ws://{in_url(host)}:{DEFAULT_PORT}{NODE_PATH}",
        reachable=prober.known(host, DEFAULT_PORT),
    )


def not_in_lan(peers: list[Machine], found: list[Found], answering: set[str]) -> list[Machine]:
    """Return the machines of a tailnet that were not found on the LAN too.

    The same machine is known by an address, which Tailscale vouches for. A name is enough only where nothing answers
    in the tailnet: anyone on the LAN can take one, and must not hide a real gateway so.
    """
    hosts = {host for each in found for host in each.hosts}
    names = {each.name.casefold() for each in found} | {each.server.removesuffix(".local.") for each in found}
    called = [peer.name.casefold() for peer in peers]

    def seen(peer: Machine) -> bool:
        if not hosts.isdisjoint(peer.ips) or not hosts.isdisjoint(peer.seen_at):
            return True
        name = peer.name.casefold()
        return _host(peer) not in answering and name in names and called.count(name) == 1

    return [peer for peer in peers if not seen(peer)]
