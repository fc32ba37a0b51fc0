"""A deadline for a request's body, where it has not come along with the head.

Tornado's own ``body_timeout`` makes a future and a task for every request, which costs a small call a tenth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest

from ..streamed import is_file


def in_time(request: HTTPServerRequest, delegate: HTTPMessageDelegate, seconds: float) -> HTTPMessageDelegate:
    """Return a delegate that closes the connection when the body takes longer; ``delegate`` if it is here already."""
    size = request.headers.get("Content-Length", "0")
    if size == "0" and "Transfer-Encoding" not in request.headers:
        return delegate
    stream: Any = getattr(request.connection, "stream", None)
    if stream is None or (size.isdigit() and int(size) <= getattr(stream, "_read_buffer_size", 0)):
        return delegate
    return _InTime(delegate, request, stream, seconds)


class _InTime(HTTPMessageDelegate):
    """Passes a request on, and stops the clock at its end. A file has that time for every piece of it."""

    def __init__(self, delegate: HTTPMessageDelegate, request: HTTPServerRequest, stream: Any, seconds: float) -> None:
        self._delegate = delegate
        self._request = request
        self._stream = stream
        self._seconds = seconds
        self._start()

    def _start(self) -> None:
        self._clock = asyncio.get_running_loop().call_later(self._seconds, self._stream.close)

    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> Awaitable[None] | None:
        return self._delegate.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        if is_file(self._request):
            self._clock.cancel()
            self._start()
        return self._delegate.data_received(chunk)

    def finish(self) -> None:
        self._clock.cancel()
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._clock.cancel()
        self._delegate.on_connection_close()
