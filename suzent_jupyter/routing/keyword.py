"""Tier 2: which nodes share words with a query (BM25), in an index kept up to date node by node."""

from __future__ import annotations

from collections.abc import Collection

from .documents import NodeText


class Scores:
    """What a search found. Later changes of the index don't touch it.

    Attributes
    ----------
    of : dict of str to float
        Score by node id, of every node that shares a term with the query; empty where none does.
    """

    of: dict[str, float]

    def terms(self, node_id: str) -> list[str]:
        """Terms of the query that the node has, the weightiest first."""
        raise NotImplementedError


class KeywordIndex:
    """Nodes' words. To be used by one thread."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __contains__(self, node_id: object) -> bool:
        raise NotImplementedError

    def put(self, text: NodeText) -> None:
        """Add a node, or replace what it said before."""
        raise NotImplementedError

    def remove(self, node_id: str) -> None:
        """Forget a node, in every set of candidates too; one that is unknown is no error."""
        raise NotImplementedError

    def search(self, query: str, among: Collection[str] | None = None) -> Scores:
        """Score nodes; all figures are counted over those ``among`` only, as if there were no others."""
        raise NotImplementedError
