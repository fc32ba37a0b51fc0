"""Agents as plain Python classes, and a reader of event streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from ag_ui.core import BaseEvent, TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

from suzent_jupyter.protocol.agents import Turn

from .gateways import ThreadedGateway

Script = Callable[[Turn], AsyncIterator[BaseEvent]]


class Scripted:
    """An agent that does what an async generator function says, and remembers its turns."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.script = script
        self.name = name
        self.turns: list[Turn] = []

    def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        self.turns.append(turn)
        return self.script(turn)


def say(*deltas: str, message: str = "m") -> list[BaseEvent]:
    """Return the events of one message."""
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        *(TextMessageContentEvent.model_construct(message_id=message, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=message),
    ]


async def echo(turn: Turn) -> AsyncIterator[BaseEvent]:
    """Say the prompt back, word by word."""
    for event in say(*turn.message.split(" ")):
        yield event


class Gate:
    """A script that says ``begun``, waits until it is let through, and says ``through``."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        self._gateway = gateway
        self._open = asyncio.Event()
        self.running = 0
        self.cancelled = 0

    async def __call__(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        self.running += 1
        try:
            yield TextMessageStartEvent(message_id="m")
            yield TextMessageContentEvent(message_id="m", delta="begun")
            await self._open.wait()
            yield TextMessageContentEvent(message_id="m", delta=" through")
            yield TextMessageEndEvent(message_id="m")
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    def open(self) -> None:
        self._gateway.loop.call_soon_threadsafe(self._open.set)


def register(gateway: ThreadedGateway, script: Script, account: str | None = None) -> Scripted:
    """Have a script answer the account's prompts."""
    agent = Scripted(script)
    gateway.call(gateway.service.gateway.agents.register, account or gateway.config.account, agent)
    return agent


class Reader:
    """One event stream: ``async with Reader(http, "/chat", {"message": "hi"}) as reader``."""

    def __init__(self, http: httpx.AsyncClient, path: str, body: Any = None, **options: Any) -> None:
        self._stream = http.stream("POST", path, json=body if body is not None else {}, **options)
        self.comments = 0
        self.ids: list[str] = []

    async def __aenter__(self) -> Reader:
        self.response = await self._stream.__aenter__()
        if self.response.status_code != 200:
            await self.response.aread()
        self._events = self._read()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        buffer = b""
        async for chunk in self.response.aiter_raw():
            buffer += chunk
            while b"\n\n" in buffer:
                block, buffer = buffer.split(b"\n\n", 1)
                if block.startswith(b":"):
                    self.comments += 1
                    continue
                first, second = block.split(b"\n")
                assert first.startswith(b"id: ")
                assert second.startswith(b"data: ")
                assert block.isascii()
                self.ids.append(first[4:].decode())
                yield json.loads(second[6:])
        assert buffer == b"", buffer

    async def next(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        """Return the next event, or the next of a type."""
        async with asyncio.timeout(seconds):
            async for event in self._events:
                if kind in (None, event["type"]):
                    return event
        raise AssertionError(f"the stream ended without {kind}")

    async def rest(self, seconds: float = 20.0) -> list[dict[str, Any]]:
        """Return all that follows."""
        async with asyncio.timeout(seconds):
            return [event async for event in self._events]


async def ask(http: httpx.AsyncClient, path: str, body: Any, **options: Any) -> list[dict[str, Any]]:
    """Return all events of a turn."""
    async with Reader(http, path, body, **options) as reader:
        assert reader.response.status_code == 200, reader.response.text
        return await reader.rest()


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]
