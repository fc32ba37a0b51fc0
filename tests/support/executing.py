"""Nodes of ``/ws/gateway`` that answer ``chat.run`` and call others."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from .gateways import Addresses
from .keyed import Key, KeyedNode, multinode_url

Work = Callable[["Worker", dict[str, Any]], Awaitable[str]]


class Worker(KeyedNode):
    """A node that works in the background: echoes commands, answers prompts with ``work``, and may call others."""

    def __init__(self, gateway: Addresses, name: str, work: Work | None = None, **options: Any) -> None:
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

    async def memory(self, kind: str, **request: Any) -> dict[str, Any]:
        """Send ``memory.query`` or ``memory.save`` and return what answers it."""
        request_id = f"q{next(self._ids)}"
        future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        await self.send({"type": f"memory.{kind}", "id": request_id, **request})
        return await asyncio.wait_for(future, 20)

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
                    case "node.invoke.result" | "memory.result":
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
        message = {"messageId": "m"}
        events = (
            {"type": "TEXT_MESSAGE_START", "role": "assistant", **message},
            {"type": "TEXT_MESSAGE_CONTENT", "delta": text, **message},
            {"type": "TEXT_MESSAGE_END", **message},
            {"type": "RUN_FINISHED", "threadId": frame["session_id"], "runId": frame["run_id"]},
        )
        for seq, event in enumerate(events):
            await self.send({"type": "chat.event", "run_id": frame["run_id"], "seq": seq, "event": event})


async def hello(node: Worker, run: dict[str, Any]) -> str:
    """Answer at once."""
    return f"{node.node['name']} answers {run['message']}"


async def hang(node: Worker, run: dict[str, Any]) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""
