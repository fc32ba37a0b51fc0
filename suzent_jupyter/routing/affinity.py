"""Words within words: which terms count as weaker matches of each other.

A term matches another one that is its whole beginning or its whole end:

- at the end, where a German compound names the thing (``Überwachungskamera``, ``Laserdrucker``, ``Webserver``): the
  part has 5 letters or more, the rest 3, both together 9. That leaves out ``table`` in ``portable``, ``print`` in
  ``sprint`` and ``light`` in ``flight``;
- at the beginning (``Grafikkarte``, ``Druckerwarteschlange``): part 5, rest 4, together 10. That leaves out what
  endings make of a word: ``light`` is not ``lightning``;
- at the beginning with an ending of inflection as the rest, part 4: ``camera`` and ``cameras``, ``Karte`` and
  ``Karten``, ``train`` and ``training``;
- a single Han, Kana or Hangul character matches the pairs it is in.

The rule is about letters only: ``rtx40901`` is not ``rtx4090``.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from .tokens import is_pair

ENDINGS = frozenset({"s", "es", "e", "n", "en", "er", "ern", "ing"})
MOST = 2048
"""Longer terms that are looked at per end of a query's term: bounds the time, far beyond what honest words reach."""

_BLOCK = 512


def _head(part: int, rest: int) -> bool:
    return part >= 5 and rest >= 3 and part + rest >= 9


def _front(part: int, rest: str) -> bool:
    return (part >= 5 and len(rest) >= 4 and part + len(rest) >= 10) or (part >= 4 and rest in ENDINGS)


class _Sorted:
    """Distinct texts in order, in blocks: adding one moves some hundred others at most, not all."""

    def __init__(self) -> None:
        self._blocks: list[list[str]] = [[]]
        self._firsts: list[str] = [""]

    def _at(self, text: str) -> int:
        return max(bisect_left(self._firsts, text + "\0") - 1, 0)

    def add(self, text: str) -> None:
        at = self._at(text)
        block = self._blocks[at]
        insort(block, text)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._firsts.insert(at + 1, block[_BLOCK])

    def remove(self, text: str) -> None:
        at = self._at(text)
        block = self._blocks[at]
        del block[bisect_left(block, text)]
        if not block and at:
            del self._blocks[at], self._firsts[at]

    def starting(self, prefix: str) -> list[str]:
        """Return those that begin with ``prefix``, itself left out."""
        at, found = self._at(prefix), list[str]()
        place = bisect_left(self._blocks[at], prefix)
        while at < len(self._blocks):
            block = self._blocks[at]
            for i in range(place, len(block)):
                if not block[i].startswith(prefix) or len(found) >= MOST:
                    return found
                if len(block[i]) > len(prefix):
                    found.append(block[i])
            at, place = at + 1, 0
        return found


class Affinity:
    """The terms of an index, to be asked for weaker matches."""

    def __init__(self) -> None:
        self._forward = _Sorted()
        self._backward = _Sorted()
        self._known: set[str] = set()

    @staticmethod
    def _counts(term: str) -> bool:
        return term.isalpha() and (len(term) >= 4 or is_pair(term))

    def add(self, term: str) -> None:
        """Add a term that is not there yet."""
        if self._counts(term):
            self._known.add(term)
            self._forward.add(term)
            self._backward.add(term[::-1])

    def remove(self, term: str) -> None:
        if self._counts(term):
            self._known.remove(term)
            self._forward.remove(term)
            self._backward.remove(term[::-1])

    def kin(self, term: str) -> list[str]:
        """Return the known terms that match ``term`` weakly, in alphabetical order."""
        if not self._counts(term):
            return []
        if is_pair(term):
            if len(term) > 1:
                return sorted(char for char in set(term) if char in self._known)
            longer = self._forward.starting(term) + [text[::-1] for text in self._backward.starting(term)]
            return sorted(set(longer))
        size, known = len(term), self._known
        found = {term[:i] for i in range(4, size) if term[:i] in known and _front(i, term[i:])}
        found.update(term[i:] for i in range(3, size - 4) if term[i:] in known and _head(size - i, i))
        found.update(text for text in self._forward.starting(term) if _front(size, text[size:]))
        if size >= 5:
            backward = self._backward.starting(term[::-1])
            found.update(text[::-1] for text in backward if _head(size, len(text) - size))
        return sorted(found)
