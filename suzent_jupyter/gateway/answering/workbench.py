"""The tools of a turn, as far as its caller may use them: the devices by way of every other call."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...agent.tools import FileAccess, Workbench
from ...protocol.capabilities import CapabilitySchema
from ...protocol.errors import SuzentError
from ...protocol.routing import RouteCandidate
from ...protocol.text import clean_text
from ...protocol.wire import Raw, decode, encode
from ..permissions.asked_call import start_call
from ..permissions.prompt import Question
from ..permissions.summary import summarize
from ..principals import Principal
from .dispatching import ask_agent, asker_of_own
from .own_memory import OwnMemory

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession

_LARGE = 256 * 1024  # bytes that are not parsed on the event loop
_ORIGIN = {"agent": True}
_SUITABLE = 10


def workbench(gateway: Gateway, principal: Principal, files: FileAccess | None = None) -> Workbench:
    """Return what a model may use in the caller's turns.

    Devices and commands are those the caller could call itself. Files come only with authority over the gateway's
    agent: a user's, or a control grant that covers it.
    """
    grant = principal.grant
    return Workbench(
        nodes=None if grant is not None and not grant.devices else _Nodes(gateway, principal),
        files=None if grant is not None and not grant.agent else files,
        dispatch=None if grant is not None and not (grant.agent and grant.devices) else _Agents(gateway, principal),
        route=None if grant is not None and not grant.devices else _Routes(gateway, principal),
        permissions=_Permissions(gateway, principal),
        memory=OwnMemory(gateway, principal),
    )


class _Nodes:
    """Devices over the dispatcher, so that settings, grants, limits and the audit trail apply by themselves."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._gateway = gateway
        self._principal = principal

    def nodes(self) -> list[dict[str, Any]]:
        found = []
        visible = self._gateway.registry.visible(self._principal)
        names = Counter(session.display_name.casefold() for session in visible)
        for session in visible:
            capabilities = [_capability(each) for each in session.approved() if self._may_call(each.name)]
            if capabilities and session.device.status != "paused":
                node = self._node(session, capabilities)
                if names[session.display_name.casefold()] > 1:
                    node["id"] = session.node_id  # the name alone would not do
                found.append(node)
        return found

    async def invoke(self, run_id: str, node: str, command: str, params: dict[str, Any]) -> Any:
        gateway, principal = self._gateway, self._principal
        prepared = gateway.dispatcher.prepare(principal, node, command, Raw(encode(params)), origin=dict(_ORIGIN))
        call = start_call(gateway, prepared, run=gateway.runs.under_way(principal, run_id), agent=True)
        outcome = await call  # cancelling this task cancels the call on the device
        if not outcome.success:
            raise SuzentError("capability_failed", f"The device reported a failure: {outcome.error}", hint="")
        raw = bytes(outcome.result)
        return decode(raw) if len(raw) < _LARGE else await asyncio.to_thread(decode, raw)

    def _may_call(self, command: str) -> bool:
        grant = self._principal.grant
        return not self._gateway.settings.denies(command) and (grant is None or grant.allows(command))

    def _node(self, session: NodeSession, capabilities: list[dict[str, Any]]) -> dict[str, Any]:
        limits = self._gateway.limits
        return {
            "name": clean_text(session.display_name, int(limits.name_chars)),
            "platform": clean_text(session.platform, 64),
            "description": clean_text(session.description, int(limits.description_chars)),
            "capabilities": capabilities,
        }


class _Agents:
    """Agents of other nodes, by the rules of every dispatch."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._gateway = gateway
        self._principal = principal

    async def dispatch(self, run_id: str, node: str, prompt: str) -> str:
        asker = asker_of_own(self._gateway, self._principal, run_id)
        return await ask_agent(self._gateway, asker, node, prompt, "this gateway's own agent")


class _Routes:
    """The choice of a node, as ``POST /route`` makes it."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._gateway = gateway
        self._principal = principal

    async def route(self, query: str) -> dict[str, Any]:
        decision = await self._gateway.chooser.choose(self._principal, query, limit=_SUITABLE)
        chosen = decision.choice
        first = "" if chosen is None else chosen.node_id
        rows = sorted(decision.candidates, key=lambda row: row.node_id != first)
        decided = [f"{tier.tier}: {tier.outcome} ({tier.reason})" for tier in decision.tiers]
        return {"nodes": [_suitable(row) for row in rows], "considered": decision.considered, "decided": decided}


class _Permissions:
    """What the gateway's own tools ask the people of the caller's account."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._gateway = gateway
        self._principal = principal

    async def require(self, run_id: str, tool: str, description: str, params: dict[str, Any]) -> None:
        run = self._gateway.runs.under_way(self._principal, run_id)
        summary = await asyncio.to_thread(summarize, tool, description, params)
        await self._gateway.permissions.require(
            Question(self._principal, None, summary, run, own_tool=True, size=summary.params_bytes)
        )


def _suitable(row: RouteCandidate) -> dict[str, Any]:
    facts = {
        "platform": row.platform or None,
        "score": row.bm25,
        "words": row.matched_terms or None,
        "confidence": row.llm_confidence,
        "why": row.llm_reason,
    }
    told = {name: value for name, value in facts.items() if value is not None}
    return {"node": row.display_name, "id": row.node_id, "has_agent": row.executes, **told}


def _capability(capability: CapabilitySchema) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": capability.name, "description": clean_text(capability.description, 500)}
    parameters = capability.input_schema or capability.params_schema
    if parameters:
        shown["parameters"] = parameters
    return shown
