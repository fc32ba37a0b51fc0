"""One ``/ws/client`` socket of a kernel, widget or panel: its calls in, results and changes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..protocol.client import TOPICS, HelloMessage
from ..protocol.errors import CLOSE_DEAD, CLOSE_GOING_AWAY, CLOSE_SLOW_READER, SuzentError
from ..protocol.wire import CallFrame, decode, decode_call, encode_ascii, is_frame_id
from .answering.chats import Chats
from .answering.kernel_agent import KernelAgents
from .call_requests import submit_call
from .calls import Outcome
from .failures import internal
from .liveness import Liveness
from .outbox import Outbox
from .permissions.answers import Answers
from .principals import Principal
from .transport import Transport

if TYPE_CHECKING:
    from .gateway import Gateway


class ClientLink:
    """The gateway's end of one client socket. All methods are called on the event loop and never raise."""

    def __init__(self, gateway: Gateway, transport: Transport, principal: Principal) -> None:
        self._gateway = gateway
        self._transport = transport
        self._principal = principal
        self._calls: dict[str | int, asyncio.Future[Outcome]] = {}
        self._listeners: dict[str, Callable[[str, Any], None]] = {}
        self._seqs: dict[str, int] = {}
        self._agents = KernelAgents(gateway, principal, self._send)
        self._outbox = Outbox(transport)
        self._chats = Chats(gateway, principal, self._send, self._write, self._outbox)
        self._answers = Answers(gateway, principal, self._send, subscribes=True)
        self._closed = False
        transport.allow_bytes(int(gateway.limits.socket_bytes))
        self._liveness = Liveness(transport, gateway.limits, self._dead)
        gateway.client_opened(self)
        gateway.permissions.surfaces.opened(self, principal)
        self._send(
            HelloMessage(
                gateway=gateway.settings.display_name,
                version=gateway.version,
                account=principal.account,
                limits=gateway.limits.as_dict(),
            ).model_dump()
        )

    @property
    def credential_id(self) -> str:
        """The device id of the token that opened this socket, or ``""``."""
        return self._principal.credential_id

    def receive(self, data: str | bytes) -> None:
        """Take one message, when its turn comes."""
        self._gateway.turns.small(partial(self._take, data))

    def _take(self, data: str | bytes) -> None:
        if self._closed:
            return
        frame: CallFrame | None = None
        try:
            frame = decode_call(data)
            if frame.type == "invoke":
                self._invoke(frame)
            else:
                self._frame(decode(data), len(data))
        except SuzentError as error:
            body = error.as_frame()
            if frame is not None and is_frame_id(frame.id):
                body["id"] = frame.id
            self._send(body)
        except Exception as error:
            self._send(internal("A frame of a client", error).as_frame())

    def pong(self, payload: bytes) -> None:
        """Take an RFC 6455 pong; liveness sees it as received bytes."""

    def closed(self) -> None:
        """Take note that the socket is gone: its calls are cancelled, its subscriptions end."""
        if self._closed:
            return
        self._closed = True
        self._liveness.stop()
        for topic, listener in self._listeners.items():
            self._gateway.changes.unsubscribe(topic, listener)
        self._listeners.clear()
        for future in list(self._calls.values()):
            future.cancel()
        self._agents.close()
        self._chats.close()
        self._gateway.permissions.surfaces.closed(self)
        self._gateway.permissions.origin_closed(self)
        self._gateway.client_closed(self)

    def close(self, code: int = CLOSE_GOING_AWAY, reason: str = "the gateway is stopping") -> None:
        """Close the socket."""
        if not self._closed:
            self._transport.close(code, reason)
            self.closed()

    def _dead(self) -> None:
        self.close(CLOSE_DEAD, "no sign of life")

    def _frame(self, frame: dict[str, Any], size: int) -> None:
        match frame.get("type"):
            case "agent.register" | "agent.unregister" | "agent.event":
                self._agents.receive(frame, size)
            case "chat.send" | "chat.watch" | "chat.unwatch" | "chat.abort":
                self._chats.receive(frame)
            case "permission.response":
                self._answers.receive(frame)
            case "cancel":
                future = self._calls.get(frame["id"]) if is_frame_id(frame.get("id")) else None
                if future is not None:
                    future.cancel()
            case "subscribe":
                for topic in _topics(frame):
                    self._subscribe(topic)
            case "unsubscribe":
                for topic in _topics(frame):
                    if topic in self._listeners:
                        self._gateway.changes.unsubscribe(topic, self._listeners.pop(topic))

    # -- calls --

    def _invoke(self, frame: CallFrame) -> None:
        call_id = frame.id
        if not is_frame_id(call_id):
            raise SuzentError("bad_frame", "An invoke needs an `id`: text of at most 128 characters or a number.")
        if call_id in self._calls:
            raise SuzentError("bad_frame", f"A call with the id {call_id!r} is under way already.")
        try:
            future = submit_call(
                self._gateway,
                self._principal,
                frame,
                on_progress=partial(self._progress, call_id),
                socket=self,
            )
        except SuzentError as error:
            self._send_error(call_id, error)
            return
        self._calls[call_id] = future
        future.add_done_callback(partial(self._done, call_id))

    def _progress(self, call_id: str | int, progress: dict[str, Any]) -> None:
        self._send({"type": "progress", "id": call_id, **progress})

    def _done(self, call_id: str | int, future: asyncio.Future[Outcome]) -> None:
        self._calls.pop(call_id, None)
        if self._closed:
            if not future.cancelled():
                future.exception()
            return
        if future.cancelled():
            self._send_error(call_id, SuzentError("cancelled", "The call was cancelled."))
        elif (error := future.exception()) is not None:
            if not isinstance(error, SuzentError):
                error = internal("A call", error)
            self._send_error(call_id, error)
        else:
            outcome = future.result()
            # Spliced, not re-encoded: the result may be megabytes.
            head = b'{"type":"result","id":%s,"success":%s,"error":%s,"result":' % (
                encode_ascii(call_id),
                b"true" if outcome.success else b"false",
                encode_ascii(outcome.error),
            )
            self._write(head, outcome.ascii_result(), b"}")

    def _send_error(self, call_id: str | int, error: SuzentError) -> None:
        body = error.as_body()
        self._send({"type": "result", "id": call_id, "success": False, "result": None, "status": error.status, **body})

    # -- changes --

    def _subscribe(self, topic: str) -> None:
        if topic in self._listeners:
            self._gateway.changes.unsubscribe(topic, self._listeners.pop(topic))
        self._seqs[topic] = -1
        listener = partial(self._change, topic)
        self._listeners[topic] = listener
        listener("snapshot", self._gateway.snapshot(topic, self._principal))
        self._gateway.changes.subscribe(topic, listener, self._principal)

    def _change(self, topic: str, kind: str, item: Any) -> None:
        self._seqs[topic] += 1
        self._send({"type": "change", "topic": topic, "kind": kind, "item": item, "seq": self._seqs[topic]})

    # -- sending --

    def _send(self, frame: dict[str, Any]) -> None:
        self._write(encode_ascii(frame))

    def _write(self, *parts: bytes | memoryview) -> None:
        if self._closed:
            return
        if self._outbox.unsent > self._gateway.limits.client_buffer_bytes:
            self.close(CLOSE_SLOW_READER, "slow reader: subscribe again")
            return
        self._outbox.send(*parts)


def _topics(frame: dict[str, Any]) -> list[str]:
    topics = frame.get("topics")
    unknown = [topic for topic in topics if topic not in TOPICS] if isinstance(topics, list) else [topics]
    if unknown or not isinstance(topics, list):
        raise SuzentError("bad_frame", f"There is no topic {unknown[0]!r:.80}; there are: {', '.join(TOPICS)}.")
    return topics
