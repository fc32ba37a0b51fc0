"""What the routes of permission prompts do."""

from __future__ import annotations

from ..protocol.errors import SuzentError
from ..protocol.permissions import PermissionAnswer, PermissionAnswerResponse, PermissionListResponse
from .request import Request


async def list_permissions(request: Request) -> PermissionListResponse:
    """Return what waits for the caller's answer; with ``?history=1`` what is over."""
    raise SuzentError("stopping", "Not yet.")


async def answer_permission(request: Request) -> PermissionAnswerResponse:
    """Allow or deny what one exact id stands for."""
    request.model(PermissionAnswer)
    raise SuzentError("stopping", "Not yet.")
