"""Asks whoever waits for a cell about the prompts of what that cell runs."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import KernelError
from ..plain import one_line
from . import words
from .typing import Typed, Typing, find_typing

if TYPE_CHECKING:
    from .feed import Feed

Record = dict[str, Any]
#: Sends an answer: the prompt's id, the decision, how long it is remembered.
Send = Callable[[str, str, str], Any]

LOOK, TYPING = 0.25, 0.05  # s between two looks, while nothing is asked and while somebody types

_ANSWERS = {
    "y": ("allow", "once"), "yes": ("allow", "once"), "allow": ("allow", "once"),
    "s": ("allow", "session"), "session": ("allow", "session"),
    "n": ("deny", "once"), "no": ("deny", "once"), "deny": ("deny", "once"), "": ("deny", "once"),
}  # fmt: skip


class _Desk:
    """The one place to type, for all that wait in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_stale = False  # somewhere a question stands that is answered: a line may be meant for that


_desk = _Desk()


class Asker:
    """Asks about the prompts that belong to one call or turn, while that is waited for. Nothing in it blocks.

    Each answer is bound to the id of the prompt it was asked for. A prompt that somebody else answers while one types
    leaves an unread question behind; from then on a line counts only if it names its prompt, unless the front end
    says which question it answers.

    Parameters
    ----------
    feed : Feed
        The prompts that wait for this account.
    belongs : callable
        Tells whether a prompt is one of what is waited for.
    send : callable
        Answers a prompt; called on a thread of its own.
    waited_for : callable, optional
        Tells whether somebody still waits in a cell; otherwise prompts are said, and not asked.
    """

    def __init__(
        self,
        feed: Feed,
        belongs: Callable[[Record], bool],
        send: Send,
        waited_for: Callable[[], bool] = lambda: True,
    ) -> None:
        self._feed = feed
        self._belongs = belongs
        self._send = send
        self._waited_for = waited_for
        self.say: Callable[[str], None] = _say
        self._known: dict[str, Record] = {}  # those of ours that were open when we looked last
        self._told: set[str] = set()
        self._waiting: list[str] = []  # to be asked, oldest first
        self._asked = ""
        self._typing: Typing | None = None
        self._mute = False
        self._broken = False
        self._answered: dict[str, str] = {}  # the decisions that are on their way
        self._failed: dict[str, KernelError] = {}
        feed.start()

    def step(self) -> float:
        """Look, say, ask and take answers; return the seconds after which to do so again."""
        self._guarded(self._steps)
        return TYPING if self._asked or self._answered else LOOK

    async def attend(self) -> None:
        """Do so beside whatever is awaited, until cancelled."""
        try:
            while True:  # noqa: ASYNC110 - the place to type has no event to wait for
                await asyncio.sleep(self.step())
        finally:
            self.close()

    def close(self) -> None:
        """Say what has ended, and ask no more: a question that still stands is neither allowed nor denied."""
        self._guarded(self._look)
        if self._asked:
            _desk.is_stale = True
        self._release()

    def _steps(self) -> None:
        self._look()
        for prompt_id, prompt in self._known.items():
            if prompt_id not in self._told:
                self._told.add(prompt_id)
                self._tell(prompt_id, prompt)
        if self._asked:
            self._read()
        elif self._waiting:
            self._ask()

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            work()
        except Exception:  # what is waited for comes all the same, and can be answered elsewhere
            self._broken = True
            self._release()
            logging.getLogger(__name__).exception("Asking for permission failed; answer elsewhere.")

    # -- what there is

    def _look(self) -> None:
        ours = {prompt_id: prompt for prompt_id, prompt in self._feed.open.items() if self._belongs(prompt)}
        for prompt_id, prompt in self._known.items():
            if prompt_id not in ours:
                self._ended(prompt_id, prompt)
        self._known = ours
        for prompt_id, error in list(self._failed.items()):
            del self._failed[prompt_id]
            self._answered.pop(prompt_id, None)
            self.say(f"Your answer did not count: {error.line}")

    def _tell(self, prompt_id: str, prompt: Record) -> None:
        if self._may_ask():
            self._waiting.append(prompt_id)
            return
        code = words.short(prompt_id)
        self.say(
            f"{words.headline(prompt)} Answer elsewhere: %suzent permissions shows it all; "
            f"%suzent answer {code} allow (or deny), or in a terminal jupyter suzent answer {code} allow."
        )

    def _ended(self, prompt_id: str, prompt: Record) -> None:
        asked = prompt_id == self._asked
        inline = self._typing is not None and self._typing.is_inline
        if prompt_id in self._waiting:
            self._waiting.remove(prompt_id)
        closed = {**prompt, **self._feed.ended(prompt_id)}
        mine = closed.get("reason") == "answered" and self._answered.pop(prompt_id, "") == closed.get("decision")
        if asked:
            _desk.is_stale = True
            self._release()
        self.say(f"{chr(10) if asked and inline else ''}{words.outcome(closed, mine=mine)}")

    # -- asking

    def _may_ask(self) -> bool:
        if self._mute or not self._waited_for():
            return False
        if self._typing is None:
            self._typing = find_typing()
        return self._typing is not None

    def _ask(self) -> None:
        if not self._may_ask():
            waiting, self._waiting = self._waiting, []
            for prompt_id in waiting:
                self._tell(prompt_id, self._known[prompt_id])
            return
        if not _desk.lock.acquire(blocking=False):
            return  # another call of this process asks right now
        self._asked = self._waiting.pop(0)
        prompt = self._known[self._asked]
        self.say("\n  ".join([words.headline(prompt), *words.details(prompt)]))
        self._question()

    def _question(self) -> None:
        lasting = "for this conversation" if self._known[self._asked].get("run_id") else "for this notebook's calls"
        code = f" {words.short(self._asked)}" if _desk.is_stale else ""
        question = f"Allow it?  y{code} = once, s{code} = {lasting}, N{code} = no: "
        assert self._typing is not None
        try:
            self._typing.ask(question)
        except Exception:  # the front end is gone, or this kernel is of another kind than those we know
            self._give_up()

    def _read(self) -> None:
        assert self._typing is not None
        try:
            line = self._typing.read()
        except EOFError:
            self._give_up()
            return
        if line is None:
            return
        answer = self._understood(line)
        if answer is None:
            named = f", with {words.short(self._asked)} after it: another question was closed" if _desk.is_stale else ""
            self.say(f"Type y, s or n{named}.")
            self._question()
            return
        prompt_id = self._asked
        self._release()
        self._answered[prompt_id] = answer[0]
        threading.Thread(target=self._answer, args=(prompt_id, *answer), name="suzent-answer", daemon=True).start()

    def _understood(self, line: Typed) -> tuple[str, str] | None:
        word, _, code = line.text.strip().casefold().partition(" ")
        code = code.strip()
        if code:
            named = len(code) >= 4 and self._asked.casefold().startswith(code)
        else:
            named = line.is_sure or not _desk.is_stale
        return _ANSWERS.get(word) if named else None

    def _answer(self, prompt_id: str, decision: str, remember: str) -> None:
        try:
            self._send(prompt_id, decision, remember)
        except KernelError as error:
            if error.code not in ("permission_resolved", "permission_expired"):  # that is heard from the feed
                self._failed[prompt_id] = error
        except Exception as error:
            self._failed[prompt_id] = KernelError(f"{type(error).__name__}: {one_line(error)}")

    def _give_up(self) -> None:
        """Ask nothing more here, and say how to answer what waits."""
        prompt_id = self._asked
        self._release()
        self._mute = True
        for each in [prompt_id, *self._waiting]:
            if each in self._known:
                self._tell(each, self._known[each])
        self._waiting.clear()

    def _release(self) -> None:
        if self._asked:
            self._asked = ""
            _desk.lock.release()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
