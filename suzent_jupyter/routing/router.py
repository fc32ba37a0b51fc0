"""The three tiers in their order: the model, shared words, the newest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from ..protocol.limits import Limits
from ..protocol.routing import Decision, RouteCandidate, RouteChoice, Tier, TierOutcome
from ..protocol.text import clean_text
from .candidates import Candidate, Candidates
from .keyword import Scores
from .recency import ranking
from .semantic import Answer, AnswerError, Ask, AskFailedError, answer, question
from .steps import Pace, Steps
from .tokens import READ_CHARS, cut

TERMS_SHOWN = 32
LONG_QUERY = 1_000

_LEFT = "the node that the model chose has left meanwhile"

# This module is loaded in a thread. Left to the first decision, it would take 50 ms and more of the event loop.
for _model in (TierOutcome, RouteChoice, RouteCandidate, Decision):
    _model.model_rebuild()


class Router:
    """Chooses a node among candidates, and says why.

    Parameters
    ----------
    limits : Limits
        ``router_timeout``, ``router_confidence``, ``router_questions`` and ``route_candidates`` count.
    ask : Ask, optional
        Asks the model; without it tier 1 is skipped.
    pace : Pace, optional
        At which long queries are worked through, beside what else goes by it.
    """

    def __init__(self, limits: Limits, ask: Ask | None = None, pace: Pace | None = None) -> None:
        self._limits = limits
        self._ask = ask
        self._pace = pace or Pace()
        self._asking = 0

    async def route(
        self,
        query: str,
        candidates: Candidates,
        *,
        node: str | None = None,
        limit: int | None = None,
        exclude: frozenset[str] = frozenset(),
        refresh: Callable[[], Awaitable[object]] | None = None,
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
        refresh : callable, optional
            Brings the candidates up to date; called when the model has answered.

        Raises
        ------
        KeyError
            ``node`` is none of the candidates.
        """
        if node is not None and (node not in candidates or node in exclude):
            raise KeyError(node)
        tiers: list[TierOutcome] = []
        said: Answer | None = None
        choice: RouteChoice | None = None
        asked = await self._pace.walk(cut(query))
        if len(query) > LONG_QUERY:
            # The end of one work and the beginning of the next are not to be one step.
            await asyncio.sleep(0)
        began = time.perf_counter()
        scores = await self._pace.walk(candidates.searching(asked, exclude))
        searched = _since(began)
        if node is not None and node not in candidates:
            raise KeyError(node)
        considered = int((scores.when > float("-inf")).sum())
        if node is not None:
            choice = self._choice(candidates, node, "manual", "named by the caller")
            tiers.append(TierOutcome(tier="manual", outcome="chosen", reason="named by the caller"))
            tiers += [_skipped(tier, "the caller named the node") for tier in ("llm", "bm25", "recent")]
        elif not considered:
            tiers += [_skipped(tier, "no node is there to choose") for tier in ("llm", "bm25", "recent")]
        else:
            outcome, said = await self._semantic(query, candidates, scores)
            if outcome.outcome != "skipped":
                # Nodes may have come and gone while the model thought.
                if refresh is not None:
                    await refresh()
                began = time.perf_counter()
                scores = await self._pace.walk(candidates.searching(asked, exclude))
                searched = _since(began)
                if said is not None and said.node_id not in candidates:
                    said, outcome = None, outcome.model_copy(update={"outcome": "failed", "reason": _LEFT})
            tiers.append(outcome)
            if said is not None and outcome.outcome == "chosen":
                choice = self._choice(candidates, said.node_id, "llm", said.reason, said.confidence)
                tiers += [_skipped(tier, "the model has chosen") for tier in ("bm25", "recent")]
            else:
                choice = self._by_words(candidates, scores, tiers, searched)
        if len(query) > LONG_QUERY:
            await asyncio.sleep(0)
        return Decision(
            query=query if len(query) <= READ_CHARS else f"{query[: READ_CHARS - 1]}…",
            choice=choice,
            candidates=await self._pace.walk(self._shown(candidates, scores, choice, said, limit)),
            tiers=tiers,
            considered=considered,
        )

    async def _semantic(self, query: str, candidates: Candidates, scores: Scores) -> tuple[TierOutcome, Answer | None]:
        if self._ask is None:
            return _skipped("llm", "no router model is configured"), None
        if not query.strip():
            return _skipped("llm", "the query is empty"), None
        if self._asking >= self._limits.router_questions:
            return _skipped("llm", f"the model has {self._asking} questions before it already"), None
        self._asking += 1
        try:
            return await self._answer(self._ask, query, candidates, scores)
        finally:
            self._asking -= 1

    async def _answer(
        self, ask: Ask, query: str, candidates: Candidates, scores: Scores
    ) -> tuple[TierOutcome, Answer | None]:
        most = self._limits.route_candidates
        best = ranking(scores, most)
        if (scores.when > float("-inf")).sum() > most:
            # The newest get a fifth of the places, so that words alone don't decide whom the model can choose.
            newest = ranking(scores, most, by_words=False)
            best = list(dict.fromkeys([*best[: most - most // 5], *newest]))[:most]
        shown = [candidates.index.text(node_id)[0] for node_id in best]
        asked = await asyncio.to_thread(question, query, shown)
        began = time.perf_counter()
        said: Answer | None = None

        def outcome(what: str, reason: str) -> tuple[TierOutcome, Answer | None]:
            tier = TierOutcome(tier="llm", outcome=what, reason=reason, duration_ms=_since(began))
            return tier, said

        limit = self._limits.router_timeout
        try:
            async with asyncio.timeout(limit) as timer:
                text = await ask(asked)
            said = answer(asked, text)
        except AnswerError as error:
            return outcome("failed", str(error))
        except AskFailedError as error:
            return outcome("failed", clean_text(str(error), 300) or "the model gave no answer")
        except TimeoutError:
            late = f"the model did not answer within {limit:g} s" if timer.expired() else "the model timed out"
            return outcome("failed", late)
        except Exception as error:
            # Whatever a model's client raises: words decide then.
            return outcome("failed", f"the model could not be asked ({type(error).__name__})")
        chosen = candidates.get(said.node_id)
        if chosen is None:
            said = None
            return outcome("failed", _LEFT)
        name = chosen.text.name or said.node_id
        if said.confidence < self._limits.router_confidence:
            least = self._limits.router_confidence
            return outcome("passed", f"the model is {said.confidence:g} sure of {name}; {least:g} is needed")
        return outcome("chosen", f"the model is {said.confidence:g} sure of {name}")

    def _by_words(
        self, candidates: Candidates, scores: Scores, tiers: list[TierOutcome], searched: float
    ) -> RouteChoice | None:
        began = time.perf_counter()
        first = next(iter(ranking(scores, 1)), None)
        if first is None:
            tiers += [_skipped(tier, "every node has left meanwhile") for tier in ("bm25", "recent")]
            return None
        if (score := scores.score(first)) > 0:
            found = scores.terms(first)
            words = ", ".join(found[:6]) + (", …" if len(found) > 6 else "")
            tied = int(((scores.values == score) & (scores.when > float("-inf"))).sum()) > 1
            reason = f"shares {words}" + ("; the newest of several with this score" if tied else "")
            tiers.append(
                TierOutcome(tier="bm25", outcome="chosen", reason=reason, duration_ms=searched + _since(began))
            )
            tiers.append(_skipped("recent", "words have decided"))
            return self._choice(candidates, first, "bm25", reason)
        why = "no node has a word of the query" if scores.asked else "the query has no word that could tell nodes apart"
        tiers.append(TierOutcome(tier="bm25", outcome="passed", reason=why, duration_ms=searched + _since(began)))
        began = time.perf_counter()
        only = len(ranking(scores, 2, by_words=False)) == 1
        reason = "the only node there is" if only else "connected last"
        tiers.append(TierOutcome(tier="recent", outcome="chosen", reason=reason, duration_ms=_since(began)))
        return self._choice(candidates, first, "recent", reason)

    @staticmethod
    def _choice(
        candidates: Candidates, node_id: str, tier: Tier, reason: str, confidence: float | None = None
    ) -> RouteChoice:
        found = candidates.get(node_id)
        assert found is not None
        return RouteChoice(
            node_id=node_id, display_name=found.text.name, tier=tier, confidence=confidence, reason=reason
        )

    def _shown(
        self,
        candidates: Candidates,
        scores: Scores,
        choice: RouteChoice | None,
        said: Answer | None,
        limit: int | None,
    ) -> Steps[list[RouteCandidate]]:
        most = self._limits.route_candidates
        most = max(1, most if limit is None else min(limit, most))
        ids = ranking(scores, most)
        for wanted in (said.node_id if said else None, choice.node_id if choice else None):
            if wanted is not None and wanted not in ids and wanted in candidates:
                ids = [*ids[: most - 1], wanted]
        any_score = bool((scores.values > 0).any())
        shown = []
        for node_id in ids:
            yield
            if (found := candidates.get(node_id)) is None:
                continue
            withheld = candidates.index.text(node_id)[1]
            shown.append(_row(found, scores, any_score, said, withheld))
        return shown


def _row(
    candidate: Candidate, scores: Scores, any_score: bool, said: Answer | None, withheld: list[str]
) -> RouteCandidate:
    node_id = candidate.node_id
    spoken = said if said is not None and said.node_id == node_id else None
    reasons = [spoken.reason] if spoken and spoken.reason else []
    if withheld:
        reasons.append(f"left out of the choice, as it speaks to the chooser: its {' and '.join(withheld)}")
    return RouteCandidate(
        node_id=node_id,
        display_name=candidate.text.name,
        bm25=round(scores.score(node_id), 9) if any_score else None,
        matched_terms=scores.terms(node_id)[:TERMS_SHOWN],
        llm_confidence=spoken.confidence if spoken else None,
        llm_reason="; ".join(reasons) or None,
        connected_at=datetime.fromtimestamp(candidate.connected_at, UTC).isoformat(timespec="milliseconds"),
        executes=candidate.executes,
        scope=candidate.scope,
        platform=candidate.text.platform,
    )


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _skipped(tier: str, reason: str) -> TierOutcome:
    return TierOutcome(tier=tier, outcome="skipped", reason=reason)
