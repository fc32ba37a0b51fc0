"""Which node a prompt goes to, and why: bodies of ``POST /route`` and what is kept with a conversation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .rest import Body, NodeScope

Tier = Literal["llm", "bm25", "recent", "manual"]


class RouteRequest(Body):
    """``POST /route``.

    Attributes
    ----------
    query : str
        The prompt, or words for what is wanted.
    limit : int, optional
        Candidates in the answer; the chosen one is always among them.
    executors : bool
        Consider only nodes that could carry out a chat, as ``chat.send`` does.
    node : str, optional
        A node the caller names: the choice is that one, tier ``manual``, and the scores are told all the same.
    """

    query: str
    limit: int | None = None
    executors: bool = False
    node: str | None = None


class RouteChoice(Body):
    """The chosen node. ``confidence`` is the model's in tier ``llm``, else None."""

    node_id: str
    display_name: str = ""
    tier: Tier
    confidence: float | None = None
    reason: str = ""


class RouteCandidate(Body):
    """A node that was considered.

    Attributes
    ----------
    bm25 : float, optional
        Tier-2 score; None for all where no term of the query is in any of them.
    matched_terms : list of str
        Terms of the query found in what the node says of itself, the weightiest first.
    llm_confidence, llm_reason : optional
        What the model said of it, where it was asked and spoke of this one.
    connected_at : str
        UTC, ISO 8601.
    executes : bool
        Whether it could carry out a chat; the others offer their commands only.
    """

    node_id: str
    display_name: str
    bm25: float | None = None
    matched_terms: list[str] = Field(default_factory=list)
    llm_confidence: float | None = None
    llm_reason: str | None = None
    connected_at: str = ""
    executes: bool = False
    scope: NodeScope = "account"
    platform: str = ""


class TierOutcome(Body):
    """What came of a tier: ``chosen``, ``passed`` (why stands in ``reason``), ``failed`` or ``skipped``."""

    tier: Tier
    outcome: Literal["chosen", "passed", "failed", "skipped"]
    reason: str = ""
    duration_ms: float = 0.0


class Decision(Body):
    """The answer of ``POST /route``, kept with the conversation for a chat."""

    query: str
    choice: RouteChoice | None = None
    candidates: list[RouteCandidate] = Field(default_factory=list)
    tiers: list[TierOutcome] = Field(default_factory=list)
    considered: int = 0


class ScopeRequest(Body):
    """``POST /nodes/{node}/scope``: who may see and use it; its owner decides."""

    scope: NodeScope


class ScopeResponse(Body):
    """Its answer: the scope in force, and the organisation it is shared with."""

    success: Literal[True] = True
    node_id: str
    scope: NodeScope
    org: str = ""
