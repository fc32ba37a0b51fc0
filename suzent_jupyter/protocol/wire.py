"""JSON on the wire: strict in, ASCII out, and results passed on without being unpacked.

The models of this package describe the frames; this module moves them. A device's result can hold megabytes of
base64 that the gateway has no business reading, so it is kept as the raw bytes between two braces and spliced into
the answer. NaN, Infinity and trailing garbage are refused (RFC 8259), which the standard library's parser allows.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeGuard

import msgspec

from .errors import SuzentError

Raw = msgspec.Raw
_ID_CHARS = 128

NULL = Raw(b"null")


class ResultFrame(msgspec.Struct, gc=False):
    """A device's ``result`` frame with its payload left as raw JSON."""

    type: str = ""
    request_id: str = ""
    success: bool = False
    result: Raw = NULL
    error: Any = None


class NodeResultFrame(msgspec.Struct, gc=False):
    """A ``node.invoke.result`` of an app node, likewise."""

    type: str = ""
    id: str = ""
    ok: bool = False
    result: Raw = NULL
    error: Any = None


class CallFrame(msgspec.Struct, gc=False):
    """An invoke as its caller sends it, over HTTP or a client socket, with the parameters left as raw JSON."""

    type: Any = None
    id: Any = None
    node: Any = None
    command: Any = None
    params: Raw = NULL
    timeout: Any = None
    idempotency_key: Any = None
    origin: Any = None


_NON_ASCII = re.compile("[^\x00-\x7f]+")
_decoder = msgspec.json.Decoder()
_result_decoder = msgspec.json.Decoder(ResultFrame)
_node_result_decoder = msgspec.json.Decoder(NodeResultFrame)
_call_decoder = msgspec.json.Decoder(CallFrame)
_encoder = msgspec.json.Encoder()


def decode(data: bytes | str | memoryview) -> Any:
    """Parse JSON.

    Raises
    ------
    SuzentError
        ``bad_json`` when it is not valid JSON, is nested too deeply, or holds half a surrogate pair;
        ``invalid_request`` when it is, with a number beyond what a float or integer here can hold.
    """
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise SuzentError("invalid_request", f"That holds a value that can't be used: {error}.") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SuzentError("bad_json", f"That is not valid JSON: {error}.") from None


def decode_call(data: bytes | str) -> CallFrame:
    """Parse an invoke; fails as :func:`decode`, and with ``invalid_request`` if it is no object."""
    try:
        if isinstance(data, bytes) and not data.isascii():
            data = data.decode()  # the parser skips over raw parts, and a device closes on text that is no UTF-8
        return _call_decoder.decode(data)
    except msgspec.ValidationError:
        decode(data)  # says more where a number is out of range
        raise SuzentError("invalid_request", "An invoke must be a JSON object.") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SuzentError("bad_json", f"That is not valid JSON: {error}.") from None


def decode_frame(data: bytes | str) -> ResultFrame | Any:
    """Parse a frame of a device: a sound ``result`` as :class:`ResultFrame`, anything else as plain JSON.

    None stands for a frame that is not JSON; of a ``result`` that is not, what names its call is kept.
    """
    try:
        frame = _result_decoder.decode(data)
        if frame.type == "result":
            return frame
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        # The standard library also reads what RFC 8259 forbids. Nothing of that may be passed on: it can't be written.
        frame = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(frame, dict) and frame.get("type") == "result":
        return {"type": "result", "request_id": frame.get("request_id")}
    return None


def decode_node_result(data: bytes | str) -> ResultFrame | None:
    """Parse a sound ``node.invoke.result`` as the :class:`ResultFrame` it means; None for every other frame."""
    try:
        frame = _node_result_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if frame.type != "node.invoke.result":
        return None
    error = frame.error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        error = error["message"]
    return ResultFrame("result", frame.id, frame.ok, frame.result, error)


def encode(value: Any) -> bytes:
    """Return ``value`` as compact UTF-8 JSON (for devices, which parse it whole).

    Raises
    ------
    SuzentError
        ``invalid_request`` when it nests too deeply: it was read, just, but not with the frame around it.
    """
    try:
        return _encoder.encode(value)
    except RecursionError:
        raise SuzentError("invalid_request", "That is nested too deeply.") from None


def is_shallow(value: Any, depth: int) -> bool:
    """Tell whether a value nests at most ``depth`` lists and objects; pydantic writes no more than some 250."""
    if not isinstance(value, list | dict):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(is_shallow(part, depth - 1) for part in parts)


def ascii_json(data: bytes) -> bytes:
    """Return JSON text with every non-ASCII character escaped.

    Readers that split on U+2028 or U+0085 (``str.splitlines``) break on JSON that carries them bare.
    """
    if data.isascii():
        return data
    return _NON_ASCII.sub(lambda run: json.dumps(run.group())[1:-1], data.decode("utf-8")).encode("ascii")


def encode_ascii(value: Any) -> bytes:
    """Return ``value`` as ASCII-escaped JSON (for HTTP answers, event streams and clients)."""
    data = encode(value)
    return data if data.isascii() else ascii_json(data)


def is_frame_id(value: object) -> TypeGuard[str | int]:
    """Tell whether a value may be the ``id`` of a frame, which its sender chooses: text of at most 128 characters, or a
    whole number.
    """
    if isinstance(value, str):
        return len(value) <= _ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)
