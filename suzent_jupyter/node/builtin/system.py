"""``system.info``: what this machine is and how busy."""

from __future__ import annotations

import contextlib
import datetime
import platform
import socket
from pathlib import Path
from typing import Any

from ..capability import Capability


def info() -> dict[str, Any]:
    """Host, operating system, processor, memory, disk, battery and time of boot of this machine.

    Sizes are bytes, shares percent, frequencies MHz, times UTC.
    """
    import psutil

    memory, disk = psutil.virtual_memory(), psutil.disk_usage(Path.home().anchor or "/")
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "os": {"name": platform.system(), "release": platform.release(), "version": platform.version()},
        "python": platform.python_version(),
        "cpu": {
            "model": platform.processor() or platform.machine(),
            "architecture": platform.machine(),
            "cores": psutil.cpu_count(logical=False),
            "threads": psutil.cpu_count(),
            "percent": psutil.cpu_percent(interval=0.1),
        },
        "memory": {"total": memory.total, "available": memory.available, "percent": memory.percent},
        "disk": {"total": disk.total, "free": disk.free, "percent": disk.percent},
        "booted_at": datetime.datetime.fromtimestamp(psutil.boot_time(), datetime.UTC),
    }
    # Containers and some boards have no such sensors, and psutil answers each in its own way.
    with contextlib.suppress(Exception):
        if (frequency := psutil.cpu_freq()) is not None:
            facts["cpu"]["frequency"] = frequency.current
    with contextlib.suppress(Exception):
        if (battery := psutil.sensors_battery()) is not None:
            facts["battery"] = {"percent": battery.percent, "plugged": battery.power_plugged}
    return facts


def find() -> Capability | None:
    """Return the capability where psutil is there."""
    import psutil  # noqa: F401 - the question is whether it is there

    return Capability.of(info, "system.info")
