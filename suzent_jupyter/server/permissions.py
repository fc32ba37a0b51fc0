"""What the routes of permission prompts do."""

from __future__ import annotations

from ..protocol.permissions import PermissionAnswer, PermissionAnswerResponse, PermissionListResponse
from .request import Request


async def list_permissions(request: Request) -> PermissionListResponse:
    """Return what waits for the caller's answer; with `history=1` what is over, `limit` is 100 by default."""
    gateway, principal = request.gateway, request.principal
    if request.number("history", 0, 0, 1):
        limit = request.number("limit", 100, 1, 1000) or 100
        found = await gateway.permissions.history(principal, limit)
    else:
        found = gateway.permissions.waiting(principal)
    return PermissionListResponse(permissions=found, count=len(found))


async def answer_permission(request: Request) -> PermissionAnswerResponse:
    """Allow or deny what one exact id stands for."""
    body = request.model(PermissionAnswer)
    closed = await request.gateway.permissions.answer(
        request.principal, request.path["id"], body.decision, body.remember
    )
    return PermissionAnswerResponse(permission=closed)
