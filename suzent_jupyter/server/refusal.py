"""The one shape of a refusal over HTTP."""

from __future__ import annotations

from tornado.web import RequestHandler

from ..protocol.errors import SuzentError
from ..protocol.wire import encode_ascii


def refuse(handler: RequestHandler, error: SuzentError, status: int | None = None, reason: str | None = None) -> None:
    """Answer with an error body, and with ``Retry-After`` where the refusal passes with time.

    Parameters
    ----------
    handler : RequestHandler
        Whose request is answered.
    error : SuzentError
        Why.
    status : int, optional
        The HTTP status, that of the error otherwise.
    reason : str, optional
        The words beside it, for a status Tornado does not know.
    """
    handler.set_status(status or error.status, reason)
    handler.set_header("Content-Type", "application/json")
    if (after := error.retry_after) is not None:
        handler.set_header("Retry-After", str(after))
    handler.finish(encode_ascii(error.as_body()))
