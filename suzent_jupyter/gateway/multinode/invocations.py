"""Calls that a socket makes with ``node.invoke.request``: a command of a node, or its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import SuzentError
from ...protocol.params import read_timeout
from ...protocol.wire import Raw, encode, encode_ascii, is_frame_id
from ..answering.dispatching import Asker, ask_agent, asker_of_node, under_way
from ..calls import Outcome
from ..failures import internal
from ..permissions.asked_call import start_call
from ..principals import Principal
from ..turns import LARGE_BYTES

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession

_ORIGIN = {"dispatch": True}
_FAR_MS = 1e15  # beyond any timeout


class Invocations:
    """Those of one socket.

    Parameters
    ----------
    principal : Principal
        Whose socket it is.
    send : callable
        Sends a frame (a dict).
    session : NodeSession, optional
        The app node at its other end; None for people.
    write : callable, optional
        Sends a frame in parts, so that megabytes are passed on without a copy; ``send`` takes them otherwise.
    """

    def __init__(
        self,
        gateway: Gateway,
        principal: Principal,
        send: Callable[[dict[str, Any]], None],
        session: NodeSession | None = None,
        write: Callable[..., None] | None = None,
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._send = send
        self._session = session
        self._write = write
        self._under_way: dict[str | int, asyncio.Future[Any]] = {}
        self._agents = 0
        self._closed = False

    def receive(self, frame: dict[str, Any], size: int) -> None:
        """Take a ``node.invoke.request`` or ``node.invoke.cancel``; ``SuzentError`` for one that is none."""
        request_id = frame.get("id")
        if not is_frame_id(request_id):
            raise SuzentError("bad_frame", "`id` must be text of at most 128 characters or a number.")
        if frame.get("type") == "node.invoke.cancel":
            future = self._under_way.get(request_id)
            if future is not None:
                future.cancel()
            return
        if request_id in self._under_way:
            raise SuzentError("bad_frame", f"A request with the id {request_id!r} is under way already.")
        try:
            self._begin(request_id, frame)
        except SuzentError as error:
            self._refuse(request_id, error)

    def close(self) -> None:
        """Cancel what is under way: the socket is gone."""
        self._closed = True
        for future in list(self._under_way.values()):
            future.cancel()
        self._gateway.permissions.origin_closed(self)

    # -- starting --

    def _begin(self, request_id: str | int, frame: dict[str, Any]) -> None:
        node, command, prompt = (_text(frame, name) for name in ("node_id", "command", "agent"))
        if node is None:
            raise SuzentError("invalid_request", "`node_id` must be the id or name of a node.")
        if (command is None) == (prompt is None):
            raise SuzentError("invalid_request", "Give either `command` or `agent`, which is a prompt.")
        self._check_room(agent=prompt is not None)
        asker = self._asker(frame.get("run_id"), agent=prompt is not None)
        if asker.run is not None and not self._gateway.still_speaks(asker.principal):
            raise SuzentError("unauthorized", "The token that asked for this turn was revoked or paused meanwhile.")
        timeout = _seconds(frame.get("timeout_ms"))
        if prompt is not None:
            most = self._gateway.limits.run_ttl
            future: asyncio.Future[Any] = asyncio.ensure_future(
                self._ask(asker, node, prompt, read_timeout(timeout, most, most))
            )
            self._agents += 1
        else:
            assert command is not None
            future = self._call(asker, node, command, frame.get("params"), timeout, request_id)
            if asker.run is not None:
                self._end_with(asker, future)
        self._under_way[request_id] = future
        future.add_done_callback(partial(self._done, request_id, prompt is not None))

    def _check_room(self, *, agent: bool) -> None:
        limits = self._gateway.limits
        most = int(limits.calls_in_flight if agent else limits.calls_in_flight + limits.calls_waiting)
        if (self._agents if agent else len(self._under_way) - self._agents) >= most:
            what = "prompts to agents" if agent else "calls"
            raise SuzentError("node_busy", f"{most} {what} of this connection are under way already.")

    def _asker(self, run_id: Any, *, agent: bool) -> Asker:
        is_node = self._session is not None
        return asker_of_node(self._gateway, self._principal, run_id, agent=agent, is_node=is_node)

    def _call(
        self, asker: Asker, node: str, command: str, params: Any, timeout: Any, request_id: str | int
    ) -> asyncio.Future[Outcome]:
        session = self._session
        if command == AGENT_COMMAND and (session is not None or under_way(self._gateway, self._principal)):
            # As a command it would leave no trace in the chain.
            raise SuzentError("invalid_request", "Ask a node's agent with `agent`, not with its command.")
        origin: dict[str, Any] = dict(_ORIGIN)
        if asker.run is not None:
            origin["run_id"] = asker.run.run_id
        if session is not None:
            origin["by"] = session.node_id
        prepared = self._gateway.dispatcher.prepare(
            asker.principal,
            node,
            command,
            Raw(encode({} if params is None else params)),
            timeout=timeout,
            on_progress=partial(self._progress, request_id),
            origin=origin,
        )
        # Of a node that answers turns nothing tells which of its calls are an agent's.
        agent = asker.run is not None or (session is not None and bool(self._gateway.runs.executed_by(session.node_id)))
        return start_call(self._gateway, prepared, run=asker.run, agent=agent, origin=self)

    @staticmethod
    def _end_with(asker: Asker, future: asyncio.Future[Any]) -> None:
        """Cancel a call when the turn that asked for it ends."""
        assert asker.run is not None
        ending = asker.run.ending

        def stop(_: Any) -> None:
            future.cancel()

        ending.add_done_callback(stop)
        future.add_done_callback(lambda _: ending.remove_done_callback(stop))

    async def _ask(self, asker: Asker, node: str, prompt: str, seconds: float) -> str:
        by = self._session.display_name if self._session is not None else ""
        try:
            async with asyncio.timeout(seconds):
                return await ask_agent(self._gateway, asker, node, prompt, by)
        except TimeoutError:
            raise SuzentError("deadline", f"The agent did not finish within {seconds:g} s.") from None

    # -- answering --

    def _progress(self, request_id: str | int, progress: dict[str, Any]) -> None:
        if not self._closed:
            self._send({"type": "node.invoke.progress", "id": request_id, **progress})

    def _done(self, request_id: str | int, agent: bool, future: asyncio.Future[Any]) -> None:
        del self._under_way[request_id]
        self._agents -= agent
        error = SuzentError("cancelled", "The call was cancelled.") if future.cancelled() else future.exception()
        if self._closed:
            return
        if error is not None:
            self._refuse(request_id, error if isinstance(error, SuzentError) else internal("A dispatch", error))
            return
        outcome = future.result()
        if isinstance(outcome, str):
            self._send({"type": "node.invoke.result", "id": request_id, "ok": True, "result": outcome, "error": None})
        elif not outcome.success:
            self._refuse(request_id, SuzentError("capability_failed", outcome.error or "It failed.", hint=""))
        elif len(memoryview(outcome.result)) < LARGE_BYTES:
            self._answer(request_id, outcome)
        else:
            self._gateway.turns.large(partial(self._answer, request_id, outcome))

    def _answer(self, request_id: str | int, outcome: Outcome) -> None:
        if self._closed:
            return
        if self._write is None:
            result: dict[str, Any] = {"type": "node.invoke.result", "id": request_id, "ok": True}
            self._send({**result, "result": outcome.result, "error": None})
            return
        # Spliced, not re-encoded: the result may be megabytes.
        head = b'{"type":"node.invoke.result","id":%s,"ok":true,"error":null,"result":' % encode_ascii(request_id)
        self._write(head, outcome.ascii_result(), b"}")

    def _refuse(self, request_id: str | int, error: SuzentError) -> None:
        told = {"code": error.code, "message": error.message, "hint": error.hint, "retryable": error.retryable}
        told |= {name: value for name, value in error.details.items() if name not in told}
        self._send({"type": "node.invoke.result", "id": request_id, "ok": False, "result": None, "error": told})


def _text(frame: dict[str, Any], name: str) -> str | None:
    value = frame.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise SuzentError("invalid_request", f"`{name}` must be text that is not empty.")
    return value


def _seconds(milliseconds: Any) -> Any:
    if milliseconds is None:
        return None
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        raise SuzentError("invalid_timeout", "`timeout_ms` must be milliseconds as a number greater than 0.")
    # A whole number may be one that no float can hold.
    return min(max(milliseconds, 0), _FAR_MS) / 1000
