"""What callers of one kind may choose among: an index of their own, kept up to date as nodes come, change and go.

It is theirs alone, so that a node which does not exist for them counts for nothing in what they are told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.device import AGENT_COMMAND
from ...protocol.text import clean_text
from ...routing.candidates import Candidate, Candidates
from ...routing.documents import NodeText
from ...routing.keyword import KeywordIndex
from ...routing.steps import Steps
from ..executors import executes
from ..principals import Principal
from ..registry import Registry

if TYPE_CHECKING:
    from ...routing.steps import Pace
    from ..gateway import Gateway
    from ..session import NodeSession

_LABEL_CHARS = 64
_OVER = object()


class View:
    """The nodes of one kind of caller. Nothing is done for it until it is asked.

    Parameters
    ----------
    gateway : Gateway
        Whose nodes.
    principal : Principal
        One of these callers.
    pace : Pace
        At which all views are brought up to date.
    """

    def __init__(self, gateway: Gateway, principal: Principal, pace: Pace) -> None:
        self._gateway = gateway
        self._principal = principal
        self._pace = pace
        self._index = KeywordIndex()
        self._texts: dict[str, NodeText] = {}
        self._all = Candidates(self._index)
        self._executors = Candidates(self._index)
        #: Nodes that came, changed or went since they were last looked at, in that order, and which note it was.
        self._stale: dict[str, int] = {}
        self._notes = 0
        self._all_stale = True
        #: The look that is under way, and which note it is for. Whoever asks takes it further.
        self._look_now: tuple[int, Steps[None]] | None = None

    def note(self, node_id: str, session: NodeSession | None) -> None:
        """Take note that a node came, changed or went; what may not be chosen any more can't be from now on."""
        for candidates, takes in self._kinds():
            if session is None or not takes(session):
                candidates.remove(node_id)
        self._notes += 1
        self._stale.setdefault(node_id, self._notes)

    def note_all(self) -> None:
        """Take note that it may be different for every node now what it is able to do."""
        self._all_stale = True

    async def candidates(self, *, executors: bool) -> Candidates:
        """Return what there is to choose among, as of now. What changes meanwhile may not be in it yet."""
        if self._all_stale:
            self._all_stale = False
            self._notes += 1
            for session in self._gateway.registry:
                self._stale.setdefault(session.node_id, self._notes)
        await self._pace.walk(self._catch_up(self._notes))
        return self._executors if executors else self._all

    def _catch_up(self, note: int) -> Steps[None]:
        while True:
            if self._look_now is None:
                node_id = next(iter(self._stale), None)
                if node_id is None or self._stale[node_id] > note:
                    return
                self._look_now = self._stale.pop(node_id), self._look(node_id)
            number, steps = self._look_now
            if number > note:
                return
            if next(steps, _OVER) is _OVER:
                self._look_now = None
            yield

    def takes(self, session: NodeSession) -> bool:
        """Tell whether a node is able to do anything for these callers."""
        return self._may_see(session) and (
            self._executes(session)
            or any(self._may_use(each.name) for each in session.approved() if each.name != AGENT_COMMAND)
        )

    def executes(self, session: NodeSession) -> bool:
        """Tell whether a node could carry out a chat of theirs."""
        return self._may_see(session) and self._executes(session)

    def _kinds(self) -> tuple[tuple[Candidates, Callable[[NodeSession], bool]], ...]:
        return (self._all, self.takes), (self._executors, self.executes)

    def _may_see(self, session: NodeSession) -> bool:
        own = session.device.account == self._principal.account
        is_covered = own or self._principal.grant is None  # a control grant reaches no further than its account
        return is_covered and session.device.status == "active" and Registry.may_see(self._principal, session)

    def _executes(self, session: NodeSession) -> bool:
        # A device's own agent does not know of turns that may not ask, and such are all of another account.
        knows = session.runs_chats or session.device.account == self._principal.account
        return knows and executes(session) and self._may_use(AGENT_COMMAND)

    def _may_use(self, command: str) -> bool:
        grant = self._principal.grant
        return not self._gateway.settings.denies(command) and (grant is None or grant.allows(command))

    def _look(self, node_id: str) -> Steps[None]:
        session = self._gateway.registry.by_id(node_id)
        if session is None or not self.takes(session):
            for candidates, _takes in self._kinds():
                candidates.remove(node_id)
            if self._texts.pop(node_id, None) is not None:
                yield from self._index.removing(node_id)
            return
        text = self._text(session)
        yield
        if self._texts.get(node_id) != text:
            yield from self._index.putting(text)
            self._texts[node_id] = text
        # It may have changed since, or be gone: then it is looked at again, but is no candidate until then.
        session = self._gateway.registry.by_id(node_id)
        for candidates, takes in self._kinds():
            if session is not None and takes(session):
                does = self._executes(session)
                candidates.put(Candidate(text, session.since, does, session.device.sharing))
            else:
                candidates.remove(node_id)

    def _text(self, session: NodeSession) -> NodeText:
        limits = self._gateway.limits
        return NodeText(
            session.node_id,
            clean_text(session.display_name, int(limits.name_chars)),
            clean_text(session.description, int(limits.description_chars)),
            tuple(clean_text(tag, _LABEL_CHARS) for tag in session.tags),
            clean_text(session.platform, _LABEL_CHARS),
            tuple(
                (each.name, each.description)
                for each in session.approved()
                if each.name != AGENT_COMMAND and self._may_use(each.name)
            ),
        )
