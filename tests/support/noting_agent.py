"""An agent for gateways that get killed: it notes each turn in a file before it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ag_ui.core import BaseEvent

from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.server.service import GatewayService

from .turns import say


class NotingAgent:
    """Answers ``did PROMPT``, after a moment; to ``wait PATH`` it says so and waits until there is such a file."""

    name = "noting"

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        note = os.open(self._notes, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(note, f"{turn.message}\n".encode())
        os.close(note)
        await asyncio.sleep(0.02 if turn.caller.kind == "user" else 0.003)
        word, _, path = turn.message.partition(" ")
        if word == "wait":
            for event in say("waiting ", message="waiting"):
                yield event
            while not Path(path).exists():
                await asyncio.sleep(0.01)
        for event in say("did ", turn.message):
            yield event


def install(notes: str) -> None:
    """Have every gateway of this process be answered for by one."""
    start = GatewayService.start

    async def start_with_agent(service: GatewayService, *arguments: Any, **named: Any) -> None:
        await start(service, *arguments, **named)
        service.gateway.agents.register(service.gateway.account, NotingAgent(Path(notes)))

    GatewayService.start = start_with_agent  # type: ignore[method-assign]
