"""Turns of whatever agent a gateway in this process chooses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from suzent_jupyter.gateway.principals import Authority, Principal
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.errors import SuzentError

from .gateways import ThreadedGateway

ADA = Principal(Authority.FULL, "ada", actor="user")
TURN = Turn(run_id="r1", conversation_id="c1", message="hello")


class Answering:
    """A turn under way on the gateway's loop."""

    def __init__(self, gateway: ThreadedGateway, turn: Turn = TURN, principal: Principal = ADA) -> None:
        self.events: list[Any] = []

        async def work() -> None:
            async for event in gateway.service.gateway.agents.choose(principal).run(turn):
                self.events.append(event)

        self._running = asyncio.run_coroutine_threadsafe(work(), gateway.loop)

    async def end(self) -> list[Any]:
        """Wait for its end; return the events."""
        await asyncio.wait_for(asyncio.wrap_future(self._running), 20)
        return self.events

    async def failure(self) -> SuzentError:
        """Wait for its end, which must be a failure."""
        with pytest.raises(SuzentError) as caught:
            await self.end()
        return caught.value

    def wait(self) -> list[Any]:
        """Wait for its end on a thread without a loop."""
        self._running.result(20)
        return self.events

    def wait_for_failure(self) -> SuzentError:
        """Wait on such a thread for the failure it must end with."""
        with pytest.raises(SuzentError) as caught:
            self.wait()
        return caught.value

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._running.cancel()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(event.delta for event in self.events if event.type == "TEXT_MESSAGE_CONTENT")


def chosen(gateway: ThreadedGateway, principal: Principal = ADA) -> str:
    """Return the name of the agent that would answer, or why there is none."""
    try:
        return str(gateway.call(gateway.service.gateway.agents.choose, principal).name)
    except SuzentError as error:
        return error.code
