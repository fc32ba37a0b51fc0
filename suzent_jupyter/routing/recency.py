"""Tier 3, and what decides between equals: the node that connected last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .keyword import Scores


def ranking(scores: Scores, count: int, *, by_words: bool = True) -> list[str]:
    """Return the ids of the first ``count`` nodes of a search.

    By score, then the newest, then by id. Nodes with text that speaks to the chooser come after the others that share a
    term, and after the others that share none: such text is never of use to its node.

    Parameters
    ----------
    by_words : bool
        Whether scores count; else the newest come first.
    """
    among = scores.when > -np.inf
    values = scores.values if by_words else np.zeros(len(among))
    distrusted = np.zeros(len(among), bool)
    distrusted[scores.distrusted] = True
    found: list[str] = []
    for matching in (values > 0, values == 0):
        for trusted in (~distrusted, distrusted):
            most = count - len(found)
            slots = np.flatnonzero(among & matching & trusted)
            if most > 0 and len(slots):
                slots = _first(values, scores.when, slots, most)
                ranked = sorted((-values[slot], -scores.when[slot], scores.node_id(slot)) for slot in slots.tolist())
                found += [node_id for _value, _when, node_id in ranked[:most]]
    return found


def _first(values: NDArray[Any], when: NDArray[Any], slots: NDArray[Any], most: int) -> NDArray[Any]:
    # Sorting thousands in Python for the sake of fifty would be most of the time of a search. More than ``most`` come
    # back where several are equal in all but their ids.
    if len(slots) <= most:
        return slots
    least = np.partition(values[slots], -most)[-most]
    above, equal = slots[values[slots] > least], slots[values[slots] == least]
    rest = most - len(above)
    if len(equal) > rest:
        equal = equal[when[equal] >= np.partition(when[equal], -rest)[-rest]]
    return np.concatenate((above, equal))
