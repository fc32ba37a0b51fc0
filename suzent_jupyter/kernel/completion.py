"""Tab after ``%suzent`` and ``gw["MyPhone"].``: verbs, nodes, commands, parameters, from what the socket last said."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from .finding import find_node
from .gateway import Gateway
from .mirror import Mirror
from .node import Node
from .plain import one_line
from .values import quote, split
from .verbs import all_verbs

_LINE = re.compile(r"\s*(?:[\w.,\[\]\"' ()*]+?=\s*)?%suzent\s+(?P<rest>.*)", re.DOTALL)
# What IPython leaves alone, since to evaluate it could ask the network: gw["MyPhone"].camera.sn  and  ….snap(wid
_PYTHON = re.compile(
    r"(?:.*[^\w.])?(?P<gateway>[^\W\d]\w*)\[(?P<quote>[\"'])(?P<node>[^\"']+)(?P=quote)\]"
    r"\.(?P<path>[\w.]*?)(?P<call>\((?:[^()]*,)?\s*)?(?P<word>\w*)",
    re.DOTALL,
)
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


def members(found: re.Match[str], namespace: dict[str, Any]) -> list[str]:
    """Return the commands, or in a call's brackets the parameters, of a node that is looked up in a gateway."""
    gateway = namespace.get(found["gateway"])
    if not isinstance(gateway, Gateway):
        return []
    gateway._mirror.look()
    try:
        target: Any = Node(gateway, find_node(gateway._mirror.items("nodes"), found["node"]))
        for part in filter(None, found["path"].split(".")):
            target = getattr(target, part)
    except (LookupError, AttributeError):
        return []
    if found["call"]:
        signature = getattr(target, "__signature__", None)
        fields = signature.parameters.values() if signature else ()
        words = [f"{field.name}=" for field in fields if field.kind is Parameter.KEYWORD_ONLY]
    else:
        words = [word for word in dir(target) if not word.startswith("_")]
    return [word for word in words if word.startswith(found["word"])]


def make_matcher(
    find_mirror: Callable[[], Mirror | None], namespace: dict[str, Any]
) -> Callable[[Any], dict[str, Any]]:
    """Return a matcher of IPython's API version 2 that answers for lines of ours and leaves others alone."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher(identifier="suzent", priority=1000)  # type: ignore[untyped-decorator]
    def suzent_matcher(context: Any) -> dict[str, Any]:
        line = context.text_until_cursor
        found = _LINE.fullmatch(line) or (_CELL.fullmatch(line) if context.cursor_line == 0 else None)
        if found is None and (python := _PYTHON.fullmatch(line)):
            return {
                "completions": [SimpleCompletion(text=word, type="suzent") for word in members(python, namespace)],
                "matched_fragment": python["word"],
                "suppress": False,
            }
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
