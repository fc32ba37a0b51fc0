"""A device of the plainest kind: a WebSocket, JSON, and nothing of this package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import websockets

from .frames import PlayedSocket


class BareDevice(PlayedSocket):
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
