"""The nodes a caller may choose among, kept as they come and go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..protocol.rest import NodeScope
from .documents import NodeText
from .keyword import KeywordIndex, Members, Scores
from .steps import Steps, whole


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be chosen.

    Attributes
    ----------
    text : NodeText
        The very one that was put into the index.
    connected_at : float
        Unix time in seconds.
    executes : bool
        Whether it could carry out a chat.
    """

    text: NodeText
    connected_at: float
    executes: bool = False
    scope: NodeScope = "account"

    @property
    def node_id(self) -> str:
        return self.text.node_id


class Candidates(Collection[str]):
    """One caller's candidates, by node id. Several of these share an index; no one sees another's nodes.

    Kept incrementally: a query over thousands then costs well under a millisecond.
    """

    def __init__(self, index: KeywordIndex) -> None:
        self.index = index
        self._members = Members(index)
        self._by_id: dict[str, Candidate] = {}

    def put(self, candidate: Candidate) -> None:
        """Add or replace one. Raises KeyError where the index does not have the node."""
        self._members.put(candidate.node_id, candidate.connected_at)
        self._by_id[candidate.node_id] = candidate

    def remove(self, node_id: str) -> None:
        """Drop one; the index keeps it. It is no candidate either once the index has forgotten it."""
        if self._by_id.pop(node_id, None) is not None and node_id in self.index:
            self._members.drop(self.index.slot(node_id))

    def get(self, node_id: str) -> Candidate | None:
        """Return a candidate, or None."""
        return self._by_id.get(node_id) if node_id in self else None

    def search(self, asked: list[str], exclude: Iterable[str] = ()) -> Scores:
        """Score the candidates for the terms of a query, all figures counted over them only."""
        return whole(self.searching(asked, exclude))

    def searching(self, asked: list[str], exclude: Iterable[str] = ()) -> Steps[Scores]:
        """Do that in short steps. What is found is as of the last one."""
        return self.index.searching(asked, self._members, exclude)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (node_id for node_id in self._by_id if node_id in self)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._by_id and self._members.has(node_id)
