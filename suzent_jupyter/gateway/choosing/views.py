"""What callers of one kind may choose among: an index of their own, kept up to date as nodes come, change and go.

It is theirs alone, so that a node which does not exist for them counts for nothing in what they are told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.device import AGENT_COMMAND
from ...protocol.text import clean_text
from ...routing.candidates import Candidate, Candidates
from ...routing.documents import NodeText
from ...routing.keyword import KeywordIndex
from ..executors import executes
from ..principals import Principal
from ..registry import Registry

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession

_STEP_SECONDS = 0.002  # of the event loop, before others get their turn
_LABEL_CHARS = 64


class View:
    """The nodes of one kind of caller. Nothing is done for it until it is asked.

    Parameters
    ----------
    gateway : Gateway
        Whose nodes.
    principal : Principal
        One of these callers.
    steps : asyncio.Lock
        Held for a step of work: however many views there are, they take one step a turn of the event loop.
    """

    def __init__(self, gateway: Gateway, principal: Principal, steps: asyncio.Lock) -> None:
        self._gateway = gateway
        self._principal = principal
        self._steps = steps
        self._index = KeywordIndex()
        self._texts: dict[str, NodeText] = {}
        self._all = Candidates(self._index)
        self._executors = Candidates(self._index)
        #: Nodes that came, changed or went since they were last looked at.
        self._stale = dict.fromkeys(session.node_id for session in gateway.registry)

    def note(self, node_id: str, session: NodeSession | None) -> None:
        """Take note that a node came, changed or went; what may not be chosen any more can't be from now on."""
        for candidates, takes in self._kinds():
            if session is None or not takes(session):
                candidates.remove(node_id)
        self._stale[node_id] = None

    async def candidates(self, *, executors: bool) -> Candidates:
        """Return what there is to choose among, as of now."""
        while self._stale:
            async with self._steps:
                until = time.perf_counter() + _STEP_SECONDS
                while self._stale and time.perf_counter() < until:
                    node_id = next(iter(self._stale))
                    del self._stale[node_id]
                    self._look(node_id, self._gateway.registry.by_id(node_id))
                await asyncio.sleep(0)
        return self._executors if executors else self._all

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

    def _look(self, node_id: str, session: NodeSession | None) -> None:
        if session is None or not self.takes(session):
            if self._texts.pop(node_id, None) is not None:
                self._index.remove(node_id)
            return
        text = self._text(session)
        if self._texts.get(node_id) != text:
            self._index.put(text)
            self._texts[node_id] = text
        does = self._executes(session)
        for candidates, takes in self._kinds():
            if takes(session):
                candidates.put(Candidate(self._texts[node_id], session.since, does, session.device.sharing))

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
