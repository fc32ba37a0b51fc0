"""A simulated phone. Run it with ``jupyter suzent node host --name MyPhone --module my_phone.py``."""

from __future__ import annotations

import io
import math
import random
from datetime import UTC, datetime
from typing import Any, Literal

from PIL import Image, ImageDraw, ImageFont

from suzent_jupyter import capability


@capability("camera.snap")
def snap(format: Literal["png", "jpeg"] = "png", width: int = 640, flash: bool = False) -> dict[str, Any]:  # noqa: A002
    """Take a photo with the camera.

    Parameters
    ----------
    format : str
        Image format.
    width : int
        Width of the photo in pixels, 160 to 1920.
    flash : bool
        Light the scene.
    """
    from suzent_jupyter.node import binary

    if not 160 <= width <= 1920:
        raise ValueError("width must be from 160 to 1920 pixels")
    image = draw_scene(width, datetime.now(), flash)
    buffer = io.BytesIO()
    image.save(buffer, format)
    return binary(buffer.getvalue(), f"image/{format}", f"photo.{format}")


@capability("location.get")
def locate() -> dict[str, float]:
    """Tell where the phone is: degrees north and east (WGS 84), and the accuracy in metres."""
    wander = datetime.now(UTC).timestamp() / 600
    return {
        "latitude": round(51.4779 + 0.001 * math.sin(wander), 6),
        "longitude": round(-0.0015 + 0.001 * math.cos(wander), 6),
        "accuracy": round(random.uniform(3, 12), 1),  # noqa: S311
    }


@capability("device.info")
def info() -> dict[str, Any]:
    """Describe the phone."""
    return {"model": "Simulated phone", "os": "DemoOS 1", "battery": 0.82, "charging": False, "screen": [1170, 2532]}


def draw_scene(width: int, now: datetime, flash: bool) -> Image.Image:
    """Draw what the camera sees: hills, a sun that moves with the time of day, and the time itself."""
    height = width * 3 // 4
    day = (now.hour + now.minute / 60) / 24
    light = 1.0 if flash else 0.35 + 0.65 * max(0.0, math.sin(math.pi * (day * 1.4 - 0.2)))
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):
        share = y / height
        draw.line([(0, y), (width, y)], fill=tuple(int(c * light) for c in (90 + 120 * share, 150 + 70 * share, 235)))
    x, y, r = int(width * day), int(height * (0.55 - 0.4 * math.sin(math.pi * day))), width // 18
    draw.ellipse([x - r, y - r, x + r, y + r], fill=(255, 224, 130))
    for layer, colour in enumerate(((96, 140, 110), (66, 110, 80), (40, 80, 55))):
        base, wave = height * (0.6 + 0.13 * layer), height * 0.06
        ridge = [(i, base + wave * math.sin(i / width * (5 + 3 * layer) + layer)) for i in range(0, width + 8, 8)]
        draw.polygon([(0, height), *ridge, (width, height)], fill=tuple(int(c * light) for c in colour))
    draw.text(
        (width * 0.04, height * 0.86),
        now.strftime("%Y-%m-%d %H:%M:%S"),
        fill="white",
        font=ImageFont.load_default(size=max(12, width // 18)),
        stroke_width=2,
        stroke_fill="black",
    )
    return image
