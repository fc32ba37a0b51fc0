"""The prompts of one gateway: asked of the surfaces that may answer, closed by the first answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.permissions import Decision, PermissionInfo, PermissionSummary, Remember

if TYPE_CHECKING:
    from ..answering.run import Run
    from ..gateway import Gateway
    from ..principals import Principal
    from ..session import NodeSession


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes
    ----------
    principal : Principal
        Whose rights it would run with: who calls.
    executor : NodeSession, optional
        The node it would run on; None for this gateway's own tools.
    summary : PermissionSummary
        Exactly what would run.
    run : Run, optional
        The turn that wants it.
    """

    principal: Principal
    executor: NodeSession | None
    summary: PermissionSummary
    run: Run | None = None


class Permissions:
    """Asks, and takes answers.

    Parameters
    ----------
    gateway : Gateway
        Whose surfaces are asked.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def require(self, question: Question) -> None:
        """Return once it is allowed; recorded either way. Cancelling the task closes the prompt.

        Raises
        ------
        SuzentError
            ``permission_denied``, ``permission_expired``, ``permission_needed`` (nobody can be asked),
            ``too_many_permissions``, ``node_disconnected``, ``store_failed``.
        """
        raise NotImplementedError

    async def answer(
        self, principal: Principal, prompt_id: str, decision: Decision, remember: Remember
    ) -> PermissionInfo:
        """Close a prompt for a caller who was asked.

        Raises
        ------
        SuzentError
            ``permission_unknown`` (also for prompts others were asked), ``permission_expired``,
            ``permission_resolved``, ``store_failed``.
        """
        raise NotImplementedError

    def waiting(self, principal: Principal) -> list[PermissionInfo]:
        """Return the open prompts that wait for this caller, oldest first."""
        raise NotImplementedError

    async def history(self, principal: Principal, limit: int) -> list[PermissionInfo]:
        """Return the closed ones of the caller's account, newest first."""
        raise NotImplementedError
