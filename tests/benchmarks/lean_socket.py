"""A WebSocket of the least kind: frames out in bulk, bytes in unparsed, so that it is not what gets measured."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any


def packed(text: str) -> bytes:
    """Return one text frame as it goes over the wire, masked by zeros (RFC 6455, section 5.3)."""
    data = text.encode()
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x81, 0x80 | size)
    elif size < 2**16:
        head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
    return head + b"\0\0\0\0" + data


class LeanSocket:
    """One connection: :meth:`send` and :meth:`recv` for single frames, :attr:`reader` and :attr:`writer` for many."""

    def __init__(self, port: int, path: str, token: str = "") -> None:
        self._port = port
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self._head = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{bearer}"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> LeanSocket:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        self.writer.write(self._head)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer[:16], answer
        return self

    def send(self, **frame: Any) -> None:
        self.writer.write(packed(json.dumps(frame)))

    async def recv(self, kind: str = "") -> dict[str, Any]:
        """Return the next text frame, or the next of a type."""
        while True:
            first, size = await self.reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            data = await self.reader.readexactly(size)
            if first & 0x0F == 1 and (not kind or json.loads(data)["type"] == kind):
                return dict(json.loads(data))

    def close(self) -> None:
        self.writer.transport.abort()
