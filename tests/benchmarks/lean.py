"""A minimal keep-alive HTTP client and a minimal device, so that neither is what gets measured."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Callable

import websockets


class LeanClient:
    """One connection; answers are read by Content-Length and not parsed."""

    def __init__(self, port: int, path: str, token: str = "") -> None:
        self._port = port
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        self._head = (head + (f"Authorization: Bearer {token}\r\n" if token else "")).encode()

    async def open(self) -> LeanClient:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        return self

    async def post(self, body: bytes) -> bytes:
        self._writer.write(self._head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        start = lower.index(b"content-length:") + 15
        answer = await self._reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))
        if b" 200 " not in head[:16]:
            raise RuntimeError(answer[:300].decode())
        return answer

    def close(self) -> None:
        self._writer.close()


async def echo_device(url: str, connect: dict[str, object] | None, ready: Callable[[dict[str, object]], None]) -> None:
    """Answer every invoke frame with its own parameters, as text spliced from text."""
    async with websockets.connect(url, compression=None, max_size=None, ping_interval=None) as ws:
        if connect is not None:
            await ws.send(json.dumps(connect))
        async for text in ws:
            frame_type = text[:40]
            if '"invoke"' in frame_type:
                # {"type":"invoke","request_id":"…","command":"…","params":{…},"timeout":…}
                start = text.index('"request_id":"') + 14
                request_id = text[start : text.index('"', start)]
                params = text[text.index('"params":') + 9 : text.rindex(',"timeout"')]
                await ws.send(
                    '{"type":"result","request_id":"' + request_id + '","success":true,"result":' + params + "}"
                )
            elif '"ping"' not in frame_type:
                ready(json.loads(text))


async def idle_device(port: int, name: str, token: str) -> asyncio.StreamWriter:
    """Connect a device that does nothing more; only the bytes of the handshake, so that the gateway's share shows."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /ws/node HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    hello = {"type": "connect", "display_name": name, "capabilities": [{"name": "echo"}], "device_token": token}
    frame = json.dumps(hello).encode()
    writer.write(struct.pack("!BBH", 0x81, 0x80 | 126, len(frame)) + b"\0\0\0\0" + frame)  # masked by zeros
    assert b'"connected"' in await reader.readuntil(b'"connected"')
    return writer


async def rate(clients: list[LeanClient], body: bytes, seconds: float) -> tuple[float, float]:
    """Return calls per second and the median latency in milliseconds with one call in flight per client."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def work(client: LeanClient) -> None:
        while (start := time.perf_counter()) < end:
            await client.post(body)
            latencies.append(time.perf_counter() - start)

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    took = time.perf_counter() - began
    latencies.sort()
    return len(latencies) / took, latencies[len(latencies) // 2] * 1000
