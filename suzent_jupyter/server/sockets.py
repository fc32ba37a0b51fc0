"""WebSockets over Tornado: the transport the gateway talks through, and the handlers of both socket routes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import Any, Protocol

from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketHandler

from ..gateway import Authority
from ..gateway.principals import NOBODY
from ..gateway.turns import LARGE_BYTES
from ..protocol.errors import CLOSE_GOING_AWAY, SuzentError
from .auth import client_address, find_token, has_forwarding_headers, is_loopback, peer_address
from .handlers import Caller, http_error
from .refusal import refuse
from .routes import Route
from .service import GatewayService

_TEXT, _PING = 0x81, 0x89
_LARGE = 4096
_UNREAD_PONGS = 1000  # of up to 125 bytes each


class SocketTransport:
    """One WebSocket as :class:`~suzent_jupyter.gateway.transport.Transport`.

    Frames are written to the stream here rather than by ``write_message``, which makes a task for each. Server frames
    are unmasked (RFC 6455 section 5.1), so a frame is a short head and the bytes.
    """

    def __init__(self, handler: SocketHandler) -> None:
        connection = handler.ws_connection
        assert connection is not None
        self._handler = handler
        self._connection: Any = connection
        self._stream: Any = connection.stream
        self._loop = asyncio.get_running_loop()
        address = peer_address(handler.request)
        self.local = is_loopback(address) and not has_forwarding_headers(handler.request.headers)
        client, shared = client_address(handler.request)
        self.remote = client or str(handler.request.remote_ip)
        self.limited = not shared
        self.received_at = self.moved_at = self._loop.time()
        self.content_bytes = 0
        self._unread = 0
        self._watch_bytes()

    def _watch_bytes(self) -> None:
        """Notice every byte that moves, also within a frame that takes minutes: `IOStream`'s two I/O hooks."""
        stream, read, write = self._stream, self._stream.read_from_fd, self._stream.write_to_fd

        def read_from_fd(buffer: bytearray | memoryview) -> int | None:
            count: int | None = read(buffer)
            if count:
                self.received_at = self.moved_at = self._loop.time()
                self.content_bytes += count
            return count

        def write_to_fd(data: memoryview) -> int:
            count: int = write(data)
            if count:
                self.moved_at = self._loop.time()
            return count

        stream.read_from_fd = read_from_fd
        stream.write_to_fd = write_to_fd

    def not_content(self, payload: bytes) -> None:
        """Take note that a ping or pong was among what came in: two bytes, a mask of four, and its payload."""
        self.content_bytes -= 6 + len(payload)

    def answered(self) -> None:
        """Cut off whoever pings and pings and does not read the answers: they would pile up here."""
        self._unread = self._unread + 1 if self._stream.writing() else 0
        if self._unread > _UNREAD_PONGS:
            self.abort()

    def send(self, *parts: bytes | memoryview) -> asyncio.Future[None] | None:
        """Send one text frame."""
        return self._write(_TEXT, *parts)

    def ping(self, payload: bytes) -> asyncio.Future[None] | None:
        """Send an RFC 6455 ping."""
        return self._write(_PING, payload)

    def _write(self, first: int, *parts: bytes | memoryview) -> asyncio.Future[None] | None:
        if self._connection.is_closing():
            return None
        size = sum(map(len, parts))
        if size < 126:
            head = bytes((first, size))
        elif size < 0x10000:
            head = struct.pack("!BBH", first, 126, size)
        else:
            head = struct.pack("!BBQ", first, 127, size)
        try:
            if size < _LARGE:
                written = self._stream.write(b"".join((head, *parts)))
            else:
                self._stream.write(head)
                for part in parts:
                    written = self._stream.write(part)  # kept, not copied, where it is large
        except StreamClosedError:
            return None
        if written.done():
            written.exception()
            return None
        pending: asyncio.Future[None] = written
        return pending

    def close(self, code: int, reason: str = "") -> None:
        """Close with a code."""
        self._handler.close(code, reason)

    def abort(self) -> None:
        """Close without a word."""
        self._stream.close()

    def allow_bytes(self, maximum: int) -> None:
        """Set the largest message read from now on; a larger one closes the socket with 1009."""
        self._connection.params.max_message_size = maximum


class Link(Protocol):
    """The gateway's end of a socket."""

    def receive(self, data: str | bytes) -> None: ...
    def pong(self, payload: bytes) -> None: ...
    def closed(self) -> None: ...


class SocketHandler(WebSocketHandler, Caller):
    """Serves one socket route on the listener."""

    link: Link | None = None
    transport: SocketTransport | None = None
    _held: str | bytes | None = None

    def initialize(self, service: GatewayService, routes: dict[str, Route]) -> None:
        """Take what the mount hands over."""
        self.service = service
        self.socket_route = routes["WS"]

    @property
    def max_message_size(self) -> int:
        """What Tornado reads at the most before the link has its say."""
        return int(self.service.gateway.limits.first_frame_bytes)

    def get_compression_options(self) -> None:
        """Negotiate no permessage-deflate: it costs 4 to 7 times the throughput."""

    def prepare(self) -> Awaitable[None] | None:
        """Find out who asks, before the handshake is answered."""
        self.check_upgrade()
        if self.socket_route.recognises and self.shows_who_asks():
            return self._recognise()
        return self.find_caller(self.socket_route.authority)

    def shows_who_asks(self) -> bool:
        """Tell whether something came along that may say who asks."""
        return find_token(self.request.headers) is not None

    async def _recognise(self) -> None:
        """Find out who asks; whoever shows nothing that is worth everything is nobody, and may come all the same."""
        try:
            finding = self.find_caller(Authority.FULL)
            if finding is not None:
                await finding
        except SuzentError as error:
            if error.code not in ("unauthorized", "forbidden"):
                raise
            self.principal = NOBODY

    def check_upgrade(self) -> None:
        """Refuse a plain request: ``upgrade_required``."""
        if self.request.headers.get("Upgrade", "").casefold() != "websocket":
            raise SuzentError("upgrade_required", "This URL is a WebSocket.")

    def check_origin(self, origin: str) -> bool:
        """Let no page of another origin in. Programs send no Origin and are not asked."""
        scheme, _, place = origin.casefold().partition("://")
        return scheme in ("http", "https") and place == self.request.headers.get("Host", "").casefold()

    def open(self, *_args: str, **_kwargs: str) -> None:
        """Hand the socket to the gateway."""
        self.set_nodelay(True)
        transport = self.transport = SocketTransport(self)
        self.service.open_sockets.add(transport)
        if not self.service.running:
            transport.close(CLOSE_GOING_AWAY, "the gateway is stopping")
            return
        if self.socket_route.endpoint == "device":
            self.link = self.service.gateway.open_device(transport)
        elif self.socket_route.endpoint == "multinode":
            self.link = self.service.gateway.open_multinode(transport, self.principal)
        else:
            self.link = self.service.gateway.open_client(transport, self.principal)

    def on_message(self, message: str | bytes) -> Awaitable[None] | None:
        """Pass a message on; a large one when its turn comes, and until then nothing more is read from this socket."""
        if self.link is None:
            return None
        if len(message) < LARGE_BYTES or (turn := self.service.gateway.turns.large_turn()) is None:
            self.link.receive(message)
            return None
        self._held = message
        return self._wait_for(turn)

    async def _wait_for(self, turn: Awaitable[None]) -> None:
        await turn
        self._pass_on()

    def _pass_on(self) -> None:
        message, self._held = self._held, None
        if message is not None and self.link is not None:
            self.link.receive(message)

    def on_pong(self, data: bytes) -> None:
        """Pass a pong on."""
        if self.transport is not None:
            self.transport.not_content(data)
        if self.link is not None:
            self.link.pong(data)

    def on_ping(self, data: bytes) -> None:
        """Take note of a ping; it has been answered."""
        if self.transport is not None:
            self.transport.not_content(data)
            self.transport.answered()

    def on_close(self) -> None:
        """Tell the link, and let go of it."""
        self.service.open_sockets.discard(self.transport)
        self._pass_on()  # it came before the end
        if self.link is not None:
            self.link.closed()
            self.link = None

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log bugs, not refusals."""
        if not isinstance(value, SuzentError):
            super().log_exception(typ, value, tb)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Refuse a handshake with an error body."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, SuzentError):
            error = http_error(status_code, getattr(error, "log_message", None) or "")
        if self._headers_written:
            return
        self.clear()
        refuse(self, error)
