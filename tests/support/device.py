"""A device of the plainest kind: a WebSocket, JSON, and nothing of this package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from .frames import next_close, next_frame


class BareDevice:
    """One connection of a device that a test plays by hand.

    Use as ``async with BareDevice(url, name) as device``; then :meth:`recv`, :meth:`send`, or :meth:`answer` in the
    background with a function from (command, params) to a result.
    """

    def __init__(self, url: str, name: str = "MyPhone", capabilities: Any = None, **connect: Any) -> None:
        self.url = url
        self.hello: dict[str, Any] = {
            "type": "connect",
            "display_name": name,
            "platform": "test",
            "capabilities": [{"name": "echo"}] if capabilities is None else capabilities,
            **connect,
        }
        self.ws: ClientConnection
        self.node_id = ""
        self.token = ""
        self.connected: dict[str, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> BareDevice:
        self.ws = await websockets.connect(self.url, compression=None, max_size=None, ping_interval=None)
        await self.send(self.hello)
        return self

    async def __aexit__(self, *_: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await self.ws.close()

    async def send(self, frame: Any) -> None:
        await self.ws.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def recv(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        """Return the next frame, or the next of a type."""
        return await next_frame(self.ws, kind, seconds)

    async def code(self) -> str:
        return str((await self.recv("pending"))["pairing_code"])

    async def joined(self) -> dict[str, Any]:
        """Wait for ``connected`` and remember id and token."""
        self.connected = await self.recv("connected")
        self.node_id = self.connected["node_id"]
        self.token = self.connected["device_token"] or self.hello.get("device_token", "")
        return self.connected

    def answer(self, function: Callable[[str, dict[str, Any]], Any] = lambda command, params: params) -> None:
        """Answer every call in the background."""

        async def work() -> None:
            async for text in self.ws:
                frame = json.loads(text)
                if frame["type"] == "invoke":
                    try:
                        reply = {"success": True, "result": function(frame["command"], frame["params"])}
                    except Exception as error:
                        reply = {"success": False, "error": str(error)}
                    await self.send({"type": "result", "request_id": frame["request_id"], **reply})
                elif frame["type"] == "ping":
                    await self.send({"type": "pong"})

        self._tasks.append(asyncio.create_task(work()))

    async def closed(self, seconds: float = 10.0) -> tuple[int, str]:
        """Wait for the close; return code and reason. Frames on the way are dropped."""
        return await next_close(self.ws, seconds)
