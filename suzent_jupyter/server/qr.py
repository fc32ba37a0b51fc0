"""QR codes of pairing links (ISO/IEC 18004)."""

from __future__ import annotations

from functools import lru_cache

_SCALE = 4  # pixels a module: sharp on any screen, about a kilobyte


@lru_cache(maxsize=32)
def qr_data_uri(text: str) -> str:
    """Return ``text`` as a QR code: a PNG in a data URI (RFC 2397). Takes some milliseconds of CPU.

    Error correction is level M, which a photo of a screen needs, with the quiet zone of four modules.
    """
    import segno

    code = segno.make_qr(text, error="m", boost_error=False)
    return code.png_data_uri(scale=_SCALE, border=4)
