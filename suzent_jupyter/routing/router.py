"""The three tiers in their order: the model, shared words, the newest."""

from __future__ import annotations

from ..protocol.limits import Limits
from ..protocol.routing import Decision
from .candidates import Candidates
from .semantic import Ask


class Router:
    """Chooses a node among candidates, and says why.

    Parameters
    ----------
    limits : Limits
        ``router_timeout``, ``router_confidence`` and ``route_candidates`` count.
    ask : Ask, optional
        Asks the model; without it tier 1 is skipped.
    """

    def __init__(self, limits: Limits, ask: Ask | None = None) -> None:
        self._limits = limits
        self._ask = ask

    async def route(
        self,
        query: str,
        candidates: Candidates,
        *,
        node: str | None = None,
        limit: int | None = None,
        exclude: frozenset[str] = frozenset(),
    ) -> Decision:
        """Choose.

        Parameters
        ----------
        node : str, optional
            Id of the candidate the caller wants: tier ``manual``. The scores are told all the same.
        limit : int, optional
            Candidates in the decision, at most ``route_candidates``; the chosen one is always among them.
        exclude : frozenset of str
            Ids that are not considered.

        Raises
        ------
        KeyError
            ``node`` is none of the candidates.
        """
        raise NotImplementedError
