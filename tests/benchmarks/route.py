"""A query over many nodes: this index, kept node by node, beside libraries that are built per query or once."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.routing.candidates import Candidate, Candidates
from suzent_jupyter.routing.documents import NodeText
from suzent_jupyter.routing.keyword import KeywordIndex
from suzent_jupyter.routing.router import Router
from suzent_jupyter.routing.tokens import terms

WORDS = 40
VOCABULARY = 5_000
SIZES = (10, 1_000, 10_000)


def _texts(count: int, rng: random.Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(3, 11))) for _ in range(VOCABULARY)]
    return ["common " + " ".join(rng.choices(words, k=WORDS - 1)) for _ in range(count)]


def _ms(work: Callable[[], Any], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _node(number: int, text: str) -> NodeText:
    return NodeText(f"n{number}", f"node {number}", text)


async def route() -> None:
    """Tier 2 over 10, 1,000 and 10,000 nodes of 40 words. Target: 1 ms a query, no step longer than 5 ms."""
    import bm25s  # type: ignore[import-untyped]
    from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

    print("median ms                          10      1,000     10,000 nodes")
    rows: dict[str, list[float]] = {}

    def note(label: str, value: float) -> None:
        rows.setdefault(label, []).append(value)

    for count in SIZES:
        rng = random.Random(7)
        texts = _texts(count, rng)
        query = " ".join(rng.sample(texts[count // 2].split()[1:], 3))
        index = KeywordIndex()
        candidates = Candidates(index)
        puts = []
        for number, text in enumerate(texts):
            node = _node(number, text)
            began = time.perf_counter()
            index.put(node)
            candidates.put(Candidate(node, float(number)))
            puts.append((time.perf_counter() - began) * 1000)
        router = Router(Limits())
        await router.route(query, candidates)
        times = 200 if count <= 1_000 else 100
        long = " ".join(texts[0].split() * (10_000 // len(texts[0])))
        note("search, three words", _ms(lambda q=query, c=candidates: c.search(terms(q)), times))
        note("search, a word of every node", _ms(lambda c=candidates: c.search(["common"]), times))
        note("search, 10 KB", _ms(lambda q=long, c=candidates: c.search(terms(q)), 20))
        for label, asked in (("whole decision, three words", query), ("whole decision, of every node", "common")):
            taken = []
            for _ in range(50):
                began = time.perf_counter()
                await router.route(asked, candidates)
                taken.append((time.perf_counter() - began) * 1000)
            note(label, statistics.median(taken))
        note("one node put", statistics.median(puts))
        again = iter(range(10**9))

        def change(
            count: int = count, index: KeywordIndex = index, texts: list[str] = texts, again: Any = again
        ) -> None:
            number = next(again) % count
            index.put(_node(number, texts[(number * 7 + 3) % count]))

        def replace(
            count: int = count, index: KeywordIndex = index, texts: list[str] = texts, again: Any = again
        ) -> None:
            number = next(again) % count
            index.remove(f"n{number}")
            index.put(_node(number, texts[number]))

        note("one node changed", _ms(change, 50))
        note("one node gone and back", _ms(replace, 50))
        corpus = [terms(text) for text in texts]
        asked = terms(query)
        note("rank_bm25 built per query", _ms(lambda c=corpus, a=asked: BM25Okapi(c).get_scores(a), 3))
        once = BM25Okapi(corpus)
        note("rank_bm25 built once", _ms(lambda o=once, a=asked: o.get_scores(a), 20))
        began = time.perf_counter()
        retriever = bm25s.BM25(method="lucene")
        retriever.index(corpus, show_progress=False)
        built = (time.perf_counter() - began) * 1000
        note("bm25s built once: a query", _ms(lambda r=retriever, a=asked: r.get_scores(a), times))
        note("bm25s built once: the building", built)
    for label, values in rows.items():
        print(f"{label:<31}" + "".join(f"{value:>10.3f}" for value in values), flush=True)
    print(f"longest wait of the event loop, 10,000 nodes asked and changed: {await _longest(candidates):.2f} ms")


async def _longest(candidates: Candidates) -> float:
    """The longest step, as another task of the loop sees it; garbage collection and other processes are in it."""
    router, waits, done = Router(Limits()), [], False

    async def watch() -> None:
        while not done:
            began = time.perf_counter()
            await asyncio.sleep(0)
            waits.append((time.perf_counter() - began) * 1000)

    watching = asyncio.create_task(watch())
    for number in range(100):
        await router.route("common", candidates)
        await asyncio.sleep(0)
        candidates.index.put(_node(number, f"common changed {number}"))
        await asyncio.sleep(0)
    done = True
    await watching
    return max(waits)
