"""Tab after ``%suzent``: verbs, nodes, commands, parameters, codes and devices, from what the socket last said."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .mirror import Mirror
from .plain import one_line
from .values import quote, split
from .verbs import all_verbs

_LINE = re.compile(r"\s*(?:[\w.,\[\]\"' ()*]+?=\s*)?%suzent\s+(?P<rest>.*)", re.DOTALL)
_CELL = re.compile(r"%%suzent\s+(?P<rest>.*)", re.DOTALL)


def candidates(mirror: Mirror, rest: str) -> tuple[str, list[str]]:
    """Complete what follows ``%suzent``.

    Parameters
    ----------
    rest : str
        The text between the magic's name and the cursor.

    Returns
    -------
    fragment : str
        The unfinished word as typed, quotes included; completions replace it.
    words : list of str
        Words that begin like it, quoted where they need to be.
    """
    words = split(rest, partial=True)
    if not words or (rest[-1:].isspace() and words[-1].closed):
        fragment, typed, before = "", "", [word.text for word in words]
    else:
        fragment, typed, before = rest[words[-1].start :], words[-1].text, [word.text for word in words[:-1]]
    if before:
        verb = all_verbs().get(before[0].casefold())
        found = verb.complete(mirror, before[1:]) if verb and verb.complete else []
    else:
        found = list(all_verbs())
    wanted = typed.casefold()
    # Names come from devices: what a completion inserts is one clean line.
    kept = dict.fromkeys(one_line(word, 200) for word in found if word and word.casefold().startswith(wanted))
    return fragment, [word if word.endswith("=") else quote(word) for word in kept if word]


def make_matcher(find_mirror: Callable[[], Mirror | None]) -> Callable[[Any], dict[str, Any]]:
    """Return a matcher of IPython's API version 2 that answers for ``%suzent`` lines and leaves others alone."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher(identifier="suzent", priority=1000)  # type: ignore[untyped-decorator]
    def suzent_matcher(context: Any) -> dict[str, Any]:
        line = context.text_until_cursor
        found = _LINE.fullmatch(line) or (_CELL.fullmatch(line) if context.cursor_line == 0 else None)
        mirror = find_mirror() if found else None
        if found is None or mirror is None:
            return {"completions": [], "suppress": False}
        fragment, words = candidates(mirror, found["rest"])
        return {
            "completions": [SimpleCompletion(text=word, type="suzent") for word in words],
            "matched_fragment": fragment,
            "suppress": True,
            "ordered": True,
        }

    return suzent_matcher  # type: ignore[no-any-return]
