"""How often a control grant is used, and when last: what makes a stolen token visible.

Counted in memory at once, written together about once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..clock import now_text
from ..devices import Device
from ..store import Store

if TYPE_CHECKING:
    import sqlalchemy as sa

_GATHER_SECONDS = 1.0


class Usage:
    """The counters of one gateway's grants.

    Parameters
    ----------
    store : Store
        Where they are kept.
    tell : callable
        Told of a device whose counters have changed, at most twice in each gathering.
    """

    def __init__(self, store: Store, tell: Callable[[Device], None]) -> None:
        self._store = store
        self._tell = tell
        self._gathered: dict[str, tuple[Device, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, device: Device) -> None:
        """Count a use."""
        device.trigger_count += 1
        device.last_triggered_at = now_text()
        count = self._gathered[device.device_id][1] if device.device_id in self._gathered else 0
        self._gathered[device.device_id] = device, count + 1
        if not count:
            self._tell(device)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._write)

    async def flush(self) -> None:
        """Write what was gathered, now."""
        written = self._write()
        if written is not None:
            await asyncio.wait([written])

    def _write(self) -> asyncio.Future[None] | None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, {}
        for device, count in gathered.values():
            if count > 1:
                self._tell(device)
        uses = [(device.device_id, count, device.last_triggered_at) for device, count in gathered.values()]
        if not uses:
            return None
        return self._store.run_unawaited(lambda connection: _add_uses(connection, uses))


def _add_uses(connection: sa.Connection, uses: list[tuple[str, int, str]]) -> None:
    import sqlalchemy as sa

    from .. import schema

    table = schema.devices
    for device_id, count, at in uses:
        # Added, not set: another process may count as well.
        counted = {"trigger_count": table.c.trigger_count + count, "last_triggered_at": at}
        connection.execute(sa.update(table).where(table.c.device_id == device_id).values(**counted))
