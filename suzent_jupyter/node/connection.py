"""One connection of a device: handshake, frames in, frames out, and what its end means."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from ..protocol.device import FEATURES, ConnectMessage, UpdateMessage
from ..protocol.errors import CLOSE_PROTOCOL, CLOSE_REFUSED, CLOSE_REPLACED, CLOSE_REVOKED, SuzentError
from ..protocol.limits import MIB
from ..protocol.text import clean_text
from ..protocol.wire import decode
from .calls import Calls, OnCall
from .capability import Capability
from .threads import Threads

log = logging.getLogger(__name__)

#: A result frame's bytes where the gateway names no limit: what uvicorn, under Suzent, takes by default.
PLAIN_FRAME_BYTES = 16 * MIB
_FIRST_ANSWER = 30.0  # seconds until pending, connected or error
_TEXT = 500
_REPLACED = "another process connected with this device's token and took its place"


class Refused(Exception):  # noqa: N818 - an end, not an error of ours
    """The gateway does not want this device; trying again would not change that."""


class Revoked(Refused):
    """The operator took the approval back."""


class Lost(Exception):  # noqa: N818
    """The connection ended in a way that trying again may mend."""


class Device(Protocol):
    """The host, as a connection sees it."""

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Name → capability."""

    def connect_message(self) -> ConnectMessage:
        """Return the first frame."""

    def on_pending(self, code: str, message: str) -> None:
        """Wait for the operator."""

    async def on_connected(self, frame: dict[str, Any], connection: Connection) -> None:
        """Keep the token, and tell."""

    def on_approved(self, frame: dict[str, Any]) -> None:
        """Note which commands may be called now."""


class Connection:
    """The conversation over one open socket."""

    def __init__(self, socket: ClientConnection, device: Device, threads: Threads, on_call: OnCall | None) -> None:
        self._socket = socket
        self._device = device
        self._threads = threads
        self._on_call = on_call
        self.features: frozenset[str] = frozenset()
        self.frame_limit = PLAIN_FRAME_BYTES

    async def run(self) -> None:
        """Converse until the end; never returns.

        Raises
        ------
        Refused
            When the gateway does not want this device.
        Lost
            When it ended otherwise.
        """
        try:
            await self._send(self._device.connect_message().encode())
            await self._handshake()
        except ConnectionClosed as error:
            raise self._verdict(error) from None

    async def send_frame(self, data: bytes) -> None:
        """Send one frame; a closed connection is left to the reader."""
        try:
            await self._send(data)
        except ConnectionClosed:
            log.debug("A frame came too late for its connection.")

    async def send_update(self) -> None:
        """Declare the device's capabilities again, where the gateway listens to that."""
        if "update" in self.features:
            declared = [each.declaration() for each in self._device.capabilities.values()]
            await self.send_frame(UpdateMessage(capabilities=declared).encode())

    async def _send(self, data: bytes) -> None:
        await self._socket.send(data, text=True)

    async def _receive(self) -> dict[str, Any]:
        """Return the next frame that is a JSON object; whatever else arrives is ignored."""
        while True:
            data = await self._socket.recv(decode=False)
            try:
                frame = decode(data)
            except SuzentError as error:
                log.debug("A frame was ignored: %s", error)
                continue
            if isinstance(frame, dict):
                return frame

    async def _handshake(self) -> None:
        try:
            async with asyncio.timeout(_FIRST_ANSWER) as patience:
                while True:
                    frame = await self._receive()
                    match frame.get("type"):
                        case "pending":
                            patience.reschedule(None)  # people take their time
                            self._device.on_pending(_text(frame, "pairing_code", 64), _text(frame, "message"))
                        case "connected":
                            break
                        case "error":
                            raise _refusal(frame)
                        case "ping":
                            await self._send(b'{"type":"pong"}')
        except TimeoutError:
            raise Lost(f"the gateway did not answer within {_FIRST_ANSWER:g} s") from None
        await self._converse(frame)

    async def _converse(self, connected: dict[str, Any]) -> None:
        limits, offered = connected.get("limits"), connected.get("features")
        named = limits.get("max_frame_bytes") if isinstance(limits, dict) else None
        if isinstance(named, int) and not isinstance(named, bool) and named > 0:
            self.frame_limit = named
        self.features = frozenset(offered if isinstance(offered, list) else ()) & frozenset(FEATURES)
        calls = Calls(
            self._send,
            self._threads,
            frame_limit=self.frame_limit,
            progress_interval=0.1 if "progress" in self.features else None,
            events="agent" in self.features,
            on_call=self._on_call,
        )
        await self._device.on_connected(connected, self)
        try:
            while True:
                frame = await self._receive()
                match frame.get("type"):
                    case "invoke":
                        calls.start(frame, self._device.capabilities)
                    case "cancel":
                        calls.cancel(frame.get("request_id"))
                    case "ping":
                        await self._send(b'{"type":"pong"}')
                    case "approved":
                        self._device.on_approved(frame)
                    case "error":
                        raise _refusal(frame)
        finally:
            await calls.close()

    def _verdict(self, closed: ConnectionClosed) -> Refused | Lost:
        code = closed.rcvd.code if closed.rcvd else 1006
        reason = clean_text(closed.rcvd.reason, _TEXT) if closed.rcvd else ""
        match code:
            case _ if code == CLOSE_REVOKED:
                return Revoked(reason or "this device was revoked; run it again to ask for a new approval")
            case _ if code == CLOSE_REPLACED:
                return Refused(_REPLACED)
            case _ if code == CLOSE_REFUSED:
                return Refused(reason or "the gateway refused this device")
            case _ if code == CLOSE_PROTOCOL:
                return Refused(f"the gateway speaks another protocol ({reason or 'closed with 1002'})")
        if closed.rcvd is None and closed.sent is not None:
            return Lost(f"closed by this side with {closed.sent.code} {clean_text(closed.sent.reason, _TEXT)}".strip())
        return Lost(f"the connection was closed ({code}{f' {reason}' if reason else ''})")


def _refusal(frame: dict[str, Any]) -> Refused | Lost:
    message = _text(frame, "message") or "the gateway refused this device"
    if frame.get("retryable") is True:
        return Lost(message)
    if frame.get("code") == "replaced":
        return Refused(_REPLACED)
    text = f"{message} {_text(frame, 'hint')}".strip()
    return Revoked(text) if frame.get("code") == "revoked" else Refused(text)


def _text(frame: dict[str, Any], field: str, limit: int = _TEXT) -> str:
    return clean_text(frame.get(field), limit)
