"""Texts and questions as what the index holds: the words that routing compares, each as a hash of its own.

A hash is letters and digits alone, so no question can say anything in the language of the full-text engine, and what a
deleted word may leave behind in a corner of its index is no text.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from ...routing.tokens import terms, words

_ASKED = 48  # words of a question that are looked for; more don't make it clearer


def indexed(content: str, tags: list[str]) -> list[str]:
    """Return the terms of an entry, as often as they occur."""
    return [_hashed(word) for word in words("\n".join([content, *tags]))]


def asked(query: str) -> list[str]:
    """Return the distinct terms of a question; stop words only where there is nothing else."""
    distinct = list(dict.fromkeys(terms(query))) or list(dict.fromkeys(words(query)))
    return [_hashed(word) for word in distinct[:_ASKED]]


@lru_cache(4096)
def _hashed(word: str) -> str:
    return blake2b(word.encode(errors="replace"), digest_size=8).hexdigest()
