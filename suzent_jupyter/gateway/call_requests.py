"""What a caller asks of a node, read field by field and handed to the dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from ..protocol.wire import CallFrame, encode_ascii, is_frame_id
from .calls import Outcome
from .permissions.asked_call import start_call
from .principals import Principal

if TYPE_CHECKING:
    from .gateway import Gateway

_ORIGIN_BYTES = 4096


def submit_call(
    gateway: Gateway,
    principal: Principal,
    call: CallFrame,
    *,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    socket: object | None = None,
) -> asyncio.Future[Outcome]:
    """Start the call a caller asks for; see :func:`.permissions.asked_call.start_call`.

    Parameters
    ----------
    socket : object, optional
        The socket it came by: what is allowed for the session is allowed for that.

    Raises
    ------
    SuzentError
        ``invalid_request``, naming the field; or why the call was refused.
    """
    if not isinstance(call.command, str) or not call.command:
        raise SuzentError("invalid_request", "`command` must be the name of a command, such as camera.snap.")
    if not isinstance(call.node, str) or not call.node:
        raise SuzentError("invalid_request", "`node` must be the id or name of a node.")
    key = call.idempotency_key
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= gateway.limits.request_id_bytes):
        raise SuzentError("invalid_request", "`idempotency_key` must be text of 1 to 128 characters.")
    prepared = gateway.dispatcher.prepare(
        principal,
        call.node,
        call.command,
        call.params,
        timeout=call.timeout,
        idempotency_key=key,
        on_progress=on_progress,
        origin=_origin(call.origin),
    )
    known = "" if socket is None or not is_frame_id(call.id) else str(call.id)
    return start_call(gateway, prepared, origin=socket, call_id=known)


def _origin(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or len(encode_ascii(value)) > _ORIGIN_BYTES:
        return None
    return value
