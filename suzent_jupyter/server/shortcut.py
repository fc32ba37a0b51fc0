"""The short way of an invoke on the listener: without a handler object, a coroutine and a task, which cost most of it.

It does what :class:`~.handlers.RouteHandler` does for this route, with the same parts, for a request that carries a
token and a small body; all others take the long way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http.client import responses
from typing import TYPE_CHECKING

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    ResponseStartLine,
    format_timestamp,
)

from ..gateway import Authority
from ..gateway.calls import Outcome
from ..gateway.clients import submit_call
from ..protocol.errors import SuzentError
from ..protocol.wire import ascii_json, decode_call, encode_ascii
from .auth import principal_of_token

if TYPE_CHECKING:
    from .service import GatewayService

log = logging.getLogger("suzent_jupyter")


def invoke_answer(outcome: Outcome) -> bytes:
    """Return the answer's body. The result is spliced in, not re-encoded: it may be megabytes."""
    return b'{"success":%s,"result":%s,"error":%s}' % (
        b"true" if outcome.success else b"false",
        ascii_json(bytes(outcome.result)),
        encode_ascii(outcome.error),
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
        self._call: asyncio.Future[Outcome] | None = None
        self._gone = False

    def headers_received(self, start_line: object, headers: HTTPHeaders) -> None:
        """Tornado found this delegate by the headers; there is nothing more to learn from them."""

    def data_received(self, chunk: bytes) -> None:
        """Take a part of the body."""
        self._chunks.append(chunk)

    def finish(self) -> None:
        """Start the call: the request is complete."""
        try:
            self._service.check_running()
            principal = principal_of_token(self._service, self._request, self._token)
            if principal.authority < Authority.FULL:
                raise SuzentError("forbidden", "This token's scope does not reach that URL.")
            call = decode_call(b"".join(self._chunks))
            call.node = self._node
            self._call = submit_call(self._service.gateway, principal, call)
        except SuzentError as error:
            self._refuse(error)
        except Exception:
            log.exception("POST %s failed", self._request.path)
            self._refuse(SuzentError("internal", "The gateway failed on this request."))
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
            self._answer(200, invoke_answer(call.result()))
        elif isinstance(error, SuzentError):
            self._refuse(error)
        else:
            log.error("A call failed inside the gateway", exc_info=error)
            self._refuse(SuzentError("internal", "The gateway failed on this request."))

    def _refuse(self, error: SuzentError) -> None:
        self._answer(error.status, encode_ascii(error.as_body()), error.retry_after)

    def _answer(self, status: int, body: bytes, after: int | None = None) -> None:
        connection = self._request.connection
        if self._gone or connection is None:
            return
        headers = HTTPHeaders(
            {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                "Date": format_timestamp(time.time()),
            }
        )
        if after is not None:
            headers["Retry-After"] = str(after)
        reason = responses.get(status, "Client Closed Request")
        connection.write_headers(ResponseStartLine("HTTP/1.1", status, reason), headers, body)
        connection.finish()
