"""JSON on the wire: strict in, ASCII out, and results passed on without being unpacked.

The models of this package describe the frames; this module moves them. A device's result can hold megabytes of
base64 that the gateway has no business reading, so it is kept as the raw bytes between two braces and spliced into
the answer. NaN, Infinity and trailing garbage are refused (RFC 8259), which the standard library's parser allows.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from .errors import SuzentError

Raw = msgspec.Raw

NULL = Raw(b"null")


class ResultFrame(msgspec.Struct, gc=False):
    """A device's ``result`` frame with its payload left as raw JSON."""

    type: str = ""
    request_id: str = ""
    success: bool = False
    result: Raw = NULL
    error: Any = None


_NON_ASCII = re.compile("[^\x00-\x7f]+")
_decoder = msgspec.json.Decoder()
_result_decoder = msgspec.json.Decoder(ResultFrame)
_encoder = msgspec.json.Encoder()


def decode(data: bytes | str) -> Any:
    """Parse JSON.

    Raises
    ------
    SuzentError
        ``bad_json`` when it is not valid JSON, is nested too deeply, or holds half a surrogate pair.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SuzentError("bad_json", f"That is not valid JSON: {error}.") from None


def decode_frame(data: bytes | str) -> ResultFrame | Any:
    """Parse a frame of a device: a sound ``result`` as :class:`ResultFrame`, anything else as plain JSON.

    None stands for a frame that is not JSON.
    """
    try:
        frame = _result_decoder.decode(data)
        if frame.type == "result":
            return frame
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        # The standard library also reads what RFC 8259 forbids; so a result that can't be used still names its call.
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def encode(value: Any) -> bytes:
    """Return ``value`` as compact UTF-8 JSON (for devices, which parse it whole)."""
    return _encoder.encode(value)


def ascii_json(data: bytes) -> bytes:
    """Return JSON text with every non-ASCII character escaped.

    Readers that split on U+2028 or U+0085 (``str.splitlines``) break on JSON that carries them bare.
    """
    if data.isascii():
        return data
    return _NON_ASCII.sub(lambda run: json.dumps(run.group())[1:-1], data.decode("utf-8")).encode("ascii")


def encode_ascii(value: Any) -> bytes:
    """Return ``value`` as ASCII-escaped JSON (for HTTP answers, event streams and clients)."""
    data = _encoder.encode(value)
    return data if data.isascii() else ascii_json(data)
