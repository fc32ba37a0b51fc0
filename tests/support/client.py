"""A bare ``/ws/client`` socket."""

from __future__ import annotations

import json
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from .frames import next_close, next_frame
from .gateways import Addresses


class BareClient:
    """One client connection a test plays by hand: ``async with BareClient(gateway) as client``."""

    def __init__(self, gateway: Addresses, token: str | None = None, **options: Any) -> None:
        self._url = gateway.client_url
        self._token = gateway.token if token is None else token
        self._options = options
        self.ws: ClientConnection
        self.hello: dict[str, Any] = {}

    async def __aenter__(self) -> BareClient:
        self.ws = await websockets.connect(
            self._url,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            **{"compression": None, "max_size": None, "ping_interval": None, **self._options},
        )
        self.hello = await self.recv("hello")
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.ws.close()

    async def send(self, **frame: Any) -> None:
        await self.ws.send(json.dumps(frame))

    async def recv(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        """Return the next frame, or the next of a type."""
        return await next_frame(self.ws, kind, seconds)

    async def change(self, topic: str, kind: str | None = None) -> dict[str, Any]:
        """Return the next change of a topic, or the next of a kind."""
        while True:
            frame = await self.recv("change")
            if frame["topic"] == topic and kind in (None, frame["kind"]):
                return frame

    async def closed(self, seconds: float = 10.0) -> tuple[int, str]:
        return await next_close(self.ws, seconds)
