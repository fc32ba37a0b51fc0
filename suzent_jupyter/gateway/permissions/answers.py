"""Answers that come by a socket: ``permission.response`` in, and an ``error`` out for one that does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import SuzentError
from ...protocol.permissions import Decision, Remember
from ..failures import internal
from .prompt import resolved_frame

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..principals import Principal

_WAITING = 64  # answers of one socket that are being written


class Answers:
    """Those of one socket.

    Parameters
    ----------
    principal : Principal
        Whose socket it is.
    send : callable
        Sends a frame (a dict); it does nothing once the socket is gone.
    subscribes : bool
        Whether the socket hears of prompts by its subscription alone: then an answer that counts is answered here.
    """

    def __init__(
        self,
        gateway: Gateway,
        principal: Principal,
        send: Callable[[dict[str, Any]], None],
        *,
        subscribes: bool = False,
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._send = send
        self._subscribes = subscribes
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, frame: dict[str, Any]) -> None:
        """Take a ``permission.response``; ``SuzentError`` for one that is none."""
        prompt_id, decision, remember = frame.get("id"), frame.get("decision"), frame.get("remember", "once")
        if not isinstance(prompt_id, str):
            raise SuzentError("invalid_request", "`id` must be the id of the prompt.")
        if decision not in ("allow", "deny"):
            raise SuzentError("invalid_request", "`decision` must be `allow` or `deny`.")
        if remember not in ("once", "session"):
            raise SuzentError("invalid_request", "`remember` must be `once` or `session`.")
        if len(self._tasks) >= _WAITING:
            raise SuzentError("too_many_permissions", "So many answers are being taken already.")
        task = asyncio.ensure_future(self._answer(prompt_id, decision, remember))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, prompt_id: str, decision: str, remember: str) -> None:
        try:
            closed = await self._gateway.permissions.answer(
                self._principal, prompt_id, cast(Decision, decision), cast(Remember, remember)
            )
        except SuzentError as error:
            self._send({**error.as_frame(), "id": prompt_id})
        except Exception as error:
            self._send({**internal("An answer to a prompt", error).as_frame(), "id": prompt_id})
        else:
            if self._subscribes:
                self._send(resolved_frame(closed))
