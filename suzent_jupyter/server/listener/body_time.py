"""A deadline for a request's body, where it has not come along with the head.

Tornado's own ``body_timeout`` makes a future and a task for every request, which costs a small call a tenth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest


def in_time(request: HTTPServerRequest, delegate: HTTPMessageDelegate, seconds: float) -> HTTPMessageDelegate:
    """Return a delegate that closes the connection when the body takes longer; ``delegate`` if it is here already."""
    size = request.headers.get("Content-Length", "0")
    if size == "0" and "Transfer-Encoding" not in request.headers:
        return delegate
    stream: Any = getattr(request.connection, "stream", None)
    if stream is None or (size.isdigit() and int(size) <= getattr(stream, "_read_buffer_size", 0)):
        return delegate
    return _InTime(delegate, asyncio.get_running_loop().call_later(seconds, stream.close))


class _InTime(HTTPMessageDelegate):
    """Passes a request on, and stops the clock at its end."""

    def __init__(self, delegate: HTTPMessageDelegate, clock: asyncio.TimerHandle) -> None:
        self._delegate = delegate
        self._clock = clock

    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> Awaitable[None] | None:
        return self._delegate.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._delegate.data_received(chunk)

    def finish(self) -> None:
        self._clock.cancel()
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._clock.cancel()
        self._delegate.on_connection_close()
