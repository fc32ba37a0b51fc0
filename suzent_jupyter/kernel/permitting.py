"""The part of a gateway's Python object that has to do with permission prompts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .plain import one_line, shell
from .rest import Rest, segment

if TYPE_CHECKING:
    import pandas as pd

    from .asking.asker import Asker
    from .asking.feed import Feed

Record = dict[str, Any]

_DECISIONS = {"allow": "allow", "deny": "deny", "y": "allow", "n": "deny", "yes": "allow", "no": "deny"}
REMEMBER = ("once", "session")


class Permitting:
    """Prompts of a :class:`~.gateway.Gateway` that its people are asked."""

    _rest: Rest

    if TYPE_CHECKING:

        @cached_property
        def _feed(self) -> Feed: ...

    @property
    def permissions(self) -> pd.DataFrame:
        """What waits for your answer, oldest first; see :class:`.permissions_frame.PermissionsFrame`."""
        from .permissions_frame import permissions_frame

        return permissions_frame(self.waiting_permissions())

    def permission_history(self, limit: int = 100) -> pd.DataFrame:
        """Return what was asked and how it ended, newest first, of the last 30 days."""
        from .permissions_frame import permissions_frame

        answer = self._rest.get("/permissions", history=1, limit=limit)
        return permissions_frame(answer["permissions"], over=True)

    def waiting_permissions(self) -> list[Record]:
        """Return what waits for your answer as the gateway's own records."""
        items: list[Record] = self._rest.get("/permissions")["permissions"]
        return items

    def answer(self, prompt_id: str, decision: str, *, remember: str = "once") -> Record:
        """Answer a prompt that waits.

        Parameters
        ----------
        prompt_id : str
            Its id, or a beginning of it that no other has.
        decision : str
            ``allow`` or ``deny``.
        remember : str
            ``once``, or ``session``: for the same command there, in the same conversation.

        Returns
        -------
        dict
            The prompt as it is now.

        Raises
        ------
        KernelError
            ``permission_unknown``, ``permission_expired`` or ``permission_resolved`` (somebody else was first).
        """
        decided = _DECISIONS.get(decision.strip().casefold())
        if decided is None:
            raise UsageError(f"'{one_line(decision, 40)}' is no answer.", hint="Say allow or deny.")
        if remember not in REMEMBER:
            raise UsageError(f"'{one_line(remember, 40)}' can't be remembered.", hint="Say once or session.")
        return self._send_answer(self._prompt_id(prompt_id), decided, remember)

    async def aanswer(self, prompt_id: str, decision: str, *, remember: str = "once") -> Record:
        """Answer a prompt without blocking the event loop; as :meth:`answer`."""
        from .turns.running import on_thread

        return await on_thread(lambda: self.answer(prompt_id, decision, remember=remember))

    def _prompt_id(self, typed: str) -> str:
        """Return the whole id; one that does not wait as it was typed, since the gateway knows why."""
        wanted = typed.strip()
        if not wanted:
            raise UsageError("The id of the prompt is missing.", hint="`%suzent permissions` shows what waits.")
        ids = [str(item.get("id")) for item in self.waiting_permissions()]
        if wanted in ids:
            return wanted
        found = [each for each in ids if each.startswith(wanted.casefold())]
        if len(found) > 1:
            listed = ", ".join(one_line(each, 64) for each in found[:8])
            raise UsageError(f"{len(found)} prompts begin with '{one_line(wanted, 64)}': {listed}.", hint="Type more.")
        return found[0] if found else wanted

    def _send_answer(self, prompt_id: str, decision: str, remember: str) -> Record:
        body = {"decision": decision, "remember": remember}
        answer: Record = self._rest.post(f"/permissions/{segment(prompt_id)}", body)["permission"]
        return answer

    # -- while a cell waits -----------------------------------------------------------------------------------

    def _watch_call(self) -> Callable[[int], Asker] | None:
        """Return what asks about a direct call of the running cell, given its number; None outside of IPython."""
        waited_for = _waited_for()
        if waited_for is None:
            return None

        def watch(number: int) -> Asker:
            from .asking.asker import Asker

            known = str(number)
            return Asker(self._feed, lambda prompt: prompt.get("call_id") == known, self._send_answer, waited_for)

        return watch

    def _watch_run(self, run_id: Callable[[], str]) -> Asker | None:
        """Return what asks about a run of the running cell, and those it begins; None outside of IPython."""
        waited_for = _waited_for()
        if waited_for is None:
            return None
        from .asking.asker import Asker

        def belongs(prompt: Record) -> bool:
            run = run_id()
            return bool(run) and run in (prompt.get("run_id"), prompt.get("top_run_id"))

        return Asker(self._feed, belongs, self._send_answer, waited_for)


def _waited_for() -> Callable[[], bool] | None:
    ip = shell()
    if ip is None:
        return None
    from .asking.cells import cells_of

    cells = cells_of(ip)
    number = cells.now
    return lambda: cells.runs(number)
