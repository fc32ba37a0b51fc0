"""Tier 2: which nodes share words with a query (BM25), in an index kept up to date node by node.

The formula is Okapi BM25 (Robertson and Zaragoza, 2009) with the idf of Lucene's ``BM25Similarity``,
``ln(1 + (N - df + 0.5) / (df + 0.5))``: positive however few the nodes are. What differs, and why:

- A term counts once for a node, wherever and however often it stands: 1, or 1.5 where the name, a tag or a capability's
  name has it. A node describes itself, so repetition is no evidence; it makes the text longer and so costs.
- A node's length counts as no less than half and no more than three times the mean, so that neither an empty
  description is a merit nor many capabilities a fault.
- A term that only matches weakly (see :mod:`.affinity`) counts half. With these bounds the weakest whole match, 0.70
  idf, is above the strongest weak one, 0.56 idf: whole matches always win.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from .affinity import Affinity
from .documents import NodeText
from .guard import honest
from .steps import Steps, whole
from .stopwords import STOP_WORDS
from .tokens import WORDS_A_STEP, words

K1 = 1.2
"""How soon a further occurrence adds little; Lucene's value."""
B = 0.4
"""How much length counts. Lucene's 0.75 is for articles; descriptions differ in length for less reason."""
LABEL = 1.5
WEAK = 0.5
NODE_CHARS = 4_000
"""Characters that are read of a node's labels, and of its descriptions: bounds the time that adding one takes."""
QUERY_TERMS = 512
"""Distinct terms of a query, half of them from its end."""
KIN_TERMS = 32
"""Of these, those that also match weakly."""
TERMS_A_STEP = 32
ROWS = 100_000
"""Pairs of term and node that one search adds up, rarest terms first: bounds its time over many nodes."""

_OUT = float("-inf")


@dataclass(frozen=True, slots=True)
class _Document:
    text: NodeText
    withheld: list[str]
    weights: dict[str, float]
    length: int


@dataclass(slots=True)
class _Posting:
    slots: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("f"))

    def drop(self, slot: int) -> None:
        if len(self.slots) > 64:
            at = int((np.frombuffer(self.slots, np.int32) == slot).argmax())
        else:
            at = self.slots.index(slot)
        # Order is of no account, so the last one takes the place.
        last_slot, last_weight = self.slots.pop(), self.weights.pop()
        if at < len(self.slots):
            self.slots[at], self.weights[at] = last_slot, last_weight


class Members:
    """Some of an index's nodes, each with the time it connected at."""

    def __init__(self, index: KeywordIndex) -> None:
        self._index = index
        self._when = array("d")
        index.members.add(self)

    def put(self, node_id: str, when: float) -> None:
        """Raises KeyError where the index does not have the node."""
        self._put(self._index.slot(node_id), when)

    def _put(self, slot: int, when: float) -> None:
        self._index.changes += 1
        if slot >= len(self._when):
            self._when.extend([_OUT] * (slot + 1 - len(self._when)))
        self._when[slot] = when

    def has(self, node_id: object) -> bool:
        """Whether the node is a member."""
        slot = self._index.find(node_id)
        return 0 <= slot < len(self._when) and self._when[slot] > _OUT

    def move(self, old: int, new: int) -> None:
        """Take note that who has one slot has another from now on."""
        if old < len(self._when) and self._when[old] > _OUT:
            self._put(new, self._when[old])
            self._when[old] = _OUT

    def drop(self, slot: int) -> None:
        """Forget whoever has the slot."""
        self._index.changes += 1
        if slot < len(self._when):
            self._when[slot] = _OUT

    def when(self, size: int, exclude: Iterable[str] = ()) -> NDArray[np.float64]:
        """Return times by slot, ``-inf`` for those that are not members."""
        times = np.full(size, _OUT)
        times[: len(self._when)] = np.frombuffer(self._when) if self._when else 0.0
        for node_id in exclude:
            if node_id in self._index:
                times[self._index.slot(node_id)] = _OUT
        return times


class Scores:
    """What a search found. Later changes of the index don't touch it.

    Attributes
    ----------
    values : array of float
        Score by slot; 0 where no term is shared.
    when : array of float
        Time of connecting by slot; ``-inf`` for nodes that were not searched.
    asked : bool
        Whether the query has any term; False where it is empty or has stop words only.
    distrusted : list of int
        Slots of nodes with text that speaks to the chooser.
    """

    def __init__(
        self,
        documents: list[_Document | None],
        slots: dict[str, int],
        values: NDArray[np.float64],
        when: NDArray[np.float64],
        asked: bool,
        distrusted: list[int],
    ) -> None:
        self._documents, self._slots = documents, slots
        self.distrusted = distrusted
        self.values, self.when, self.asked = values, when, asked
        self._origins: dict[str, list[tuple[int, str, float]]] = {}

    def _note(self, place: int, term: str, idf: float, known: Iterable[str]) -> None:
        for each in known:
            self._origins.setdefault(each, []).append((place, term, idf if each == term else idf * WEAK))

    def score(self, node_id: str) -> float:
        """Return a node's score, 0 where it shares no term or was not searched."""
        slot = self._slots.get(node_id)
        return 0.0 if slot is None else float(self.values[slot])

    def terms(self, node_id: str) -> list[str]:
        """Return the terms of the query that the node has, the weightiest first."""
        slot = self._slots.get(node_id)
        document = None if slot is None or not self.values[slot] else self._documents[slot]
        if document is None:
            return []
        best: dict[int, tuple[str, float]] = {}
        # Either may have thousands: what both have is found in C.
        for known in self._origins.keys() & document.weights.keys():
            weight = document.weights[known]
            for place, term, idf in self._origins[known]:
                if place not in best or idf * weight > best[place][1]:
                    best[place] = term, idf * weight
        return [best[place][0] for place in sorted(best, key=lambda place: (-best[place][1], place))]

    def node_id(self, slot: int) -> str:
        """Return whose slot it is."""
        document = self._documents[slot]
        assert document is not None
        return document.text.node_id


class KeywordIndex:
    """Nodes' words. To be used by one thread."""

    def __init__(self) -> None:
        self.members: WeakSet[Members] = WeakSet()
        #: How often it, or one of the members, has changed.
        self.changes = 0
        self._documents: list[_Document | None] = []
        self._slots: dict[str, int] = {}
        self._shared = False
        self._free: list[int] = []
        self._distrusted: set[int] = set()
        self._lengths = array("i")
        self._postings: dict[str, _Posting] = {}
        self._affinity = Affinity()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._slots

    def slot(self, node_id: str) -> int:
        """Return a node's place, its own while it says the same. Raises KeyError for one that is unknown."""
        return self._slots[node_id]

    def find(self, node_id: object) -> int:
        """Return a node's slot, -1 for one that is unknown."""
        return self._slots.get(node_id, -1)  # type: ignore[call-overload,no-any-return]

    def text(self, node_id: str) -> tuple[NodeText, list[str]]:
        """Return what a node says, without what speaks to the chooser, and what kinds of text are left out."""
        document = self._documents[self._slots[node_id]]
        assert document is not None
        return document.text, document.withheld

    def put(self, text: NodeText) -> None:
        """Add a node, or replace what it said before."""
        whole(self.putting(text))

    def putting(self, text: NodeText) -> Steps[None]:
        """Do that in short steps: what the node said before is found until all that it says now is, at one go."""
        document = yield from _read(text)
        old = self._slots.get(text.node_id)
        if old is not None and self._known(old).weights == document.weights:
            self._unshare()
            self._documents[old] = document
            self._say(old, document)
            return
        slot = self._take_slot()
        for number, (term, weight) in enumerate(document.weights.items()):
            if number % TERMS_A_STEP == 0:
                yield
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting()
                self._affinity.add(term)
            posting.slots.append(slot)
            posting.weights.append(weight)
        self._unshare()
        old = self._slots.get(text.node_id)
        self._slots[text.node_id], self._documents[slot] = slot, document
        self._say(slot, document)
        if old is not None:
            for members in self.members:
                members.move(old, slot)
            yield from self._clear(old)

    def remove(self, node_id: str) -> None:
        """Forget a node, in every set of candidates too; one that is unknown is no error."""
        whole(self.removing(node_id))

    def removing(self, node_id: str) -> Steps[None]:
        """Do that in short steps: the node is gone with the first."""
        if node_id not in self._slots:
            return
        self._unshare()
        slot = self._slots.pop(node_id)
        for members in self.members:
            members.drop(slot)
        yield from self._clear(slot)

    def _known(self, slot: int) -> _Document:
        document = self._documents[slot]
        assert document is not None
        return document

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._unshare()
        self._documents.append(None)
        self._lengths.append(-1)
        return len(self._documents) - 1

    def _say(self, slot: int, document: _Document) -> None:
        self._lengths[slot] = document.length
        (self._distrusted.add if document.withheld else self._distrusted.discard)(slot)

    def _clear(self, slot: int) -> Steps[None]:
        """Forget what stands in a slot that nobody has any more, and let others have it."""
        document = self._known(slot)
        self._documents[slot], self._lengths[slot] = None, -1
        self._distrusted.discard(slot)
        for number, term in enumerate(document.weights):
            if number % TERMS_A_STEP == 0:
                yield
            posting = self._postings[term]
            posting.drop(slot)
            if not posting.slots:
                del self._postings[term]
                self._affinity.remove(term)
        self._free.append(slot)

    def _unshare(self) -> None:
        self.changes += 1
        # Scores keep these two as they were.
        if self._shared:
            self._documents, self._slots, self._shared = self._documents.copy(), self._slots.copy(), False

    def search(self, asked: list[str], among: Members, exclude: Iterable[str] = ()) -> Scores:
        """Score nodes.

        Parameters
        ----------
        asked : list of str
            The terms of the query (:func:`.tokens.terms`).
        among : Members
            Nodes to consider. All figures are counted over them only, as if there were no others.
        exclude : iterable of str
            Nodes not to consider all the same.
        """
        return whole(self.searching(asked, among, exclude))

    def searching(self, asked: list[str], among: Members, exclude: Iterable[str] = ()) -> Steps[Scores]:
        """Do that in short steps."""
        asked = _halves(list(dict.fromkeys(asked)), QUERY_TERMS)
        before = self.changes
        scores = yield from self._searching(asked, among, exclude)
        if before != self.changes:
            # Nodes came, changed or went between the steps.
            scores = whole(self._searching(asked, among, exclude))
        return scores

    def _searching(self, asked: list[str], among: Members, exclude: Iterable[str]) -> Steps[Scores]:
        kinsfolk = {}
        for term in _halves(asked, KIN_TERMS):
            kinsfolk[term] = self._affinity.kin(term)
            if len(kinsfolk) % 8 == 0:
                yield
        size = len(self._documents)
        when = among.when(size, exclude)
        self._shared = True
        scores = Scores(self._documents, self._slots, np.zeros(size), when, bool(asked), sorted(self._distrusted))
        if size:
            yield from self._score(asked, kinsfolk, scores)
        return scores

    def _score(self, asked: list[str], kinsfolk: dict[str, list[str]], scores: Scores) -> Steps[None]:
        among = scores.when > _OUT
        count = int(np.count_nonzero(among))
        lengths = np.array(self._lengths, np.int32)
        found, sizes = [], []
        # One after the other in two arrays: making an array of each term's would be most of the time of a long query.
        slots, weights = array("i"), array("f")
        for place, term in enumerate(asked):
            posting = self._postings.get(term)
            kin = [each for each in kinsfolk.get(term, ()) if each in self._postings]
            if posting is None and not kin:
                continue
            before = len(slots)
            if posting is not None:
                slots.extend(posting.slots)
                weights.extend(posting.weights)
            if kin:
                weak = np.zeros(len(among), bool)
                for each in kin:
                    weak[np.frombuffer(self._postings[each].slots, np.int32)] = True
                if posting is not None:
                    weak[np.frombuffer(posting.slots, np.int32)] = False
                others = np.flatnonzero(weak)
                slots.frombytes(others.astype(np.int32).tobytes())
                weights.frombytes(bytes(4 * len(others)))
            found.append((place, term, kin))
            sizes.append(len(slots) - before)
        if not found or not count:
            return
        yield
        slot, weight = np.frombuffer(slots, np.int32), np.frombuffer(weights, np.float32)
        keep = among[slot]
        df = np.diff(np.cumsum(keep)[np.cumsum(sizes) - 1], prepend=0)
        if df.sum() > ROWS:
            order = np.argsort(df, kind="stable")
            added = np.cumsum(df[order])
            over = order[(added > ROWS) & (added > df[order])]
            df[over] = 0
            keep &= np.repeat(df > 0, sizes)
        idf = np.log1p((count - df + 0.5) / (df + 0.5))
        slot, weight, idfs = slot[keep], weight[keep].astype(np.float64), np.repeat(idf, sizes)[keep]
        mean = max(int(lengths[among].sum()) / count, 1.0)
        norm = (K1 * (1 - B + B * np.clip(lengths / mean, 0.5, 3.0)))[slot]
        is_whole = weight > 0
        tf = np.where(is_whole, weight, 1.0)
        gains = idfs * np.where(is_whole, 1.0, WEAK) * tf * (K1 + 1) / (tf + norm)
        scores.values = np.bincount(slot, weights=gains, minlength=len(among)).astype(np.float64, copy=False)
        yield
        for (place, term, kin), each, number in zip(found, idf.tolist(), df.tolist(), strict=True):
            if number:
                scores._note(place, term, each, (term, *kin))


def _halves(asked: list[str], most: int) -> list[str]:
    return asked if len(asked) <= most else asked[: most // 2] + asked[-(most // 2) :]


def _read(text: NodeText) -> Steps[_Document]:
    said, withheld = yield from honest(_trimmed(text))
    weights: dict[str, float] = {}
    length = 0
    labels = (said.name, *said.tags, *(name for name, _about in said.capabilities))
    rest = (said.description, said.platform, *(about for _name, about in said.capabilities))
    for weight, texts in ((LABEL, labels), (1.0, rest)):
        left = NODE_CHARS
        for each in texts:
            if left <= 0:
                break
            for term in words(each[:left]):
                if length % WORDS_A_STEP == 0:
                    yield
                length += 1
                # A stop word is not searched, but takes its room: one more or less must not decide between equals.
                if term not in STOP_WORDS:
                    weights.setdefault(term, weight)
            left -= len(each)
    return _Document(said, withheld, weights, length)


def _trimmed(text: NodeText) -> NodeText:
    # What is read no further is not looked through either.
    names, abouts, kept = NODE_CHARS, NODE_CHARS, list[tuple[str, str]]()
    for name, about in text.capabilities:
        if names <= 0:
            break
        kept.append((name[:names], about[: max(abouts, 0)]))
        names, abouts = names - len(name), abouts - len(about)
    return replace(text, description=text.description[:NODE_CHARS], capabilities=tuple(kept))
