"""Answers that hold for the rest of a conversation. They live in memory and go with it, the node or the gateway."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.permissions import Decision


@dataclass(frozen=True, slots=True)
class Key:
    """What an answer is remembered for.

    Attributes
    ----------
    account : str
        Whose calls.
    node_id : str
        Where they run; ``""`` for this gateway itself.
    command : str
        The command, or the tool.
    own_tool : bool
        Which of the two: a node's agent chooses the names of its tools.
    conversation_id : str
        The conversation whose turns want it; ``""`` for calls of a socket.
    credential_id, origin
        Of such calls: the token they come with, and the socket.
    """

    account: str
    node_id: str
    command: str
    own_tool: bool = False
    conversation_id: str = ""
    credential_id: str = ""
    origin: object | None = None


class Remembered:
    """The newest answers, up to a number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[Key, tuple[Decision, str]] = OrderedDict()

    def get(self, key: Key | None) -> tuple[Decision, str] | None:
        """Return an answer, and who gave it."""
        if key is None or key not in self._answers:
            return None
        self._answers.move_to_end(key)
        return self._answers[key]

    def put(self, key: Key, decision: Decision, by: str) -> None:
        """Remember an answer; the newest counts."""
        self._answers[key] = (decision, by)
        self._answers.move_to_end(key)
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)

    def forget(self, is_over: Callable[[Key], bool]) -> None:
        """Forget answers."""
        for key in [key for key in self._answers if is_over(key)]:
            del self._answers[key]

    def __len__(self) -> int:
        return len(self._answers)
