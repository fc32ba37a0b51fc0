"""Chats of one socket: prompts that are routed to a node, and runs that are watched.

A watcher is a place in the list of a run's events. One whose socket is slow waits for the socket, and nobody for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.wire import encode_ascii, is_frame_id
from ..failures import internal
from ..outbox import Outbox
from ..principals import Principal
from . import inline_files, namespaces
from .executing import Chat, begin
from .run import Run

if TYPE_CHECKING:
    from ..gateway import Gateway

_HELD_BYTES = 1_000_000  # that a socket has not taken yet; then its watchers wait
_EVENTS_EACH_TURN = 64  # of the loop: a long run that is caught up on must not hold up all else


class Chats:
    """Those of one ``/ws/client`` or ``/ws/gateway`` socket.

    Parameters
    ----------
    principal : Principal
        Whose socket it is.
    send : callable
        Sends a frame (a dict).
    write : callable
        Sends a frame that is encoded, given in parts.
    outbox : Outbox
        What the socket has not taken yet.
    """

    def __init__(
        self,
        gateway: Gateway,
        principal: Principal,
        send: Callable[[dict[str, Any]], None],
        write: Callable[..., None],
        outbox: Outbox,
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._send = send
        self._write = write
        self._outbox = outbox
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._sending: dict[str | int, asyncio.Task[None]] = {}
        self._closed = False

    def receive(self, frame: dict[str, Any]) -> None:
        """Take a ``chat.*`` frame; ``SuzentError`` for one that is none or names what is not the caller's."""
        match frame.get("type"):
            case "chat.send":
                self._take_prompt(frame)
            case "chat.watch":
                self._take_watch(frame)
            case "chat.unwatch":
                task = self._watches.pop(_run_id(frame), None)
                if task is not None:
                    task.cancel()
            case "chat.abort":
                self._gateway.runs.abort(self._principal, _run_id(frame))
            case other:
                raise SuzentError("bad_frame", f"There is no frame {str(other)[:64]!r} about chats.")

    def close(self) -> None:
        """Watch nothing any more: the socket is gone. The runs go on."""
        self._closed = True
        for task in self._watches.values():
            task.cancel()
        self._watches.clear()

    # -- prompts --

    def _take_prompt(self, frame: dict[str, Any]) -> None:
        number = _id(frame)
        if number in self._sending:
            raise SuzentError("bad_frame", f"A prompt with the id {number!r} is under way already.")
        chat = self._read(frame)
        self._gateway.runs.check(self._principal, chat.conversation_id)
        self._check_room()
        task = asyncio.create_task(self._begin(number, chat))
        self._sending[number] = task
        task.add_done_callback(lambda _: self._sending.pop(number, None))

    def _read(self, frame: dict[str, Any]) -> Chat:
        limits = self._gateway.limits
        text = frame.get("message")
        if not isinstance(text, str) or not (text := text.strip()):
            raise SuzentError("invalid_request", "`message` must be the prompt.")
        if len(text) > limits.prompt_chars:
            raise SuzentError(
                "too_large", f"The prompt has {len(text):,} characters; {int(limits.prompt_chars):,} are the most."
            )
        for name in ("session_id", "target_node_id"):
            if not isinstance(frame.get(name), str | None):
                raise SuzentError("invalid_request", f"`{name}` must be text.")
        return Chat(
            conversation_id=namespaces.conversation_of(self._principal, frame.get("session_id"), field="session_id"),
            text=text,
            node=(frame.get("target_node_id") or "").strip() or None,
            files=inline_files.check(frame.get("attachments") or [], limits),
        )

    async def _begin(self, number: str | int, chat: Chat) -> None:
        try:
            run, decision = await begin(self._gateway, self._principal, chat, lambda: self._closed)
        except SuzentError as error:
            self._fail(number, error)
            return
        except Exception as error:
            self._fail(number, internal("A chat", error))
            return
        if self._closed:
            return
        assert decision.choice is not None
        choice = decision.choice
        self._send(
            {
                "type": "chat.accepted",
                "id": number,
                "run_id": run.run_id,
                "session_id": run.conversation_id,
                "node_id": choice.node_id,
                "node_name": run.prompt.node_name,
                "tier": choice.tier,
                "confidence": choice.confidence,
                "reason": choice.reason,
                "routing": decision.model_dump(),
            }
        )
        self._watch(number, run, 0)

    # -- watching --

    def _take_watch(self, frame: dict[str, Any]) -> None:
        number, run_id, seq = _id(frame), _run_id(frame), frame.get("seq", 0)
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise SuzentError("invalid_request", "`seq` must be the number of an event, from 0 on.")
        run = self._gateway.runs.find(self._principal, run_id)
        if run_id not in self._watches:
            self._check_room()
        self._watch(number, run, seq)

    def _check_room(self) -> None:
        most = int(self._gateway.limits.watchers)
        if len(self._watches) + len(self._sending) >= most:
            raise SuzentError("too_many_turns", f"This socket watches {most} turns already (limit watchers).")

    def _watch(self, number: str | int, run: Run, seq: int) -> None:
        before = self._watches.pop(run.run_id, None)
        if before is not None:
            before.cancel()
        task = asyncio.create_task(self._follow(number, run, seq))
        self._watches[run.run_id] = task

        def over(done: asyncio.Task[None]) -> None:
            if self._watches.get(run.run_id) is done:
                del self._watches[run.run_id]

        task.add_done_callback(over)

    async def _follow(self, number: str | int, run: Run, seq: int) -> None:
        head = b'{"type":"chat.event","run_id":%s,"seq":' % encode_ascii(run.run_id)
        speaks = self._speaks
        while await run.more(seq, speaks):
            sent = 0
            while seq < len(run.events):
                if self._outbox.unsent > _HELD_BYTES:
                    await self._outbox.room(_HELD_BYTES // 2)
                if not speaks():
                    break
                self._write(head, b'%d,"event":' % seq, run.events[seq], b"}")
                seq += 1
                sent += 1
                if sent % _EVENTS_EACH_TURN == 0:
                    await asyncio.sleep(0)
        if not run.over and not self._closed:
            self._fail(number, SuzentError("unauthorized", "This socket's token was revoked or paused meanwhile."))

    def _speaks(self) -> bool:
        return not self._closed and self._gateway.still_speaks(self._principal)

    def _fail(self, number: str | int, error: SuzentError) -> None:
        if not self._closed:
            self._send({**error.as_frame(), "id": number})


def _id(frame: dict[str, Any]) -> str | int:
    value = frame.get("id")
    if is_frame_id(value):
        return value
    raise SuzentError("bad_frame", f"`{frame['type']}` needs an `id`: text of at most 128 characters or a number.")


def _run_id(frame: dict[str, Any]) -> str:
    value = frame.get("run_id")
    if not isinstance(value, str) or not value:
        raise SuzentError("invalid_request", "`run_id` must name a turn, as `chat.accepted` does.")
    return value
