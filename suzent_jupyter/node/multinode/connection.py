"""One connection to ``/ws/gateway``: challenge and proof, calls and runs in, calls out, ticks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import CLOSE_PROTOCOL, CLOSE_REFUSED, CLOSE_REPLACED, CLOSE_REVOKED
from ...protocol.limits import Limits
from ...protocol.multinode import Challenge, MultinodeConnect, NodeDescription
from ...protocol.permissions import PermissionSummary
from ...protocol.wire import encode
from ..calls import Calls, OnCall
from ..connection import Connection, Device, whole
from ..current import Work, current_work
from ..threads import Threads
from ..verdicts import Lost, Refused, refusal, verdict
from .credentials import Credentials
from .dialect import InvokeDialect, RunDialect
from .requests import OnProgress, Requests
from .ticks import Ticks
from .turns import call_of, question

log = logging.getLogger(__name__)

_LIMITS = Limits()
_SHORTEST_TICK, _LONGEST_TICK = 0.02, 600.0  # seconds
_FINAL_CODES = (CLOSE_PROTOCOL, CLOSE_REFUSED, CLOSE_REPLACED, CLOSE_REVOKED)
_ANSWERS = frozenset(["memory.result", "node.invoke.result", "node.invoke.progress", "node.list"])
_FAR_MS = 1e15  # a whole number may be one that no float can hold
_GRACE = 10.0  # seconds: the gateway is the one that keeps deadlines


class MultinodeDevice(Device, Protocol):
    """The host, as a connection sees it."""

    @property
    def credentials(self) -> Credentials:
        """Its key, and which gateway it signs for."""

    def describe(self) -> NodeDescription:
        """Return what it says of itself."""

    def ticket(self) -> str | None:
        """Return a pairing link's ticket where one may be needed."""

    def work(self, run_id: str = "") -> Work:
        """Return what a call or a run works for."""

    def on_changed(self, node: dict[str, Any]) -> None:
        """Note what the gateway says of a node that changed."""


class MultinodeConnection(Connection):
    """The conversation over one open socket."""

    _welcome = "hello-ok"
    _device: MultinodeDevice

    def __init__(
        self, socket: ClientConnection, device: MultinodeDevice, threads: Threads, on_call: OnCall | None
    ) -> None:
        super().__init__(socket, device, threads, on_call)
        self._requests = Requests(self._send)
        self._told: Refused | Lost | None = None

    # -- the handshake

    async def _greet(self) -> None:
        await self._send(b'{"type":"connect.challenge"}')
        challenge = await self._challenge()
        frame = MultinodeConnect(
            jwt=await asyncio.to_thread(self._device.credentials.prove, challenge),
            node=self._device.describe(),
            features=["cancel", "progress", "update", *self._device.own_features()],
            ticket=self._device.ticket(),
        )
        await self._send(frame.encode())

    async def _challenge(self) -> Challenge:
        while True:
            frame = await self._receive()
            match frame.get("type"):
                case "challenge":
                    try:
                        return Challenge.model_validate(frame)
                    except ValidationError:
                        raise Lost("the gateway's challenge can't be read") from None
                case "error":
                    raise refusal(frame)

    # -- afterwards

    async def _converse(self, connected: dict[str, Any]) -> None:
        policy = connected.get("policy")
        self.frame_limit = whole(policy, "max_payload") or _LIMITS.frame_bytes
        interval = (whole(policy, "tick_interval_ms") or _LIMITS.tick_interval * 1000) / 1000
        await asyncio.to_thread(self._device.credentials.approved)
        ticks = Ticks(self._send, min(_LONGEST_TICK, max(_SHORTEST_TICK, interval)))
        shared: dict[str, Any] = {"on_call": self._on_call, "fetcher": self._device.fetcher}
        calls = Calls(self._send, self._threads, frame_limit=self.frame_limit, **shared)
        runs = Calls(self._send, self._threads, frame_limit=self.frame_limit, **shared)
        await self._device.on_connected(connected, self)
        sending = asyncio.create_task(ticks.send())
        reading = asyncio.create_task(self._read(ticks, calls, runs))
        watching = asyncio.create_task(ticks.watch())
        try:
            await asyncio.wait([reading, watching], return_when=asyncio.FIRST_COMPLETED)
            await (reading if reading.done() else watching)
        finally:
            self._requests.close()
            for task in (sending, reading, watching):
                task.cancel()
            await asyncio.gather(
                self._close_prompts(), calls.close(), runs.close(), sending, reading, watching, return_exceptions=True
            )

    async def _read(self, ticks: Ticks, calls: Calls, runs: Calls) -> None:
        while True:
            frame = await self._receive()
            ticks.heard()
            kind = frame.get("type")
            if kind == "error" and frame.get("id") is None:
                self._told = refusal(frame)
                log.info("The gateway says: %s", self._told)
                continue
            self._told = None  # it went on after all
            match kind:
                case "node.invoke.request":
                    await self._invoke(calls, frame)
                case "node.invoke.cancel":
                    calls.cancel(str(frame.get("id")))
                case "chat.run":
                    await self._run_chat(runs, frame)
                case "chat.abort":
                    runs.cancel(frame.get("run_id"))
                case "approved":
                    self._device.on_approved(frame)
                case "permission.request":
                    self._prompted(frame)
                case "permission.resolved":
                    if not self._requests.take(frame):
                        self._prompted(frame)
                case "node.update" if isinstance(frame.get("node"), dict):
                    self._device.on_changed(frame["node"])
                case "error":
                    self._requests.take(frame)
                case _ if kind in _ANSWERS:
                    self._requests.take(frame)

    async def _invoke(self, calls: Calls, frame: dict[str, Any]) -> None:
        call_id, milliseconds = frame.get("id"), frame.get("timeout_ms")
        asks = isinstance(frame.get("agent"), str)
        call = {
            "request_id": str(call_id),
            "command": AGENT_COMMAND if asks else frame.get("command"),
            "params": question(frame) if asks else frame.get("params"),
            "timeout": min(milliseconds, _FAR_MS) / 1000 if isinstance(milliseconds, int | float) else None,
            "artifacts": frame.get("artifacts"),
        }
        if isinstance(call_id, str | int):
            await self._start(calls, call, InvokeDialect(call_id), frame.get("run_id"))

    async def _run_chat(self, runs: Calls, frame: dict[str, Any]) -> None:
        run_id, session_id = frame.get("run_id"), frame.get("session_id")
        if isinstance(run_id, str):
            dialect = RunDialect(run_id, session_id if isinstance(session_id, str) else "")
            await self._start(runs, call_of(frame), dialect, run_id)

    async def _start(
        self, calls: Calls, call: dict[str, Any], dialect: InvokeDialect | RunDialect, run_id: Any
    ) -> None:
        if call["command"] == AGENT_COMMAND and AGENT_COMMAND not in self._device.capabilities:
            await self._send(dialect.failure("This node has no agent.", "no_agent"))
            return
        before = current_work.set(self._device.work(run_id if isinstance(run_id, str) else ""))
        try:
            calls.start(call, self._device.capabilities, dialect)  # its task sees what is set here
        finally:
            current_work.reset(before)

    def _end(self, closed: ConnectionClosed) -> Exception:
        """Return what was said last before the end, where that was an error; else what the close code means."""
        is_final = closed.rcvd is not None and closed.rcvd.code in _FINAL_CODES
        return self._told if self._told is not None and is_final else verdict(closed)

    # -- from the device's side

    async def send_update(self) -> None:
        """Say again what this device is and can do."""
        node = self._device.describe().model_dump()
        await self.send_frame(encode({"type": "node.update", "node": node}))

    async def invoke(
        self,
        node: str,
        what: dict[str, Any],
        timeout: float | None,  # noqa: ASYNC109 - the gateway keeps it
        run_id: str,
        on_progress: OnProgress | None,
    ) -> Any:
        """Return what another node answers; ``what`` is its command with parameters, or a prompt for its agent."""
        frame: dict[str, Any] = {"type": "node.invoke.request", "node_id": node, **what}
        if timeout is not None:
            frame["timeout_ms"] = timeout * 1000
        if run_id:
            frame["run_id"] = run_id
        usual = _LIMITS.run_ttl if "agent" in what else _LIMITS.invoke_timeout_max
        # Its time begins once somebody has allowed it, where it asks.
        most = (timeout or usual) + _LIMITS.permission_ttl + _GRACE
        return await self._requests.ask(frame, most, self.frame_limit, on_progress)

    async def permit(self, tool: str, summary: PermissionSummary, run_id: str) -> None:
        """Return once somebody allowed it."""
        frame = {"type": "permission.request", "run_id": run_id, "tool": tool, "summary": summary.model_dump()}
        await self._requests.ask(frame, _LIMITS.permission_ttl + _GRACE, self.frame_limit)

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes this device may see."""
        found = await self._requests.ask({"type": "node.list"}, _LIMITS.invoke_timeout, self.frame_limit)
        return [each for each in found if isinstance(each, dict)]

    async def remember(self, frame: dict[str, Any], run_id: str) -> dict[str, Any]:
        """Send ``memory.query`` or ``memory.save`` and return the frame that answers it."""
        if run_id:
            frame = {**frame, "run_id": run_id}
        answer: dict[str, Any] = await self._requests.ask(frame, _LIMITS.invoke_timeout + _GRACE, self.frame_limit)
        return answer
