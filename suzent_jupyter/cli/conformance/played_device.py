"""A device as a gateway sees it, whose every word is decided by the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from websockets.asyncio.client import ClientConnection, connect

from ...protocol.limits import Limits
from .talk import Frame, Talk

#: Answers an ``invoke`` frame: a result frame without type and id, or None for no answer.
Answer: TypeAlias = Callable[[Frame], Coroutine[Any, Any, Frame | None]]

ECHO: Frame = {"name": "conformance.echo", "description": "Echo", "params_schema": {"text": "str", "level": "int"}}
FEATURES = ["cancel", "progress", "update"]


async def echo(frame: Frame) -> Frame:
    """Answer with the parameters."""
    return {"success": True, "result": frame.get("params")}


class PlayedDevice(Talk):
    """One connection to a gateway, as a device.

    Attributes
    ----------
    invokes : list of dict
        The ``invoke`` frames that came.
    live : bool
        Whether it was connected, so that closing it with 1000 or 1001 would hurt old devices.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.answer: Answer = echo
        self.invokes: list[Frame] = []
        self.live = False
        self.left = False
        self._answers: set[asyncio.Task[None]] = set()
        super().__init__(socket)

    @classmethod
    async def open(cls, url: str, **options: Any) -> PlayedDevice:
        """Open a socket and say nothing yet."""
        defaults = {"compression": None, "max_size": Limits().socket_bytes, "ping_interval": None, "close_timeout": 2}
        return cls(await connect(url, proxy=None, **{**defaults, **options}))

    async def join(self, name: str, *, token: str = "", features: list[str] | None = None, **more: Any) -> Frame:
        """Send ``connect`` and return the first answer."""
        frame: Frame = {"type": "connect", "display_name": name, "platform": "test", "capabilities": [ECHO]}
        frame |= {"device_token": token, **({} if features is None else {"features": features}), **more}
        await self.send(frame)
        answer = await self.wait_for(lambda frame: True, seconds=10)
        self.live = answer.get("type") == "connected"
        return answer

    def heard(self, frame: Frame) -> None:
        """Answer calls."""
        self.live = self.live or frame.get("type") == "connected"
        if frame.get("type") == "invoke":
            self.invokes.append(frame)
            task = asyncio.create_task(self._reply(frame))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    async def result(self, frame: Frame, **fields: Any) -> None:
        """Answer an ``invoke`` frame."""
        await self.send({"type": "result", "request_id": frame.get("request_id"), **fields})

    async def called(self, number: int = 0, *, seconds: float = 5.0) -> Frame:
        """Return the call of this number, counted from 0."""
        await self.wait_for(lambda frame: len(self.invokes) > number, seconds=seconds)
        return self.invokes[number]

    async def leave(self) -> None:
        """Hang up."""
        self.left = True
        for task in self._answers:
            task.cancel()
        await self.close()

    async def _reply(self, frame: Frame) -> None:
        answer = await self.answer(frame)
        if answer is not None and self.close_code is None:
            await self.result(frame, **answer)
