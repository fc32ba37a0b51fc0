"""The nodes a caller may choose among, kept as they come and go."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from .documents import NodeText
from .keyword import KeywordIndex


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
    scope: Literal["account", "enterprise"] = "account"

    @property
    def node_id(self) -> str:
        return self.text.node_id


class Candidates(Collection[str]):
    """One caller's candidates, by node id. Several of these share an index; no one sees another's nodes.

    Kept incrementally: a query over thousands then costs well under a millisecond.
    """

    def __init__(self, index: KeywordIndex) -> None:
        self.index = index

    def put(self, candidate: Candidate) -> None:
        """Add or replace one. Raises KeyError where the index does not have the node."""
        raise NotImplementedError

    def remove(self, node_id: str) -> None:
        """Drop one; the index keeps it. Done by itself when the index forgets the node."""
        raise NotImplementedError

    def get(self, node_id: str) -> Candidate | None:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __contains__(self, node_id: object) -> bool:
        raise NotImplementedError
