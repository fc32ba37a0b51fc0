"""One ``/ws/gateway`` socket, from its challenge to its last frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..principals import Principal
from ..transport import Transport

if TYPE_CHECKING:
    from ..gateway import Gateway


class MultinodeLink:
    """The gateway's end of one socket. All methods are called on the event loop and never raise."""

    def __init__(self, gateway: Gateway, transport: Transport, principal: Principal) -> None:
        raise NotImplementedError

    def receive(self, data: str | bytes) -> None:
        """Take one message."""

    def pong(self, payload: bytes) -> None:
        """Take an RFC 6455 pong."""

    def closed(self) -> None:
        """Take note that the socket is gone."""
