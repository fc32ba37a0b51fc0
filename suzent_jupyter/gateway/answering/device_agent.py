"""Agents that run on devices: a turn is a call of ``agent.run``, whose events come while it is under way."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ...protocol.agents import Turn, load_events
from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ...protocol.wire import Raw, decode, encode
from ..calls import Outcome
from ..permissions.asked_call import start_call
from ..principals import Authority, Principal
from ..session import NodeSession
from .agent_events import AgentEvents, Numbered
from .kept_files import keep_attachments
from .turn_bodies import shorten, turn_body

if TYPE_CHECKING:
    from pathlib import Path

    from ag_ui.core import BaseEvent

    from ...protocol.artifacts import ArtifactReference
    from ..gateway import Gateway

_PLAIN_ATTACHMENT_BYTES = 256 * 1024  # for devices that close on frames above 1 MiB


class DeviceAgent:
    """The agent of one connected device.

    Attributes
    ----------
    name : str
        The device's own name.
    """

    def __init__(self, gateway: Gateway, principal: Principal, session: NodeSession) -> None:
        self._gateway = gateway
        self._asker = principal
        # A grant that covers the agent covers what the agent's device does for it; who asked stays in the audit trail.
        self._principal = dataclasses.replace(principal, authority=Authority.FULL, grant=None)
        self._session = session
        self.name = session.display_name

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        """Answer a turn; see :meth:`~suzent_jupyter.protocol.agents.Agent.run`.

        Raises
        ------
        SuzentError
            ``agent_failed``; ``turn_limit`` for events that are too large or come faster than they are taken; and
            whatever ends a call, such as ``node_disconnected`` or ``revoked``.
        """
        await load_events()
        events = AgentEvents(self._gateway.limits)
        kept = await keep_attachments(self._gateway, self._principal.account, self._session, turn)
        params = await asyncio.to_thread(self._params, turn, kept)
        if not self._session.alive:
            raise SuzentError("node_disconnected", f"{self.name} disconnected.")
        limits = self._gateway.limits
        prepared = self._gateway.dispatcher.prepare(
            self._principal,
            self._session.node_id,
            AGENT_COMMAND,
            Raw(params),
            timeout=min(limits.run_ttl, limits.invoke_timeout_max),
            on_agent_event=Numbered(events, "the device's agent").take,
            origin={"run_id": turn.run_id},
        )
        run = self._gateway.runs.under_way(self._asker, turn.run_id)
        call = start_call(self._gateway, prepared, run=run, agent=turn.is_remote_session, principal=self._asker)
        call.add_done_callback(lambda done: events.finish(self._failure(done)))
        try:
            async with aclosing(aiter(events)) as each:  # type: ignore[type-var]
                async for event in each:
                    yield event
            if not events.count:
                for event in _told(call.result()):
                    yield event
        finally:
            call.cancel()

    def _failure(self, call: asyncio.Future[Outcome]) -> SuzentError | None:
        if call.cancelled():
            return SuzentError("cancelled", "The turn was cancelled.")
        if (error := call.exception()) is not None:
            return error if isinstance(error, SuzentError) else SuzentError("internal", "The call failed.")
        outcome = call.result()
        if outcome.success:
            return None
        return SuzentError("agent_failed", clean_text(outcome.error, 500) or f"{self.name} failed without saying why.")

    # -- the turn as parameters

    def _params(self, turn: Turn, kept: dict[Path, ArtifactReference]) -> bytes:
        """Return the turn as JSON that fits into one frame: files inside, the oldest messages left out if need be."""
        plain = self._session.features is None
        limits = self._gateway.limits
        room = limits.plain_params_bytes if plain else limits.frame_bytes
        allowed = _PLAIN_ATTACHMENT_BYTES if plain else min(limits.agent_attachment_bytes, room // 2)
        body = turn_body(turn, allowed, kept) | {"stream": True}
        if "agent" not in (self._session.features or ()):
            return encode({name: value for name, value in body.items() if name in self._declared()})
        return encode(shorten(body, room))

    def _declared(self) -> set[str]:
        """Return the parameters a device declares; one that knows no turns may fail on others."""
        capability = self._session.capabilities.get(AGENT_COMMAND)
        if capability is None:
            return {"message"}
        properties = (capability.input_schema or {}).get("properties")
        return {"message", *capability.params_schema, *(properties if isinstance(properties, dict) else ())}


def _told(outcome: Outcome) -> list[BaseEvent]:
    """Return the result of a device that streams nothing as one message."""
    from ...protocol.events import Shaper

    value = decode(outcome.result)
    shaper = Shaper()
    text = value if isinstance(value, str) or value is None else encode(value).decode()
    return [*shaper.take(text), *shaper.end()]
