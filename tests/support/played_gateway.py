"""A gateway that does as a test tells it: real sockets, the shapes of the real one, and peers that are only played."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketHandler

from suzent_jupyter.protocol import peers, rest
from suzent_jupyter.protocol.errors import SuzentError

from .gateways import Addresses

Record = dict[str, Any]
Script = Callable[["TurnHandler", Record], Awaitable[None]]


class PlayedGateway(Addresses):
    """Its lists are what stands in ``lists``; ``requests`` is what it was asked, ``turns`` what its peers answer.

    Attributes
    ----------
    lists : dict
        ``nodes``, ``pending``, ``grants``, ``peers`` and so on.
    turns : dict
        Peer id → coroutine function that plays one turn.
    calls : dict
        Peer id → what its devices answer, as ``{success, result, error}``.
    files : dict
        (Peer id, file id) → content.
    control : dict
        What ``control-status`` answers.
    stopped : asyncio.Event
        Set by ``/nodes/peers/{id}/stop``, and waited for by turns; ``waiting`` says that one does.
    """

    def __init__(self) -> None:
        self.token = "szt_" + "p" * 43
        self.lists: dict[str, list[Record]] = defaultdict(list)
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        self.turns: dict[str, Script] = {}
        self.calls: dict[str, Record] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.control: Record = {"status": "pending"}
        self.own_requests: list[Record] = []
        self.answers: dict[str, Any] = {}  # path → what it answers, or the SuzentError it is refused with
        self.chat: Callable[[ClientSocket, Record], None] | None = None  # plays what comes as chat.*
        self.chat_frames: list[Record] = []
        self.waiting = False
        self.sockets: set[ClientSocket] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    async def _start(self) -> None:
        self.stopped = asyncio.Event()
        routes = [
            (r"/ws/client", ClientSocket),
            (r"/nodes/grants/([^/]+)/(approve|deny)", GrantHandler),
            (r"/nodes/pending/([^/]+)/(approve|deny)", PendingHandler),
            (r"/nodes/control", ControlHandler),
            (r"/nodes/control-status", ControlHandler),
            (r"/nodes/unauthorized", UnauthorizedHandler),
            (r"/nodes/config", ConfigHandler),
            (r"/nodes/(pending|devices|connections|grants|peers)", ListHandler),
            (r"/(nodes)", ListHandler),
            (r"/nodes/peers/([^/]+)/trigger", TurnHandler),
            (r"/nodes/peers/([^/]+)/(stop|mode|reverse|remove|invoke)", PeerHandler),
            (r"/nodes/peers/([^/]+)/files/([^/]+)", FileHandler),
            (r"/(route|nodes/[^/]+/scope|conversations|conversations/.+)", AnswerHandler),
        ]
        self._server = HTTPServer(Application(routes, gateway=self))  # type: ignore[arg-type]
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"

    def add_peer(self, name: str, script: Script | None = None, **fields: Any) -> str:
        """Add a peer that plays ``script``; returns its id."""
        peer_id = str(fields.pop("peer_id", f"{name.casefold().replace(' ', '-')}-0123456789"))
        record = peers.PeerInfo(
            peer_id=peer_id, name=name, **{"base_url": f"http://{name.casefold().replace(' ', '-')}:25314", **fields}
        )
        self.lists["peers"].append(record.model_dump())
        if script is not None:
            self.turns[peer_id] = script
        return peer_id

    def publish(self, topic: str, kind: str, item: Any) -> None:
        """Tell subscribers of a change."""

        def tell() -> None:
            for socket in self.sockets:
                socket.change(topic, kind, item)

        self.loop.call_soon_threadsafe(tell)

    def asked(self, ending: str) -> list[Any]:
        """Return the bodies of the requests whose path ends so."""
        return [body for _method, path, body, _headers in list(self.requests) if path.endswith(ending)]

    def stop(self) -> None:
        if self.loop.is_closed():
            return

        async def end() -> None:
            self._server.stop()
            await self._server.close_all_connections()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        with contextlib.suppress(Exception):
            self._run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()


class Handler(RequestHandler):
    """Checks the token, keeps what came, and says errors as the gateway does."""

    @property
    def gateway(self) -> PlayedGateway:
        played: PlayedGateway = self.settings["gateway"]
        return played

    def prepare(self) -> None:
        body = json.loads(self.request.body) if self.request.body else None
        self.gateway.requests.append(
            (str(self.request.method), str(self.request.path), body, dict(self.request.headers))
        )
        self.body: Any = body
        if self.request.headers.get("Authorization") != f"Bearer {self.gateway.token}":
            self.refuse(SuzentError("unauthorized", "The token is not valid."))

    def refuse(self, error: SuzentError) -> None:
        self.set_status(error.status)
        self.finish(error.as_body())

    def peer(self, peer_id: str) -> Record | None:
        for record in self.gateway.lists["peers"]:
            if record["peer_id"] == peer_id:
                return record
        self.refuse(SuzentError("peer_unknown", f"There is no peer {peer_id!r}."))
        return None


class ListHandler(Handler):
    def get(self, kind: str) -> None:
        items = self.gateway.lists[kind]
        answer: Record = {kind: items, "count": len(items)}
        if kind == "peers":
            answer["requests"] = self.gateway.own_requests
            peers.PeerListResponse.model_validate(answer)
        elif kind == "grants":
            peers.GrantListResponse.model_validate(answer)
        self.finish(answer)


class UnauthorizedHandler(Handler):
    def get(self) -> None:
        attempts = self.gateway.lists["unauthorized"]
        self.finish(peers.UnauthorizedListResponse(attempts=attempts, count=len(attempts)).model_dump())


class ConfigHandler(Handler):
    def get(self) -> None:
        self.finish({"nodes_enabled": True})


class GrantHandler(Handler):
    def post(self, request_id: str, action: str) -> None:
        if action == "approve":
            peers.GrantApproval.model_validate(self.body)
        kept = self.gateway.lists["grants"]
        if not any(item["request_id"] == request_id for item in kept):
            self.refuse(SuzentError("request_unknown", "No such request waits."))
            return
        self.gateway.lists["grants"] = [item for item in kept if item["request_id"] != request_id]
        self.finish(rest.PairingActionResponse(success=True, message="Done.").model_dump())


class PendingHandler(Handler):
    def post(self, code: str, action: str) -> None:
        if not any(item["pairing_code"] == code for item in self.gateway.lists["pending"]):
            self.refuse(SuzentError("code_unknown", f"No device waits under {code}."))
            return
        self.finish(rest.PairingActionResponse(success=True, message=f"{action} {code}").model_dump())


class ControlHandler(Handler):
    def post(self) -> None:
        asked = peers.ControlRequest.model_validate(self.body)
        answer = {"request_id": "r" * 32, "code": "KMP234", "expires_at": "2030-01-01T12:34:00+00:00"}
        self.finish(peers.ControlResponse(base_url=asked.base_url, **{**answer, **self.gateway.control}).model_dump())

    def get(self) -> None:
        if self.get_query_argument("request_id") != "r" * 32:
            self.refuse(SuzentError("request_unknown", "No such request waits."))
            return
        self.finish(peers.ControlResponse(**self.gateway.control).model_dump())


class PeerHandler(Handler):
    def post(self, peer_id: str, action: str) -> None:
        record = self.peer(peer_id)
        if record is None:
            return
        match action:
            case "stop":
                self.gateway.stopped.set()
                self.finish({"stopped": True, "agent_id": "suzent:1"})
            case "mode":
                record["mode"] = peers.PeerModeRequest.model_validate(self.body).mode
                self.finish(peers.PeerModeResponse(success=True, mode=record["mode"]).model_dump())
            case "reverse":
                record["reverse_enabled"] = peers.PeerReverseRequest.model_validate(self.body).enabled
                self.finish(peers.PeerReverseResponse(success=True, enabled=record["reverse_enabled"]).model_dump())
            case "remove":
                self.gateway.lists["peers"].remove(record)
                self.finish(peers.DoneResponse(message="Removed.").model_dump())
            case "invoke":
                peers.PeerInvokeRequest.model_validate(self.body)
                self.finish(rest.InvokeResponse(**self.gateway.calls[peer_id]).model_dump())


class TurnHandler(Handler):
    """One turn; the script writes its events."""

    async def post(self, peer_id: str) -> None:
        if self.peer(peer_id) is None:
            return
        peers.TriggerRequest.model_validate(self.body)
        self.set_header("Content-Type", "text/event-stream")
        with contextlib.suppress(StreamClosedError):
            await self.gateway.turns[peer_id](self, self.body)

    @property
    def last_event_id(self) -> str:
        return str(self.request.headers.get("Last-Event-ID", ""))

    async def event(self, kind: str, number: int | None = None, **fields: Any) -> None:
        """Send one event, with an id if it has a number."""
        if number is not None:
            self.write(f"id: run1:{number}\n")
        self.write(f"data: {json.dumps({'type': kind, **fields})}\n\n")
        await self.flush()

    async def text(self, delta: str, number: int | None = None, message: str = "m1") -> None:
        """Send a piece of text."""
        await self.event("TEXT_MESSAGE_CONTENT", number, messageId=message, delta=delta)

    async def started(self, number: int | None = None) -> None:
        """Say that the turn began."""
        await self.event("RUN_STARTED", number, threadId="suzent:1:lab", runId="run1")

    async def finished(self, number: int | None = None) -> None:
        """Say that it is over."""
        await self.event("RUN_FINISHED", number, threadId="suzent:1:lab", runId="run1")

    def cut(self) -> None:
        """Hang up in the middle."""
        stream = self.request.connection.stream  # type: ignore[union-attr]
        stream.close()
        raise StreamClosedError


class FileHandler(Handler):
    def get(self, peer_id: str, file_id: str) -> None:
        content = self.gateway.files.get((peer_id, file_id))
        if content is None:
            self.refuse(SuzentError("file_unknown", "There is no such file any more."))
            return
        self.set_header("Content-Type", "application/octet-stream")
        self.finish(content)


class AnswerHandler(Handler):
    """What stands in ``answers``."""

    def get(self, path: str) -> None:
        answer = self.gateway.answers[path]
        if isinstance(answer, SuzentError):
            self.refuse(answer)
        else:
            self.finish(answer)

    post = get


class ClientSocket(WebSocketHandler):
    """``/ws/client``: lists and their changes; no node answers calls here."""

    def open(self, *arguments: str, **named: str) -> None:
        gateway: PlayedGateway = self.settings["gateway"]
        if self.request.headers.get("Authorization") != f"Bearer {gateway.token}":
            raise HTTPError(401)
        self._seqs: dict[str, int] = {}
        gateway.sockets.add(self)
        self.say({"type": "hello", "gateway": "played", "version": "1", "account": "ada", "limits": {}})

    def on_message(self, message: str | bytes) -> None:
        gateway: PlayedGateway = self.settings["gateway"]
        frame = json.loads(message)
        if frame["type"] == "subscribe":
            for topic in frame["topics"]:
                self._seqs[topic] = -1
                self.change(topic, "snapshot", gateway.lists[topic])
        elif frame["type"].startswith("chat."):
            gateway.chat_frames.append(frame)
            if gateway.chat is not None:
                gateway.chat(self, frame)
        elif frame["type"] == "invoke":
            error = SuzentError("node_not_found", f"Node '{frame['node']}' not found among the connected nodes.")
            self.say({"type": "result", "id": frame["id"], "success": False, "status": error.status, **error.as_body()})

    def change(self, topic: str, kind: str, item: Any) -> None:
        if topic in self._seqs:
            self._seqs[topic] += 1
            self.say({"type": "change", "topic": topic, "kind": kind, "item": item, "seq": self._seqs[topic]})

    def say(self, frame: Record) -> None:
        self.write_message(json.dumps(frame))

    def on_close(self) -> None:
        gateway: PlayedGateway = self.settings["gateway"]
        gateway.sockets.discard(self)
