"""``memory.query`` and ``memory.save`` of an app node: which spaces that may touch, the gateway alone decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ...protocol.errors import SuzentError
from ...protocol.memory import LEVELS, MemoryRequest, MemoryResult
from ...protocol.wire import is_frame_id
from ..failures import internal
from ..memory.reach import Reach, reach_in, reach_outside
from ..principals import Principal

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession


class Remembering:
    """What one node's socket asks of the memory.

    Parameters
    ----------
    principal : Principal
        Whom the socket acts as.
    session : NodeSession
        The node.
    send : callable
        Sends a frame (a dict).
    """

    def __init__(
        self, gateway: Gateway, principal: Principal, session: NodeSession, send: Callable[[dict[str, Any]], None]
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._session = session
        self._send = send
        self._under_way: set[asyncio.Task[None]] = set()

    def receive(self, frame: dict[str, Any]) -> None:
        """Take a frame; ``SuzentError`` for one that is none."""
        request_id = frame.get("id")
        if not is_frame_id(request_id):
            raise SuzentError("bad_frame", "`id` must be text of at most 128 characters or a number.")
        try:
            if len(self._under_way) >= (most := int(self._gateway.limits.calls_in_flight)):
                raise SuzentError("node_busy", f"{most} questions of this connection to the memory are under way.")
            asked = _read(frame)
            reach = self._reach(asked.run_id)
        except SuzentError as error:
            self._refuse(request_id, error)
            return
        # Not cancelled with the socket: what was to be kept is kept.
        task = asyncio.get_running_loop().create_task(self._answer(asked, reach))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _reach(self, run_id: str) -> Reach:
        runs = self._gateway.runs.executed_in(self._session)
        if not run_id:
            return reach_outside(self._principal, runs, self._session)
        for run in runs:
            if run.run_id == run_id:
                if not self._gateway.still_speaks(run.principal):
                    raise SuzentError("unauthorized", "The token that asked for this turn was revoked or paused.")
                return reach_in(run, self._session)
        raise SuzentError("run_unknown", "This node answers no such turn now.")

    async def _answer(self, asked: MemoryRequest, reach: Reach) -> None:
        memories = self._gateway.memories
        result = MemoryResult(id=asked.id, ok=True)
        try:
            if asked.type == "memory.save":
                level = asked.level or "session"
                entry, result.created = await memories.save(reach, level, asked.content, asked.tags)
                found = [entry]
            else:
                levels = LEVELS if asked.level is None else (asked.level,)
                found = await memories.query(reach, asked.query, levels, asked.limit)
        except SuzentError as error:
            self._refuse(asked.id, error)
            return
        except Exception as error:
            self._refuse(asked.id, internal("A node's question to the memory", error))
            return
        result.memories = [entry.model_dump() for entry in found]
        self._send(result.model_dump())

    def _refuse(self, request_id: str | int, error: SuzentError) -> None:
        told = {"code": error.code, "message": error.message, "hint": error.hint, "retryable": error.retryable}
        self._send(MemoryResult(id=request_id, ok=False, error=told).model_dump())


def _read(frame: dict[str, Any]) -> MemoryRequest:
    try:
        return MemoryRequest.model_validate(frame)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "frame"
        raise SuzentError("invalid_request", f"`{place}`: {first['msg']}.") from None
