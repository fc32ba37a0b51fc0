"""Keeps this gateway advertised in the background, as long as it should be, wherever the machine is carried."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from ..protocol.text import clean_text
from .mdns import Service, open_zeroconf, within
from .names import instance_labels

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

log = logging.getLogger("suzent_jupyter")

REGISTER_SECONDS = 15.0
GOODBYE_SECONDS = 0.8
LOOK_SECONDS = 15.0  # a laptop in another network has other addresses
RETRY_SECONDS = 60.0
ASK_SECONDS = 1.3  # an answer given a moment ago is repeated after a second only; RFC 6762 section 6
YIELD_SECONDS = 2.0


class Advertiser:
    """Advertises what ``wanted`` returns, looking again every 15 s and at each :meth:`refresh`.

    Parameters
    ----------
    wanted : callable
        Returns the service, or None while there is nothing to advertise.
    interfaces : sequence of str, optional
        Addresses of the interfaces to use; all by default.

    Attributes
    ----------
    problem : str
        One line that says why the gateway is not advertised although it should be.
    instance : str
        The full instance name in force, or empty.
    """

    def __init__(
        self, wanted: Callable[[], Awaitable[Service | None]], interfaces: Sequence[str] | None = None
    ) -> None:
        self._wanted = wanted
        self._interfaces = interfaces
        self._service: Service | None = None
        self._zeroconf: AsyncZeroconf | None = None
        self._task: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self.problem = ""
        self.instance = ""

    def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.ensure_future(self._keep())

    def refresh(self) -> None:
        """Look now whether something has changed."""
        self._look.set()

    async def stop(self) -> None:
        """Say goodbye, within a second."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.1)
        await self._withdraw()

    async def _keep(self) -> None:
        while True:
            self._look.clear()
            try:
                await self._follow()
            except Exception as error:  # whatever it is, it is not worth the server
                self._failed(error)
                await self._withdraw()
            try:
                async with asyncio.timeout(RETRY_SECONDS if self.problem else LOOK_SECONDS):
                    await self._look.wait()
            except TimeoutError:
                pass

    async def _follow(self) -> None:
        wanted = await self._wanted()
        if wanted == self._service and not self.problem:
            return
        await self._withdraw()
        if wanted is not None:
            async with asyncio.timeout(REGISTER_SECONDS):
                await self._announce(wanted)
            log.debug("Advertised as %s", self.instance)
        self.problem = ""

    def _failed(self, error: Exception) -> None:
        reason = f"no answer within {REGISTER_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
        problem = clean_text(f"This gateway is not advertised by mDNS: {reason or type(error).__name__}", 200)
        if problem != self.problem:
            log.warning("%s. Devices can still join by its address.", problem)
        self.problem = problem

    async def _announce(self, service: Service) -> None:
        self._zeroconf = zeroconf = await open_zeroconf(self._interfaces)
        from zeroconf import NonUniqueNameException

        for label in instance_labels(service.display_name, service.tag):
            info = service.info(label)
            if await self._taken(info):
                continue
            try:
                announced = await zeroconf.async_register_service(info)
            except NonUniqueNameException:
                continue
            await announced
            others = self._others(info)
            if others and min(others) < service.server:
                await (await zeroconf.async_unregister_service(info))
                continue
            self._service, self.instance = service, info.name
            if others:
                # The goodbye of whoever took the name at the same moment takes ours away too.
                await asyncio.sleep(YIELD_SECONDS)
                await (await zeroconf.async_update_service(info))
            return
        raise OSError("three names in a row belong to others")

    async def _taken(self, info: AsyncServiceInfo) -> bool:
        """Ask aloud for a name. The library asks for quiet answers, of which one of several programs here gets each."""
        from zeroconf import DNSQuestionType
        from zeroconf.asyncio import AsyncServiceInfo

        assert self._zeroconf is not None
        other = AsyncServiceInfo(info.type, info.name)
        known = await other.async_request(self._zeroconf.zeroconf, ASK_SECONDS * 1000, DNSQuestionType.QM)
        return known and (other.server or "").casefold() != info.server

    def _others(self, info: AsyncServiceInfo) -> set[str]:
        """Return the host names of those who took the same name at the same moment."""
        assert self._zeroconf is not None
        records = self._zeroconf.zeroconf.cache.async_entries_with_name(info.name)
        servers = (getattr(record, "server", None) for record in records)
        return {server.casefold() for server in servers if isinstance(server, str)} - {info.server or ""}

    async def _withdraw(self) -> None:
        zeroconf, self._zeroconf = self._zeroconf, None
        self._service, self.instance = None, ""
        if zeroconf is not None:
            await within(GOODBYE_SECONDS, zeroconf.async_close())
