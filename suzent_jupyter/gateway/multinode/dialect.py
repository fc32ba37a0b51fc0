"""How calls are written to nodes of ``/ws/gateway``."""

from __future__ import annotations

from ...protocol.wire import encode
from ..calls import Call
from ..dialect import addresses


class MultinodeDialect:
    """The frames of ``/ws/gateway``; a call's id is the gateway's request id."""

    def call(self, call: Call, seconds: float) -> tuple[bytes | memoryview, ...]:
        """Return a ``node.invoke.request``."""
        head = b'{"type":"node.invoke.request","id":"%s","node_id":%s,"command":%s,"params":' % (
            call.request_id.encode(),
            encode(call.node_id),
            encode(call.command),
        )
        return head, call.params, b',"timeout_ms":%.0f%s}' % (max(1.0, seconds * 1000), addresses(call))

    def cancel(self, request_id: str, reason: str) -> bytes:
        """Return a ``node.invoke.cancel``."""
        return b'{"type":"node.invoke.cancel","id":"%s","reason":%s}' % (request_id.encode(), encode(reason))
