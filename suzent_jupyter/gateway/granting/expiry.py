"""Grants that end by themselves. A token past its time is refused anyway; this ends what it has under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from ..devices import Device, Devices

# Time goes on while a machine sleeps, the event loop's clock may not: so it is looked at now and then.
_LONGEST_SLEEP = 30.0


class Expiry:
    """Watches the tokens that have an end.

    Parameters
    ----------
    devices : Devices
        All tokens.
    ended : callable
        Called once for each whose time is over while this gateway runs.
    """

    def __init__(self, devices: Devices, ended: Callable[[Device], None]) -> None:
        self._devices = devices
        self._ended = ended
        self._told: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch from now on; what is over already has nothing under way."""
        self._told = {device.device_id for device in self._devices if device.expired}
        self.look()

    def look(self) -> None:
        """End what is over, and wait for the next; to be called when a token with an end has come."""
        self.stop()
        now, following = datetime.now(UTC), _LONGEST_SLEEP
        waits = False
        for device in self._devices:
            if not device.expires_at:
                continue
            if not device.expired:
                self._told.discard(device.device_id)
                waits = True
                left = (datetime.fromisoformat(device.expires_at) - now).total_seconds()
                following = min(following, max(left, 0.0) + 0.001)
            elif device.device_id not in self._told:
                self._told.add(device.device_id)
                self._ended(device)
        if waits:
            self._timer = asyncio.get_running_loop().call_later(following, self.look)

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
