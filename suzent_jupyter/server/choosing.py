"""What the routes do that say which node a prompt goes to, and who may use a node."""

from __future__ import annotations

import asyncio

from ..protocol.errors import SuzentError
from ..protocol.routing import Decision, RouteRequest, ScopeRequest, ScopeResponse
from .request import Request

_MOST = 1000


async def route(request: Request) -> Decision:
    """Say which node a prompt would go to, and why; an empty one goes to the node that connected last."""
    body = request.model(RouteRequest)
    most = int(request.gateway.limits.prompt_chars)
    if len(body.query) > most:
        raise SuzentError("invalid_request", f"`query` may have {most:,} characters at most, not {len(body.query):,}.")
    if body.limit is not None and not 1 <= body.limit <= _MOST:
        raise SuzentError("invalid_request", f"`limit` must be a whole number from 1 to {_MOST}.")
    choosing = request.gateway.chooser.choose(
        request.principal, body.query, executors=body.executors, node=body.node or None, limit=body.limit
    )
    request.waits_for = chosen = asyncio.ensure_future(choosing)
    return await chosen


async def set_scope(request: Request) -> ScopeResponse:
    """Share a node with its owner's organisation, or with nobody."""
    scope = request.model(ScopeRequest).scope
    return await request.gateway.sharing.set_scope(request.principal, request.path["node"], scope)
