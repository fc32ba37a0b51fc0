"""QR codes read back: by OpenCV where it is installed, else module by module against what a text must give."""

from __future__ import annotations

import base64
import io
from typing import Any

import segno
from PIL import Image


def expected(text: str) -> list[list[bool]]:
    """Return the modules of a text's code with its quiet zone, True for dark ones."""
    return [
        [bool(dark) for dark in row] for row in segno.make_qr(text, error="m", boost_error=False).matrix_iter(border=4)
    ]


def assert_says(png: bytes, text: str) -> None:
    """Hold a QR code to the text it must carry."""
    image = Image.open(io.BytesIO(png)).convert("L")
    modules = expected(text)
    scale, rest = divmod(image.width, len(modules))
    assert rest == 0
    assert image.height == image.width
    read = [
        [
            image.getpixel((column * scale + scale // 2, row * scale + scale // 2)) < 128
            for column in range(len(modules))
        ]
        for row in range(len(modules))
    ]
    assert read == modules
    decoded = decode(image)
    assert decoded in (None, text)


def decode(image: Any) -> str | None:
    """Return what a QR code says, None where nothing here can read one."""
    try:
        import cv2
        import numpy as np
    except ImportError:
        return None
    return str(cv2.QRCodeDetector().detectAndDecode(np.array(image))[0])


def content(data_uri: str) -> bytes:
    """Return the bytes of a PNG data URI."""
    head, _, body = data_uri.partition(",")
    assert head == "data:image/png;base64"
    return base64.b64decode(body, validate=True)


def modules_of_terminal(lines: list[str]) -> list[list[bool]]:
    """Return the modules that half blocks show, light ones printed."""
    rows: list[list[bool]] = []
    for line in lines:
        rows.append([char not in "█▀" for char in line])
        rows.append([char not in "█▄" for char in line])
    return rows
