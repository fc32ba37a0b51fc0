"""Which node a prompt would go to, and who may see a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..display import Note
from ..errors import UsageError
from ..plain import one_line
from ..route import Route
from . import Context, Verb, read_arguments

if TYPE_CHECKING:
    from ..mirror import Mirror

_SCOPES = ("account", "enterprise")


def _route(context: Context) -> Route:
    words, chat, node = [], False, None
    given = iter(context.words)
    for word in given:
        option, equals, value = word.text.partition("=")
        if word.text == "--chat" and not word.quoted:
            chat = True
        elif option == "--node" and not word.quoted:
            node = value if equals else getattr(next(given, None), "text", None)
            if not node:
                raise UsageError("--node needs a node's name.", hint="`%suzent list` shows them.")
        else:
            words.append(word.text)
    if not words:
        raise UsageError("What is wanted is missing.", hint="Such as `%suzent route take a photo`.")
    return context.gateway.route(" ".join(words), node=node, executors=chat)


def _scope(context: Context) -> Note:
    arguments = read_arguments(context, "scope", ("NODE", "SCOPE"))
    scope = arguments["SCOPE"].casefold()
    if scope not in _SCOPES:
        raise UsageError(f"'{one_line(scope, 40)}' is not a scope.", hint="It is `account` or `enterprise`.")
    answer = context.gateway.scope(arguments["NODE"], scope)
    org = one_line(answer.get("org"), 64)
    whom = f"everybody of {org or 'your organisation'}" if answer.get("scope") == "enterprise" else "you alone"
    return Note(f"{one_line(arguments['NODE'], 64)} can now be seen and used by {whom}.")


def _scopes(mirror: Mirror, words: list[str]) -> list[str]:
    if not words:
        return [str(item.get("display_name")) for item in mirror.items("nodes")]
    return list(_SCOPES) if len(words) == 1 else []


VERBS = (
    Verb(
        "route",
        "QUERY [--chat] [--node NODE]",
        "which node a prompt would go to, with every candidate's scores",
        _route,
        details="--chat considers only nodes that could carry out a chat, --node chooses one yourself.",
        prose=True,
    ),
    Verb("scope", "NODE account|enterprise", "who may see and use a node of yours", _scope, _scopes),
)
