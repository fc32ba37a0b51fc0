"""Permission prompts for the person at this device: shown by the program's own function, answered to the gateway."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from ..protocol.permissions import PermissionInfo, PermissionResponse
from ..protocol.text import clean_lines, clean_text

log = logging.getLogger(__name__)

_OPEN = 64  # prompts shown at once; the gateway closes what nobody answers
_TEXT, _PARAMS = 500, 20_000  # the gateway shows no more, and what is cut off here could be what matters

#: Called with the prompt. ``True`` allows it once, ``"session"`` for its conversation, ``False`` denies it; None leaves
#: it to others who are asked. An ``async`` function is cancelled once the prompt is closed elsewhere.
OnPermission = Callable[[PermissionInfo], Any]


class Prompts:
    """The open prompts of one connection.

    Parameters
    ----------
    send : callable
        Sends one frame.
    ask : callable
        See :data:`OnPermission`.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], ask: OnPermission) -> None:
        self._send = send
        self._ask = ask
        self._open: dict[str, asyncio.Task[None]] = {}

    def take(self, frame: dict[str, Any]) -> None:
        """Take a ``permission.request`` or ``permission.resolved``."""
        prompt_id = frame.get("id")
        if not isinstance(prompt_id, str):
            return
        if frame.get("type") == "permission.resolved":
            task = self._open.pop(prompt_id, None)
            if task is not None:
                task.cancel()
            return
        prompt = _read(frame)
        if prompt is None or prompt_id in self._open or len(self._open) >= _OPEN:
            log.warning("A permission prompt could not be shown.")
            return
        task = self._open[prompt_id] = asyncio.get_running_loop().create_task(self._put(prompt))
        task.add_done_callback(lambda done: self._done(prompt_id, done))

    async def close(self) -> None:
        """Close what is open: nobody hears the answers any more."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _put(self, prompt: PermissionInfo) -> None:
        if inspect.iscoroutinefunction(self._ask) or inspect.iscoroutinefunction(
            getattr(self._ask, "__call__", None)  # noqa: B004 - an object whose call is async
        ):
            answer = await self._ask(prompt)
        else:
            answer = await asyncio.to_thread(self._ask, prompt)
        if answer is None:
            return
        remember = "session" if answer == "session" else "once"
        decision = "allow" if answer is True or answer == "session" else "deny"
        response = PermissionResponse(id=prompt.id, decision=decision, remember=remember)
        await self._send(response.encode())

    def _done(self, prompt_id: str, task: asyncio.Task[None]) -> None:
        if self._open.get(prompt_id) is task:
            del self._open[prompt_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The callback for permission prompts failed; the prompt stays unanswered.", exc_info=error)


def _read(frame: dict[str, Any]) -> PermissionInfo | None:
    """Return a prompt whose text can be shown; None for a frame that is none."""
    try:
        prompt = PermissionInfo.model_validate(frame)
    except ValidationError:
        return None
    summary = prompt.summary
    files = [
        {name: clean_text(value, _TEXT) if isinstance(value, str) else value for name, value in file.items()}
        for file in summary.files
    ]
    shown = summary.model_copy(
        update={
            "command": clean_text(summary.command, 128),
            "description": clean_text(summary.description, _TEXT),
            "params": clean_lines(summary.params, _PARAMS),
            "files": files,
        }
    )
    cleaned = {name: clean_text(getattr(prompt, name), 128) for name in ("tool", "caller", "node_name", "expires_at")}
    return prompt.model_copy(update={**cleaned, "summary": shown})
