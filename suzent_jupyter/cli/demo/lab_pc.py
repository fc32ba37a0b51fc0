"""A simulated lab PC. Run it with ``jupyter suzent node host --name "Lab PC" --module lab_pc.py``."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from suzent_jupyter import capability
from suzent_jupyter.node import progress
from suzent_jupyter.node.builtin.system import info

capability("system.info")(info)


@capability("sensor.read")
async def read(samples: int = 60, interval: float = 1.0) -> dict[str, list[Any]]:
    """Read the temperature and humidity sensor: a series that ends now.

    Parameters
    ----------
    samples : int
        How many readings, 1 to 10000.
    interval : float
        Seconds between two readings.
    """
    if not 1 <= samples <= 10_000 or not 0 < interval <= 3600:
        raise ValueError("samples must be from 1 to 10000, and interval above 0 and up to 3600 s")
    noise = random.Random()  # noqa: S311
    now = datetime.now(UTC)
    series: dict[str, list[Any]] = {"time": [], "temperature": [], "humidity": []}
    for step in range(samples):
        time = now - timedelta(seconds=interval * (samples - 1 - step))
        phase = time.timestamp() / 900
        series["time"].append(time)
        series["temperature"].append(round(21.5 + 1.5 * math.sin(phase) + noise.gauss(0, 0.08), 3))
        series["humidity"].append(round(45 + 6 * math.cos(phase / 2) + noise.gauss(0, 0.4), 2))
        if step % 500 == 499:
            progress(fraction=(step + 1) / samples, message=f"{step + 1} readings")
            await asyncio.sleep(0)
    return series


@capability("speaker.speak")
async def speak(text: str) -> dict[str, Any]:
    """Speak text; the simulated loudspeaker takes as long as a voice would and makes no sound."""
    words = text.split()
    for count, word in enumerate(words, 1):
        await asyncio.sleep(0.08)
        progress(fraction=count / len(words), message=word)
    return {"spoke": text, "words": len(words)}


@capability("echo")
def echo(value: Any = None) -> Any:
    """Return the value that was sent."""
    return value
