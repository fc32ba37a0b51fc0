"""``camera.snap``: a photo from a local camera, through OpenCV."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, Literal

from ..capability import Capability
from ..results import binary

_WARM_UP = 4  # frames; the first ones of most webcams are dark
_one_at_a_time = threading.Lock()


def snap(format: Literal["png", "jpg", "jpeg"] = "png", camera: int = 0) -> dict[str, str]:  # noqa: A002
    """Take a photo with a camera of this machine.

    Parameters
    ----------
    format : str
        Format of the image.
    camera : int
        Which camera, counted from 0.
    """
    import cv2

    with _one_at_a_time:  # a camera can be opened once
        device = cv2.VideoCapture(camera)
        try:
            if not device.isOpened():
                raise RuntimeError(f"Camera {camera} can't be opened; is it connected and free?")
            for _ in range(_WARM_UP):
                device.grab()
            taken, image = device.read()
        finally:
            device.release()
    if not taken:
        raise RuntimeError(f"Camera {camera} delivered no image.")
    suffix = "png" if format == "png" else "jpg"
    encoded, data = cv2.imencode(f".{suffix}", image)
    if not encoded:
        raise RuntimeError(f"The image could not be encoded as {format}.")
    return binary(data.tobytes(), "image/png" if suffix == "png" else "image/jpeg", f"photo.{suffix}")


def find() -> Capability | None:
    """Return the capability where OpenCV is installed and a camera opens."""
    if sys.platform == "linux" and not any(Path("/dev").glob("video*")):
        return None  # OpenCV would complain on the terminal
    try:
        import cv2
    except ImportError:
        return None
    device: Any = cv2.VideoCapture(0)
    try:
        return Capability.of(snap, "camera.snap") if device.isOpened() else None
    finally:
        device.release()
