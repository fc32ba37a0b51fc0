"""A query over many nodes: this index, kept node by node, beside libraries that are built per query or once."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.routing.candidates import Candidate, Candidates
from suzent_jupyter.routing.documents import NodeText
from suzent_jupyter.routing.keyword import KeywordIndex
from suzent_jupyter.routing.router import Router
from suzent_jupyter.routing.steps import Pace
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
    print("\nsteps on the event loop, ms of its own processor time: the longest, how many, all together")
    for label, work in _long_works(candidates):
        steps = await _steps(work)
        print(f"{label:<47}{max(steps):>8.2f}{len(steps):>8}{sum(steps):>9.1f}", flush=True)


def _large(number: int, kind: str) -> NodeText:
    """Make a node with 256 capabilities."""
    rng = random.Random(number)
    letters = [chr(code) for code in (range(0x4E00, 0x9FFF) if kind == "Chinese" else range(97, 123))]

    def text(words: int, size: int) -> str:
        return ("" if kind == "Chinese" else " ").join("".join(rng.choices(letters, k=size)) for _ in range(words))

    words, size = (250, 7) if kind == "long" else (2, 7)
    capabilities = tuple((text(1, 15)[:128], text(words, size)[:2000]) for _ in range(256))
    return NodeText(f"large{number}", text(1, 8), text(250, 7)[:2000], (), "linux", capabilities)


def _long_works(candidates: Candidates) -> Iterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    pace, index, router = Pace(), candidates.index, Router(Limits())
    rng = random.Random(11)
    long = " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(1_300))
    for kind in ("short", "long", "Chinese"):
        texts = [_large(number, kind) for number in (1, 2)]
        for label, text in zip(("put", "changed"), texts, strict=True):
            node = replace(text, node_id="large")
            yield f"256 {kind} capabilities {label}", lambda node=node: pace.walk(index.putting(node))
        yield f"256 {kind} capabilities gone", lambda: pace.walk(index.removing("large"))
    yield "decision, 10 KB", lambda: router.route(long, candidates)
    every = " ".join(rng.sample(sorted(index._postings), 1_300))
    yield "decision, 10 KB of the nodes' words", lambda: router.route(every, candidates)
    yield "decision, 16,000 characters, words of one letter", lambda: router.route("a b c d " * 2_000, candidates)
    yield "decision, a word of every node", lambda: router.route("common", candidates)


async def _steps(work: Callable[[], Awaitable[Any]]) -> list[float]:
    """Do some work, and return what each turn of the event loop took meanwhile; garbage collection is in it."""
    turns: list[float] = []
    working = asyncio.ensure_future(work())
    while not working.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        turns.append((time.thread_time() - began) * 1000)
    await working
    return turns
