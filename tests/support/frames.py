"""Reading a socket by hand, whoever plays at its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection


class PlayedSocket:
    """A socket of JSON frames, and a test at its end."""

    ws: ClientConnection

    async def send(self, frame: Any) -> None:
        await self.ws.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def recv(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        """Return the next frame, or the next of a type."""
        return await next_frame(self.ws, kind, seconds)

    async def code(self) -> str:
        """Return the code under which a device waits."""
        return str((await self.recv("pending"))["pairing_code"])

    async def closed(self, seconds: float = 10.0) -> tuple[int, str]:
        """Wait for the close; return code and reason. Frames on the way are dropped."""
        return await next_close(self.ws, seconds)


async def next_frame(ws: ClientConnection, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
    """Return the next frame, or the next of a type."""
    async with asyncio.timeout(seconds):
        while True:
            frame: dict[str, Any] = json.loads(await ws.recv())
            if kind is None or frame["type"] == kind:
                return frame


async def next_close(ws: ClientConnection, seconds: float = 10.0) -> tuple[int, str]:
    """Wait for the close; return code and reason. Frames on the way are dropped."""
    async with asyncio.timeout(seconds):
        try:
            while True:
                await ws.recv()
        except websockets.ConnectionClosed as error:
            return (error.rcvd.code, error.rcvd.reason) if error.rcvd else (1006, "")


async def send_all(ws: Any, batch: list[str | bytes]) -> int:
    """Send while reading all that comes back; return how many frames went out before the other side closed."""

    async def read() -> None:
        try:
            async for _ in ws:
                pass
        except websockets.ConnectionClosed:
            pass

    reading = asyncio.create_task(read())
    sent = 0
    try:
        for frame in batch:
            await ws.send(frame)
            sent += 1
        async with asyncio.timeout(10):
            await (await ws.ping())  # all of it has been handled when the pong is here
    except websockets.ConnectionClosed:
        pass
    reading.cancel()
    return sent
