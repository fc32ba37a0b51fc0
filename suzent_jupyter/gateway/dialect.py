"""How what the gateway tells a connected node is written: the frames differ between the two protocols, nothing else."""

from __future__ import annotations

from typing import Protocol

from ..protocol.device import CancelMessage
from ..protocol.wire import encode
from .calls import Call


class Dialect(Protocol):
    """The gateway's side of one protocol."""

    def call(self, call: Call, seconds: float) -> tuple[bytes | memoryview, ...]:
        """Return the frame of a call in parts; ``seconds`` are left of its deadline."""

    def cancel(self, request_id: str, reason: str) -> bytes:
        """Return the frame that cancels one."""


class DeviceDialect:
    """Suzent's frames, of ``/ws/node``."""

    def call(self, call: Call, seconds: float) -> tuple[bytes | memoryview, ...]:
        """Return an ``invoke``."""
        head = b'{"type":"invoke","request_id":"%s","command":%s,"params":' % (
            call.request_id.encode(),
            encode(call.command),
        )
        return head, call.params, b',"timeout":%.3f%s}' % (seconds, addresses(call))

    def cancel(self, request_id: str, reason: str) -> bytes:
        """Return a ``cancel``."""
        return CancelMessage(request_id=request_id, reason=reason).encode()


def addresses(call: Call) -> bytes:
    """Return the field that says which absolute addresses of files are ours: no parameter could say so itself."""
    return b',"artifacts":%s' % encode(call.addresses) if call.addresses else b""
