"""A prompt for a peer's agent, and what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.paths import local_path
from ..errors import KernelError, UsageError
from ..plain import one_line
from ..rest import segment
from .answer import Answer
from .remote_file import list_files
from .running import STOP_TIMEOUT, Running
from .stream import TurnStream

if TYPE_CHECKING:
    from ..rest import Rest

Record = dict[str, Any]


class Turn(Running):
    """One turn on a peer."""

    def __init__(self, rest: Rest, peer: Record, prompt: str, chat: str | None, files: Sequence[Any]) -> None:
        if not prompt.strip():
            raise UsageError("There is nothing to ask: the prompt is empty.", hint="Write it after the peer's name.")
        peer_id = str(peer["peer_id"])
        self._rest = rest
        self._path = f"/nodes/peers/{segment(peer_id)}"
        self._body: Record = {"prompt": prompt}
        self._chat: Record = {} if chat is None else {"chat_id": chat}
        if files:
            self._body["attachments"] = [attachment(path, rest.is_local) for path in files]
        self.name = one_line(peer.get("name"), 64) or peer_id
        super().__init__(Answer(self.name, _find_files=lambda value: list_files(value, peer_id, self._rest.download)))

    def open(self) -> TurnStream:
        """Send the prompt."""
        return TurnStream(self._rest, f"{self._path}/trigger", {**self._body, **self._chat})

    def stop(self) -> str:
        """Tell the other side to stop, and return what came of that as a sentence."""
        try:
            self._rest.post(f"{self._path}/stop", self._chat, timeout=STOP_TIMEOUT)
        except KernelError as error:
            if error.code == "nothing_running":
                return f"Interrupted; the turn on {self.name} was over already."
            return f"Interrupted; whether the turn on {self.name} stopped is unknown: {error.line}"
        return f"Interrupted: the turn on {self.name} is stopped."


def attachment(path: Any, is_local: bool) -> Record:
    """Return a file as the gateway wants it named: by its absolute path on the gateway's machine.

    Raises
    ------
    UsageError
        The gateway runs on this machine, and there is no such file.
    """
    if not is_local:
        return {"path": os.fspath(path)}
    found = local_path(os.fspath(path), Path.exists).absolute()
    if not found.is_file():
        raise UsageError(
            f"There is no file '{one_line(os.fspath(path), 300)}'.", hint="Name a file on the gateway's machine."
        )
    return {"path": str(found)}
