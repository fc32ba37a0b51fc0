"""A prompt that runs on a node, and what becomes of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ConnectionLost, KernelError, UsageError
from ..plain import is_notebook, one_line
from ..rest import segment
from ..route import chosen_line
from .answer import Answer
from .running import STOP_TIMEOUT, Running, Stream

if TYPE_CHECKING:
    from ..chats import Chat, Chats
    from ..rest import Rest

Record = dict[str, Any]

_SLICE = 0.2  # s; Windows delivers an interrupt only between waits
_NAMELESS = "the node"


class ChatTurn(Running):
    """One prompt on a node.

    Parameters
    ----------
    body : dict
        The fields of ``chat.send``.
    on_accepted : callable, optional
        Called with ``chat.accepted`` before the first event.
    on_begun : callable, optional
        Called with the conversation's id, also where that becomes known only after an interrupt.
    send_files : callable, optional
        Sends the prompt's files ahead and returns them as the frame carries them; it asks what it is given whether to
        give up.
    """

    def __init__(
        self,
        chats: Chats,
        rest: Rest,
        body: Record,
        on_accepted: Callable[[Record], None] | None = None,
        on_begun: Callable[[str], None] | None = None,
        send_files: Callable[[Callable[[], bool]], list[Record]] | None = None,
    ) -> None:
        __tracebackhide__ = True
        if not str(body.get("message", "")).strip():
            raise UsageError("There is nothing to ask: the prompt is empty.", hint="Such as `%suzent chat Hello`.")
        super().__init__(Answer(_NAMELESS))
        self._chats = chats
        self._rest = rest
        self._body = body
        self._on_accepted = on_accepted
        self._on_begun = on_begun
        self._send_files = send_files
        self._chat: Chat | None = None

    def open(self) -> Stream:
        """Send the prompt and wait until the gateway says who answers."""
        __tracebackhide__ = True
        if self._send_files is not None:
            self._body["attachments"] = self._send_files(self._left.is_set)
        self._chat = chat = self._chats.begin(self._body)
        try:
            while (accepted := chat.wait_for_acceptance(_SLICE)) is None:
                if self._left.is_set():
                    return chat
        except KernelError:
            chat.leave()
            raise
        self._told(accepted)
        if self._on_accepted is not None:
            self._on_accepted(accepted)
        return _Followed(chat, self._explained)

    def _told(self, accepted: Record) -> None:
        """Take note of who answers, and in which conversation."""
        answer = self.answer
        answer.peer = one_line(accepted.get("node_name"), 64) or one_line(accepted.get("node_id"), 64) or _NAMELESS
        answer.node_id = one_line(accepted.get("node_id"), 256)
        routing = accepted.get("routing")
        answer.routing = routing if isinstance(routing, dict) and routing else {"choice": choice_of(accepted)}
        self.took({})
        if self._on_begun is not None:
            self._on_begun(answer.conversation)

    def took(self, event: Record) -> None:
        """Keep the gateway's own ids: those in an event are the node's word."""
        accepted = self._chat.accepted if self._chat else None
        if accepted:
            self.answer.conversation = one_line(accepted.get("session_id"), 256)
            self.answer.run_id = one_line(accepted.get("run_id"), 256)

    def stop(self) -> str:
        """Abort the run on the node, and return what came of that as a sentence."""
        chat = self._chat
        if chat is None:
            return "Interrupted; nothing was asked."
        was_over = chat.over.is_set()
        chat.abort()
        if was_over:
            chat.leave()
            return f"Interrupted; the run on {self.answer.peer} was over already."
        end = time.monotonic() + STOP_TIMEOUT
        while not chat.over.wait(_SLICE) and time.monotonic() < end:
            pass
        stopped = chat.over.is_set()
        chat.leave()
        if chat.accepted is not None:
            self._told(chat.accepted)  # it may have come after whoever waited for it was interrupted
        if stopped:
            return f"Interrupted: the run on {self.answer.peer} is stopped."
        return f"Interrupted; whether the run on {self.answer.peer} stopped is unknown."

    def _explained(self, error: KernelError) -> KernelError:
        """Return what to say where a run can't be followed any more: what the conversation says of it."""
        if error.code != "run_unknown":
            return error
        where = f"`%suzent conversations {self.answer.conversation}` shows what was kept."
        try:
            kept = self._rest.get(f"/conversations/{segment(self.answer.conversation)}")
            messages = [item for item in kept.get("messages") or () if item.get("run_id") == self.answer.run_id]
            outcome = next(
                (one_line(item.get("outcome"), 64) for item in reversed(messages) if item.get("outcome")), ""
            )
        except (KernelError, AttributeError):
            outcome = ""
        if outcome == "done":
            return ConnectionLost("The answer was completed while the connection was lost.", hint=where)
        return ConnectionLost(
            f"The gateway was restarted during the answer, and the run on {self.answer.peer} ended with that"
            f"{f' ({outcome})' if outcome else ''}.",
            hint=where,
        )


class _Followed:
    """The events of a chat, whose failures are explained."""

    def __init__(self, chat: Chat, explain: Callable[[KernelError], KernelError]) -> None:
        self._chat = chat
        self._explain = explain

    def take(self, timeout: float | None = None) -> Any:
        """Return the next event."""
        __tracebackhide__ = True
        try:
            return self._chat.take(timeout)
        except KernelError as error:
            raise self._explain(error) from None

    def leave(self) -> None:
        """Stop listening."""
        self._chat.leave()


def choice_of(accepted: Record) -> Record:
    """Return the choice that ``chat.accepted`` tells of."""
    return {
        "node_id": accepted.get("node_id"),
        "display_name": accepted.get("node_name"),
        **{key: accepted.get(key) for key in ("tier", "confidence", "reason")},
    }


def show_accepted(accepted: Record) -> None:
    """Show which node answers and why, as one line above the answer."""
    line = f"→ {chosen_line(choice_of(accepted))}"
    if not is_notebook():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        return
    from IPython.display import display

    display({"text/plain": line}, raw=True)
