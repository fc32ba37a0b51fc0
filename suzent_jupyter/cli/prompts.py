"""Permission prompts on the terminal of a device, answered by the person who sits there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..protocol.permissions import PermissionInfo

_CODE_CHARS = 4
_ANSWERS: dict[str, Any] = {
    "y": True, "yes": True, "allow": True, "s": "session", "session": "session", "n": False, "no": False, "deny": False,
}  # fmt: skip


class TerminalPrompts:
    """Shows prompts and takes answers such as ``y 3f2a``.

    Every answer names its prompt: one that closes while a line is typed takes no answer meant for it to the next.

    Parameters
    ----------
    say : callable
        Prints a line.
    as_json : bool
        Print prompts as JSON objects.
    descriptor : int, optional
        Where answers are read; standard input otherwise.
    """

    def __init__(self, say: Callable[[str], None], *, as_json: bool = False, descriptor: int | None = None) -> None:
        self._say = say
        self._as_json = as_json
        self._descriptor = descriptor
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._reading = False

    async def __call__(self, prompt: PermissionInfo) -> Any:
        """Ask, and return the answer; cancelled when the prompt is closed elsewhere."""
        loop = asyncio.get_running_loop()
        code = self._code(prompt.id)
        answer = self._open[code] = loop.create_future()
        self._listen(loop)
        self._show(code, prompt)
        try:
            return await answer
        except asyncio.CancelledError:
            self._tell(code, "closed", f"[{code}] is closed: it was answered elsewhere, or is over.")
            raise
        finally:
            del self._open[code]

    def _code(self, prompt_id: str) -> str:
        size = _CODE_CHARS
        while (code := prompt_id[:size].lower()) in self._open and size < len(prompt_id):
            size += 1
        return code

    def _show(self, code: str, prompt: PermissionInfo) -> None:
        if self._as_json:
            self._say(json.dumps({"event": "permission", "code": code, "permission": prompt.model_dump()}))
            return
        summary = prompt.summary
        who = prompt.caller or "Somebody"
        lines = [f"[{code}] {who} wants to run {summary.command} here."]
        if summary.description:
            lines.append(f"  {summary.description}")
        if summary.params not in ("", "{}"):
            lines.append(f"  with {summary.params}")
            if (more := summary.params_bytes - len(summary.params.encode())) > 0:
                lines.append(f"  and {more:,} bytes more of these parameters")
        lines += [f"  sends {file.get('name')} ({file.get('size')} bytes)" for file in summary.files]
        lines.append(f"  Allow it?  y {code} (once)   s {code} (for this conversation)   n {code} (no)")
        self._say("\n".join(lines))

    def _tell(self, code: str, what: str, text: str) -> None:
        self._say(json.dumps({"event": "permission", "code": code, "status": what}) if self._as_json else text)

    # -- answers

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._reading:
            return
        self._reading = True
        descriptor = sys.stdin.fileno() if self._descriptor is None else self._descriptor

        def read() -> None:
            # Not by `sys.stdin`, whose lock a thread that waits for a line would hold when the program ends.
            rest = b""
            while True:
                try:
                    data = os.read(descriptor, 4096)
                except OSError:
                    data = b""
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    try:
                        loop.call_soon_threadsafe(self._take, line.decode(errors="replace"))
                    except RuntimeError:
                        return  # the loop has ended

        threading.Thread(target=read, daemon=True, name="suzent-answers").start()

    def _take(self, line: str) -> None:
        words = line.strip().lower().split()
        if not words:
            return
        waiting = ", ".join(self._open) or "none"
        if len(words) != 2 or words[0] not in _ANSWERS:
            self._say(f"Type y, s or n and the code of a prompt; there wait: {waiting}.")
            return
        answer = self._open.get(words[1])
        if answer is None or answer.done():
            self._say(f"There is no prompt {words[1][:16]!r} now; there wait: {waiting}.")
            return
        answer.set_result(_ANSWERS[words[0]])
