"""A server whose user's gateway runs in another server: it keeps a line to that one and forwards to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
from tornado.httputil import HTTPHeaders, HTTPServerRequest, parse_response_start_line
from tornado.iostream import IOStream, StreamClosedError

from ...protocol.errors import SuzentError
from .forwarded import LINE_PATH, SECRET_HEADER, ForwardedCaller, onward, travels_back
from .host_file import HostFacts

_LINE_SECONDS = 10.0  # until the gateway answers; it may still be loading
_LAST_WORDS_SECONDS = 1.0
_HEAD_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_ERROR_BYTES = 1024 * 1024
_IN_TARGET = bytes(range(0x21, 0x7F))  # what HTTP takes there


def gone() -> SuzentError:
    """Return the refusal while one gateway is gone and the next not there yet."""
    return SuzentError("stopping", "The gateway has just gone; another server takes its place.")


class Guest:
    """One server's connection to its gateway. Make it with :meth:`connect`.

    Attributes
    ----------
    facts : HostFacts
        Whose guest this is.
    """

    def __init__(self, facts: HostFacts, line: IOStream) -> None:
        self.facts = facts
        self._line = line
        self._sockets: weakref.WeakSet[IOStream] = weakref.WeakSet()
        # Calls may take as long as their own deadline; the gateway is on this machine and no proxy is between.
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{facts.door_port}",
            timeout=httpx.Timeout(None, connect=_LINE_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            follow_redirects=False,
            # Never used; the usual one reads all authorities' certificates, which would hold up the event loop.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            headers={},
        )
        self._http.headers.clear()  # what the caller sent, and nothing of ours

    @classmethod
    async def connect(cls, facts: HostFacts) -> Guest | None:
        """Return a guest of the gateway that ``facts`` name; None if nobody answers there who knows the secret."""
        stream = _new_stream()
        try:
            async with asyncio.timeout(_LINE_SECONDS):
                await stream.connect(("127.0.0.1", facts.door_port))
                head = f"GET {LINE_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n{SECRET_HEADER}: {facts.secret}\r\n\r\n"
                await stream.write(head.encode())
                status, _ = await _read_head(stream)
                if status == 200:
                    return cls(facts, stream)
        except (OSError, StreamClosedError, TimeoutError, ValueError):
            pass
        except BaseException:
            stream.close()
            raise
        stream.close()
        return None

    async def lost(self) -> None:
        """Return when the gateway is gone."""
        with contextlib.suppress(StreamClosedError):
            while await self._line.read_bytes(_CHUNK, partial=True):
                pass

    async def close(self) -> None:
        """Hang up, everywhere."""
        self._line.close()
        for stream in list(self._sockets):
            stream.close()
        await self._http.aclose()

    async def send(
        self, request: HTTPServerRequest, path: str, caller: ForwardedCaller, body: AsyncIterator[bytes] | None
    ) -> httpx.Response:
        """Forward a request and return the answer, its body unread; close it.

        Raises
        ------
        SuzentError
            ``stopping`` when the gateway is gone.
        """
        if self._http.is_closed:
            raise gone()
        headers = onward(request.headers, caller, self.facts.secret)
        try:
            # As it came: httpx would take `..` out of a path, and what this server allowed would become another route.
            target = quote(path.encode("latin-1", "replace"), safe=_IN_TARGET).encode()
            onwards = self._http.build_request(
                request.method or "GET", "/", headers=headers, content=body, extensions={"target": target}
            )
            return await self._http.send(onwards, stream=True)
        except httpx.TransportError:
            raise gone() from None

    async def open_socket(
        self, request: HTTPServerRequest, path: str, caller: ForwardedCaller
    ) -> tuple[int, HTTPHeaders, bytes, IOStream]:
        """Forward a WebSocket handshake; return status, headers, the body of a refusal, and the stream if it is 101.

        Raises
        ------
        SuzentError
            ``stopping`` when the gateway is gone.
        """
        # The handshake is passed on as it is, key included, and afterwards byte by byte: so pings, close codes, limits
        # and backpressure are those of the two ends.
        headers = [*onward(request.headers, caller, self.facts.secret), ("Connection", "Upgrade")]
        headers.append(("Upgrade", request.headers.get("Upgrade", "")))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        stream = _new_stream()
        try:
            async with asyncio.timeout(_LINE_SECONDS):
                await stream.connect(("127.0.0.1", self.facts.door_port))
            stream.set_nodelay(True)
            await stream.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace"))
            status, answer = await _read_head(stream)
            if status == 101:
                self._sockets.add(stream)
                return status, answer, b"", stream
            body = await stream.read_bytes(min(int(answer.get("Content-Length", "0")), _ERROR_BYTES))
        except (OSError, StreamClosedError, TimeoutError, ValueError):
            stream.close()
            raise gone() from None
        except BaseException:
            stream.close()
            raise
        stream.close()
        return status, answer, body, stream


async def splice(client: IOStream, gateway: IOStream) -> None:
    """Pass bytes both ways, no faster than they are taken, until either side hangs up; then hang up on the other."""

    async def pump(source: IOStream, sink: IOStream) -> None:
        with contextlib.suppress(StreamClosedError):
            while True:
                await sink.write(await source.read_bytes(_CHUNK, partial=True))

    up, down = asyncio.ensure_future(pump(client, gateway)), asyncio.ensure_future(pump(gateway, client))
    try:
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        if not down.done() and not client.closed():
            await asyncio.wait([down], timeout=_LAST_WORDS_SECONDS)  # the gateway may have said why it hung up
    finally:
        for each in (up, down):
            each.cancel()
        client.close()
        gateway.close()


def answer_headers(headers: Any) -> list[tuple[str, str]]:
    """Return the headers of an answer that are for the caller."""
    return [(name, value) for name, value in headers if travels_back(name)]


def _new_stream() -> IOStream:
    return IOStream(socket.socket(socket.AF_INET))


async def _read_head(stream: IOStream) -> tuple[int, HTTPHeaders]:
    head = (await stream.read_until(b"\r\n\r\n", max_bytes=_HEAD_BYTES)).decode("latin-1")
    first, _, rest = head.partition("\r\n")
    return parse_response_start_line(first).code, HTTPHeaders.parse(rest)
