"""What the routes do that say which node a prompt goes to, and who may use a node."""

from __future__ import annotations

from ..protocol.routing import Decision, ScopeRequest, ScopeResponse
from .request import Request


async def route(request: Request) -> Decision:
    """Say which node a prompt would go to, and why."""
    raise NotImplementedError


async def set_scope(request: Request) -> ScopeResponse:
    """Share a node with its owner's organisation, or with nobody."""
    scope = request.model(ScopeRequest).scope
    return await request.gateway.sharing.set_scope(request.principal, request.path["node"], scope)
