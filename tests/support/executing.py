"""Nodes of ``/ws/gateway`` that answer ``chat.run`` and call others, and the gateway's end of a chat for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from suzent_jupyter.protocol.agents import Turn, load_events
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.wire import encode_ascii

from .gateways import ThreadedGateway
from .keyed import Key, KeyedNode, multinode_url

Work = Callable[["Worker", dict[str, Any]], Awaitable[str]]


class ChatRunAgent:
    """The agent of an app node: ``chat.run`` out, ``chat.event`` in."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.name = session.display_name

    async def run(self, turn: Turn) -> AsyncIterator[Any]:
        from suzent_jupyter.protocol.events import Shaper

        await load_events()
        frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._session.executing[turn.run_id] = lambda frame, size: frames.put_nowait(frame["event"])
        head = {"run_id": turn.run_id, "session_id": turn.conversation_id, "message": turn.message}
        body = {"is_remote_session": turn.is_remote_session, "turn": turn.model_dump(mode="json")}
        self._session.send_frame(encode_ascii({"type": "chat.run", **head, **body}))
        shaper, over = Shaper(), False
        try:
            while True:
                try:
                    event = await asyncio.wait_for(frames.get(), 0.1)
                except TimeoutError:
                    if not self._session.alive:
                        raise SuzentError("node_disconnected", f"{self.name} disconnected.") from None
                    continue
                over = event["type"] in ("RUN_FINISHED", "RUN_ERROR")
                if event["type"] == "RUN_ERROR":
                    raise SuzentError(event["code"], event["message"])
                if over:
                    break
                for each in shaper.take(event["delta"]):
                    yield each
            for each in shaper.end():
                yield each
        finally:
            del self._session.executing[turn.run_id]
            if not over:
                self._session.send_frame(encode_ascii({"type": "chat.abort", "run_id": turn.run_id}))


class Worker(KeyedNode):
    """A node that works in the background: echoes commands, answers prompts with ``work``, and may call others."""

    def __init__(self, gateway: ThreadedGateway, name: str, work: Work | None = None, **options: Any) -> None:
        super().__init__(multinode_url(gateway), name, options.pop("key", None) or Key(), **options)
        if work is not None:
            self.node["agent"] = True
        self.gateway, self.work = gateway, work
        self.runs: list[dict[str, Any]] = []
        self.aborted: list[str] = []
        self.frames: list[dict[str, Any]] = []
        self.silent = False
        self._ids = itertools.count()
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Worker:
        await super().__aenter__()
        first = await self.recv()
        if first["type"] == "pending":
            await self.gateway.approve(first["pairing_code"])
            first = await self.recv("hello-ok")
        self.hello, self.node_id = first, first.get("node_id") or ""
        self._spawn(self._read())
        return self

    async def __aexit__(self, *_: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().__aexit__()

    def start(self, **request: Any) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """Send a request; return its id and what will be its result."""
        request_id = f"q{next(self._ids)}"
        future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        self._spawn(self.send({"type": "node.invoke.request", "id": request_id, **request}))
        return request_id, future

    async def call(self, node_id: str, **request: Any) -> dict[str, Any]:
        return await asyncio.wait_for(self.start(node_id=node_id, **request)[1], 20)

    async def code_of(self, node_id: str, **request: Any) -> str:
        """Return the code of the error a request ends with; ``ok`` for none."""
        result = await self.call(node_id, **request)
        return "ok" if result["ok"] else str(result["error"]["code"])

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

    async def _read(self) -> None:
        with contextlib.suppress(Exception):
            async for text in self.ws:
                frame = json.loads(text)
                self.frames.append(frame)
                match frame["type"]:
                    case "node.invoke.result":
                        self._waiting.pop(frame["id"]).set_result(frame)
                    case "chat.run":
                        self.runs.append(frame)
                        self._spawn(self._answer(frame))
                    case "chat.abort":
                        self.aborted.append(frame["run_id"])
                    case "node.invoke.request" if not self.silent:
                        await self.send({"type": "node.invoke.progress", "id": frame["id"], "fraction": 0.5})
                        answer = {"id": frame["id"], "ok": True, "result": frame["params"]}
                        await self.send({"type": "node.invoke.result", **answer})

    async def _answer(self, frame: dict[str, Any]) -> None:
        assert self.work is not None
        text = await self.work(self, frame)
        for seq, event in enumerate(({"type": "TEXT_MESSAGE_CONTENT", "delta": text}, {"type": "RUN_FINISHED"})):
            await self.send({"type": "chat.event", "run_id": frame["run_id"], "seq": seq, "event": event})
