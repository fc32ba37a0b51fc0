"""An HTTP server that strangers can't fill up: with connections that ask for nothing, or slowly.

Who has shown a valid token on a connection is *known*; all others are strangers, and of them there are only so many at
a time. The oldest makes room for the newest, so that somebody with a token gets in while a thousand connections lie
open: a token takes one round trip, and an old stranger has had its time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate
from tornado.iostream import IOStream

from ...gateway.households import counted_as
from ...protocol.limits import Limits
from ..auth import is_loopback

log = logging.getLogger("suzent_jupyter")

# Each costs a stream and a coroutine; what else the loop does has its turn between them.
_ACCEPTED_AT_ONCE = 2
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_PAUSE_AFTER_FAILURE = 0.1
_TOLD_EVERY = 60.0
_REFUSED_BODY = 256 * 1024 * 1024  # read and dropped up to here, so that whoever sends gets to read why


class Strangers:
    """The connections that have shown no valid token yet, oldest first.

    Parameters
    ----------
    limits : Limits
        ``connections_unknown``, ``connections_per_address`` and ``request_timeout``.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[Any, tuple[IOStream, str, float]] = {}
        self._by_address: dict[str, dict[Any, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, context: Any, stream: IOStream, address: str) -> None:
        """Count a connection; close the oldest of its address, or of all, when there are too many."""
        shared = is_loopback(address)  # also a proxy's on this machine: then it counts against the total alone
        address = "" if shared else counted_as(address)
        same = self._by_address.get(address, {})
        if address and len(same) >= self._limits.connections_per_address:
            self._close(next(iter(same)))
        if len(self._waiting) >= self._limits.connections_unknown:
            self.close_oldest()
        context.suzent_strangers = self
        self._enter(context, stream, address)

    def waits_again(self, context: Any) -> None:
        """Give a stranger that was answered its time for the next request."""
        entry = self._waiting.pop(context, None)
        if entry is not None:
            self._by_address.get(entry[1], {}).pop(context, None)
            self._enter(context, entry[0], entry[1])

    def _enter(self, context: Any, stream: IOStream, address: str) -> None:
        due = asyncio.get_running_loop().time() + self._limits.request_timeout
        self._waiting[context] = stream, address, due
        if address:
            self._by_address.setdefault(address, {})[context] = None
        self._watch()

    def forget(self, context: Any) -> None:
        """Count a connection no longer: it is known, has become a WebSocket, or is closed."""
        context.suzent_strangers = None
        entry = self._waiting.pop(context, None)
        if entry is not None and (same := self._by_address.get(entry[1])) is not None:
            same.pop(context, None)
            if not same:
                del self._by_address[entry[1]]

    def close_oldest(self) -> bool:
        """Close the connection that has waited longest; False if there is none."""
        if not self._waiting:
            return False
        self._close(next(iter(self._waiting)))
        return True

    def _close(self, context: Any) -> None:
        stream = self._waiting[context][0]
        self.forget(context)
        stream.close()

    def _watch(self) -> None:
        if self._timer is None and self._waiting:
            due = next(iter(self._waiting.values()))[2]
            self._timer = asyncio.get_running_loop().call_at(due, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._waiting and next(iter(self._waiting.values()))[2] <= now:
            self.close_oldest()
        self._watch()

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class GuardedServer(HTTPServer):
    """Tornado's server with :class:`Strangers`, few connections accepted at a time, and timeouts.

    Use as :class:`tornado.httpserver.HTTPServer`, with ``limits`` and, where several servers share them, ``strangers``.
    """

    def initialize(  # type: ignore[override]
        self, request_callback: Any, limits: Limits, strangers: Strangers | None = None, **options: Any
    ) -> None:
        """Take what :class:`Configurable` hands over."""
        self.strangers = strangers if strangers is not None else Strangers(limits)  # an empty one is false
        usual = {
            "max_body_size": _REFUSED_BODY,
            "max_header_size": 2 * int(limits.header_bytes),
            "idle_connection_timeout": limits.idle_timeout,
        }
        super().initialize(request_callback, xheaders=False, **{**usual, **options})

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections, a few at a time; while there is no file descriptor left, after a pause."""
        for each in sockets:
            self._sockets[each.fileno()] = each
            self._handlers[each.fileno()] = self._accept_from(each)

    def _accept_from(self, listening: socket.socket) -> Any:
        loop = asyncio.get_running_loop()
        resume: asyncio.TimerHandle | None = None
        told_at = -_TOLD_EVERY

        def accept() -> None:
            for _ in range(_ACCEPTED_AT_ONCE):
                try:
                    connection, address = listening.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    return
                except OSError as error:
                    failed(error)
                    return
                self._handle_connection(connection, address)

        def failed(error: OSError) -> None:
            nonlocal resume, told_at
            if error.errno in _NO_FILES and self.strangers.close_oldest():
                return
            if loop.time() - told_at >= _TOLD_EVERY:
                told_at = loop.time()
                log.error("The gateway can't take a connection: %s", error.strerror or error)
            loop.remove_reader(listening)
            resume = loop.call_later(_PAUSE_AFTER_FAILURE, start)

        def start() -> None:
            nonlocal resume
            resume = None
            loop.add_reader(listening, accept)

        def stop() -> None:
            loop.remove_reader(listening)
            if resume is not None:
                resume.cancel()

        start()
        return stop

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Wait for the next request of a connection."""
        connection: Any = request_conn
        context = connection.context
        if not hasattr(context, "suzent_strangers"):
            peer = context.address[0] if isinstance(context.address, tuple) and context.address else ""
            self.strangers.add(context, connection.stream, str(peer))
        elif context.suzent_strangers is not None:
            self.strangers.waits_again(context)
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        """Forget a connection that was closed or became a WebSocket."""
        connection: Any = server_conn
        self.strangers.forget(connection.context)
        super().on_close(server_conn)

    def stop(self) -> None:
        """Take no new connections."""
        self.strangers.stop()
        super().stop()
