"""The short way of an invoke on the listener: without a handler object, a coroutine and a task, which cost most of it.

It does what :class:`~.handlers.RouteHandler` does for this route, with the same parts, for a request that carries a
token and a small body; all others take the long way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from http.client import responses
from typing import TYPE_CHECKING

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    ResponseStartLine,
    format_timestamp,
)

from ...gateway import Authority
from ...gateway.call_requests import submit_call
from ...gateway.calls import Outcome
from ...gateway.failures import internal
from ...gateway.turns import LARGE_BYTES
from ...protocol.errors import SuzentError
from ...protocol.wire import decode_call, encode_ascii
from ..auth import principal_of_token

if TYPE_CHECKING:
    from ..service import GatewayService

_LARGE = 16 * 1024


def invoke_answer(outcome: Outcome) -> tuple[bytes, bytes | memoryview, bytes]:
    """Return the answer's body in parts. The result is passed on as it came: it may be megabytes."""
    return (
        b'{"success":true,"result":' if outcome.success else b'{"success":false,"result":',
        outcome.ascii_result(),
        b',"error":%s}' % encode_ascii(outcome.error),
    )


class InvokeDelegate(HTTPMessageDelegate):
    """Receives one ``POST /nodes/{node}/invoke`` and answers it.

    Parameters
    ----------
    service : GatewayService
        Running, with its store loaded.
    request : HTTPServerRequest
        Its headers.
    token : str
        The Suzent token it carries, of whatever worth.
    node : str
        As the URL names it, decoded.
    """

    def __init__(self, service: GatewayService, request: HTTPServerRequest, token: str, node: str) -> None:
        self._service = service
        self._request = request
        self._token = token
        self._node = node
        self._chunks: list[bytes] = []
        self._size = 0
        self._call: asyncio.Future[Outcome] | None = None
        self._gone = False

    def headers_received(self, start_line: object, headers: HTTPHeaders) -> None:
        """Tornado found this delegate by the headers; there is nothing more to learn from them."""

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Take a part of the body; of a large one not more than one in a turn."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._service.gateway.turns.large_turn() if len(chunk) >= LARGE_BYTES else None

    def finish(self) -> None:
        """Start the call: the request is complete."""
        turns = self._service.gateway.turns
        (turns.large if self._size >= LARGE_BYTES else turns.small)(self._start)

    def _start(self) -> None:
        try:
            self._service.check_running()
            principal = principal_of_token(self._service, self._request, self._token)
            if principal.authority < Authority.FULL:
                raise SuzentError("forbidden", "This token's scope does not reach that URL.")
            call = decode_call(b"".join(self._chunks))
            call.node = self._node
            self._call = submit_call(self._service.gateway, principal, call)
        except SuzentError as error:
            if error.code == "too_many_attempts":
                limits = self._service.gateway.limits
                asyncio.get_running_loop().call_later(limits.bad_token_delay, self._refuse, error)
            else:
                self._refuse(error)
        except Exception as error:
            self._refuse(internal(f"POST {self._request.path}", error))
        else:
            self._call.add_done_callback(self._done)
            # From here on Tornado tells of a hang-up only whoever asks it to.
            self._request.connection.set_close_callback(self.on_connection_close)  # type: ignore[union-attr]

    def on_connection_close(self) -> None:
        """The caller hung up: cancel the call on its device."""
        self._gone = True
        if self._call is not None:
            self._call.cancel()

    def _done(self, call: asyncio.Future[Outcome]) -> None:
        if call.cancelled():
            self._refuse(SuzentError("cancelled", "The call was cancelled."))
        elif (error := call.exception()) is None:
            self._answer(200, *invoke_answer(call.result()))
        elif isinstance(error, SuzentError):
            self._refuse(error)
        else:
            self._refuse(internal("A call", error))

    def _refuse(self, error: SuzentError) -> None:
        self._answer(error.status, encode_ascii(error.as_body()), after=error.retry_after)

    def _answer(self, status: int, *parts: bytes | memoryview, after: int | None = None) -> None:
        connection = self._request.connection
        if self._gone or connection is None:
            return
        size = sum(map(len, parts))
        headers = HTTPHeaders(
            {
                "Content-Type": "application/json",
                "Content-Length": str(size),
                "Date": format_timestamp(time.time()),
            }
        )
        if after is not None:
            headers["Retry-After"] = str(after)
        reason = responses.get(status, "Client Closed Request")
        start = ResponseStartLine("HTTP/1.1", status, reason)
        if size < _LARGE:
            connection.write_headers(start, headers, b"".join(parts))
        else:
            connection.write_headers(start, headers)
            for part in parts:
                connection.write(part)  # type: ignore[arg-type]  # kept, not copied
        connection.finish()
