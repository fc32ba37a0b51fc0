"""What a node says of itself, as far as it counts for the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeText:
    """A node's texts, cleaned by whoever took them from it.

    Attributes
    ----------
    capabilities : sequence of (str, str)
        Name and description of each one that is approved.
    """

    node_id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    platform: str = ""
    capabilities: Sequence[tuple[str, str]] = ()
