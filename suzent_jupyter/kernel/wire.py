"""Frames of ``/ws/client`` as this side writes and reads them: payloads stay raw JSON until looked at."""

from __future__ import annotations

from typing import Any

import msgspec

Raw = msgspec.Raw
NULL = Raw(b"null")


class Invoke(msgspec.Struct, tag_field="type", tag="invoke", omit_defaults=True, gc=False):
    """Client → gateway: call a node. ``id`` is the channel's to give; ``timeout`` is in seconds."""

    node: str
    command: str
    params: Any
    timeout: float | None = None
    idempotency_key: str | None = None
    origin: Any = None
    id: int = 0


class Incoming(msgspec.Struct, gc=False):
    """Any frame from the gateway: one flat struct costs less than telling the types apart first."""

    type: str = ""
    id: Any = None
    success: bool = False
    result: Raw = NULL
    error: Any = None
    code: str | None = None
    status: int | None = None
    seq: int = 0
    fraction: float | None = None
    message: str | None = None
    data: Raw = NULL
    topic: str = ""
    kind: str = ""
    item: Raw = NULL
    gateway: str = ""
    version: str = ""
    account: str = ""
    limits: Raw = NULL


encode = msgspec.json.Encoder().encode
decode = msgspec.json.decode
read = msgspec.json.Decoder(Incoming).decode
