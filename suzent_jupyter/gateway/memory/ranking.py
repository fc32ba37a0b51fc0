"""In which order entries fit a question: BM25 over the spaces that are in reach, and over nothing else.

Each space's own index chooses by SQLite's ``bm25()``. That has an idf of nothing for a word that half of the entries
hold, which in a small collection is every word; and its scores of two spaces can't be compared. What was chosen is
therefore scored anew with Lucene's idf, which stays positive, counted over the spaces that were looked into together.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

_K1, _B = 1.2, 0.75


@dataclass(slots=True)
class Collection:
    """How much there is in all of the spaces."""

    entries: int = 0
    words: int = 0
    #: Term → entries that hold it.
    holding: Counter[str] = field(default_factory=Counter)

    def score(self, asked: list[str], terms: list[str]) -> float:
        """Return how well an entry with these terms fits."""
        counts = Counter(terms)
        longer = len(terms) * self.entries / max(1, self.words)  # than the average
        norm = _K1 * (1 - _B + _B * longer)
        return math.fsum(
            self._idf(term) * counts[term] * (_K1 + 1) / (counts[term] + norm) for term in asked if term in counts
        )

    def _idf(self, term: str) -> float:
        df = self.holding[term]
        return math.log1p((self.entries - df + 0.5) / (df + 0.5))
