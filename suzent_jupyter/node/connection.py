"""One connection of a device: handshake, frames in, frames out, and what its end means."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from ..protocol.device import FEATURES, ConnectMessage, UpdateMessage
from ..protocol.errors import SuzentError
from ..protocol.limits import MIB
from ..protocol.wire import decode
from .calls import Calls, OnCall
from .capability import Capability
from .fetching import Fetcher
from .prompts import OnPermission, Prompts
from .threads import Threads
from .verdicts import Lost, refusal, text_of, verdict

log = logging.getLogger(__name__)

#: A result frame's bytes where the gateway names no limit: what uvicorn, under Suzent, takes by default.
PLAIN_FRAME_BYTES = 16 * MIB
_FIRST_ANSWER = 30.0  # seconds until pending, connected or error


class Device(Protocol):
    """The host, as a connection sees it."""

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Name → capability."""

    @property
    def on_permission(self) -> OnPermission | None:
        """What asks the person at this device."""

    @property
    def fetcher(self) -> Fetcher:
        """What gets the files of calls."""

    def own_features(self) -> list[str]:
        """Return what is announced beside what the protocol does anyway."""

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

    _welcome = "connected"

    def __init__(self, socket: ClientConnection, device: Device, threads: Threads, on_call: OnCall | None) -> None:
        self._socket = socket
        self._device = device
        self._threads = threads
        self._on_call = on_call
        self.features: frozenset[str] = frozenset()
        self.frame_limit = PLAIN_FRAME_BYTES
        ask = device.on_permission
        self._prompts = Prompts(self._send, ask) if ask is not None else None

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
            async with asyncio.timeout(_FIRST_ANSWER) as patience:
                await self._greet()
                connected = await self._admitted(patience)
        except TimeoutError:
            raise Lost(f"the gateway did not answer within {_FIRST_ANSWER:g} s") from None
        except ConnectionClosed as error:
            raise verdict(error) from None
        try:
            await self._converse(connected)
        except ConnectionClosed as error:
            raise self._end(error) from None

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

    async def _greet(self) -> None:
        await self._send(self._device.connect_message().encode())

    async def _admitted(self, patience: asyncio.Timeout) -> dict[str, Any]:
        """Return the frame that says that the handshake is over."""
        while True:
            frame = await self._receive()
            match frame.get("type"):
                case "pending":
                    patience.reschedule(None)  # people take their time
                    self._device.on_pending(text_of(frame, "pairing_code", 64), text_of(frame, "message"))
                case kind if kind == self._welcome:
                    return frame
                case "error":
                    raise refusal(frame)
                case "ping":
                    await self._send(b'{"type":"pong"}')

    def _end(self, closed: ConnectionClosed) -> Exception:
        """Return what the end of a connection that was in use means."""
        return verdict(closed)

    async def _converse(self, connected: dict[str, Any]) -> None:
        limits, offered = connected.get("limits"), connected.get("features")
        self.frame_limit = whole(limits, "max_frame_bytes") or self.frame_limit
        self.features = frozenset(offered if isinstance(offered, list) else ()) & frozenset(FEATURES)
        calls = Calls(
            self._send,
            self._threads,
            frame_limit=self.frame_limit,
            progress_interval=0.1 if "progress" in self.features else None,
            events="agent" in self.features,
            on_call=self._on_call,
            fetcher=self._device.fetcher,
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
                    case "permission.request" | "permission.resolved":
                        self._prompted(frame)
                    case "error":
                        raise refusal(frame)
        finally:
            await self._close_prompts()
            await calls.close()

    def _prompted(self, frame: dict[str, Any]) -> None:
        """Take a frame about a permission prompt."""
        if self._prompts is not None:
            self._prompts.take(frame)

    async def _close_prompts(self) -> None:
        if self._prompts is not None:
            await self._prompts.close()


def whole(fields: Any, name: str) -> int | None:
    """Return a field that is a whole number above 0; None where it is none."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
