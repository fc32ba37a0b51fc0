"""A gateway as a device sees it: a small WebSocket server whose every word is decided by the caller."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from ...protocol.limits import Limits
from .talk import Frame, Talk

FRAME_BYTES = Limits().frame_bytes


class Visit(Talk):
    """One connection of a device."""

    def __init__(self, socket: ServerConnection) -> None:
        super().__init__(socket)
        self.came_at = time.monotonic()
        request = socket.request
        self.offered_extensions = request.headers.get_all("Sec-WebSocket-Extensions") if request else []

    @property
    def connect_frame(self) -> Frame:
        """The first frame."""
        return self.frames[0]

    async def welcome(self, *, token: str = "", node_id: str = "node-1", legacy: bool = False, **more: Any) -> None:
        """Say ``connected``; as Suzent's gateway does with ``legacy``, else with limits and features."""
        ours = {
            "limits": {"max_frame_bytes": FRAME_BYTES},
            "features": ["cancel", "progress", "update"],
            "approved": [],
        }
        await self.send(
            {"type": "connected", "node_id": node_id, "device_token": token, **({} if legacy else ours), **more}
        )

    async def call(self, command: str, params: Any = None, *, timeout: float | None = 10.0, **more: Any) -> str:  # noqa: ASYNC109
        """Send an ``invoke`` and return its id."""
        request_id = str(uuid.uuid4())
        frame = {"type": "invoke", "request_id": request_id, "command": command, "params": params or {}, **more}
        await self.send(frame if timeout is None else {**frame, "timeout": timeout})
        return request_id

    async def answer(self, request_id: str, *, seconds: float = 10.0) -> Frame:
        """Return the result of a call."""
        return await self.wait_for(
            lambda frame: frame.get("type") == "result" and frame.get("request_id") == request_id, seconds=seconds
        )

    async def invoke(self, command: str, params: Any = None, *, seconds: float = 10.0, **more: Any) -> Frame:
        """Call and return the result frame."""
        return await self.answer(await self.call(command, params, **more), seconds=seconds)

    def about(self, request_id: str, kind: str) -> list[Frame]:
        """Return the frames of this type about one call."""
        return [frame for frame in self.frames if frame.get("type") == kind and frame.get("request_id") == request_id]


class PlayedGateway:
    """Waits for devices on ``/ws/node``.

    Attributes
    ----------
    url : str
        Where devices find it.
    visits : list of Visit
        Every connection so far whose first frame came.
    """

    def __init__(self) -> None:
        self.url = ""
        self.visits: list[Visit] = []
        self._news = asyncio.Condition()

    async def visit(self, number: int | None = None, *, seconds: float = 10.0) -> Visit:
        """Return the connection of this number, counted from 0; by default the next one that was not returned yet."""
        async with asyncio.timeout(seconds), self._news:
            wanted = self._returned if number is None else number
            await self._news.wait_for(lambda: len(self.visits) > wanted)
            self._returned = max(self._returned, wanted + 1)
            return self.visits[wanted]

    _returned = 0

    async def _serve(self, socket: ServerConnection) -> None:
        visit = Visit(socket)
        with contextlib.suppress(TimeoutError, ConnectionError):
            await visit.wait_for(lambda frame: True, seconds=15)
            async with self._news:
                self.visits.append(visit)
                self._news.notify_all()
        await visit.ended(seconds=24 * 3600)


@contextlib.asynccontextmanager
async def played_gateway(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[PlayedGateway]:
    """Run a :class:`PlayedGateway` on a port of this machine (0: any free one)."""
    gateway = PlayedGateway()
    async with serve(
        gateway._serve,
        host,
        port,
        compression=None,
        max_size=Limits().socket_bytes,
        ping_interval=None,
        close_timeout=1,
    ) as server:
        bound = next(iter(server.sockets)).getsockname()[1]
        gateway.url = f"ws://{host}:{bound}/ws/node"
        try:
            yield gateway
        finally:
            for visit in gateway.visits:
                visit.abort()
