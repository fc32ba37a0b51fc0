"""Whether something listens at an address: a TCP connection, closed again at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

SECONDS = 1.0
_AT_ONCE = 128


class Prober:
    """Probes addresses, at most 128 at once and each for a second; the second time it is asked, it knows."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[tuple[str, int], asyncio.Task[bool]] = {}

    async def first(self, hosts: Iterable[str], port: int) -> str | None:
        """Return the first of some hosts that answers at a port, None if none does."""
        listed = list(hosts)
        answers = await asyncio.gather(*(self.answers(host, port) for host in listed))
        return next((host for host, answers in zip(listed, answers, strict=True) if answers), None)

    async def answers(self, host: str, port: int) -> bool:
        """Tell whether something listens there."""
        if (host, port) not in self._asked:
            self._asked[host, port] = asyncio.ensure_future(self._ask(host, port))
        return await self._asked[host, port]

    def known(self, host: str, port: int) -> bool:
        """Tell whether it has answered."""
        asked = self._asked.get((host, port))
        return asked is not None and asked.done() and not asked.cancelled() and asked.result()

    async def _ask(self, host: str, port: int) -> bool:
        async with self._free:
            try:
                async with asyncio.timeout(SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
            except (OSError, TimeoutError, UnicodeError):
                return False
            writer.close()
            return True
