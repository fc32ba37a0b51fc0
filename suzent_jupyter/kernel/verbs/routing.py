"""Which node a prompt would go to, and who may see a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..display import Note
from ..errors import UsageError
from ..plain import one_line
from ..route import Route
from . import Context, Verb, find_verb, read_arguments
from .nodes import node_names
from .prose import read_prose

if TYPE_CHECKING:
    from ..mirror import Mirror

_SCOPES = ("account", "enterprise")


def _route(context: Context) -> Route:
    usage = f"The form is `{find_verb('route').line}`."
    line = read_prose(context.rest, ("--node",), ("--chat",), usage=usage)
    if not line.text:
        raise UsageError("route needs QUERY.", hint=usage)
    return context.gateway.route(line.text, node=line.options.get("--node"), executors="--chat" in line.flags)


def _scope(context: Context) -> Note:
    arguments = read_arguments(context, "scope", ("NODE", "SCOPE"))
    scope = arguments["SCOPE"].casefold()
    if scope not in _SCOPES:
        raise UsageError(f"'{one_line(scope, 40)}' is not a scope.", hint="It is `account` or `enterprise`.")
    return Note(shared_with(arguments["NODE"], context.gateway.scope(arguments["NODE"], scope)))


def shared_with(node: str, answer: dict[str, object]) -> str:
    """Return who may see and use a node now, as a sentence."""
    org = one_line(answer.get("org"), 64)
    whom = f"everybody of {org or 'your organisation'}" if answer.get("scope") == "enterprise" else "you alone"
    return f"{one_line(node, 64)} can now be seen and used by {whom}."


def _route_words(mirror: Mirror, words: list[str]) -> list[str]:
    return node_names(mirror, []) if words and words[-1] == "--node" else ["--node", "--chat"]


def _scopes(mirror: Mirror, words: list[str]) -> list[str]:
    return node_names(mirror, words) if not words else list(_SCOPES) if len(words) == 1 else []


VERBS = (
    Verb(
        "route",
        "QUERY [--chat] [--node NODE]",
        "which node a prompt would go to and why, with every candidate's scores",
        _route,
        _route_words,
        details=(
            "Three tiers are tried in order: a language model (where one is configured), the words a node shares with\n"
            "QUERY, and the newest connection. Nothing is sent to any node.\n"
            "--chat considers only nodes that could carry out a chat; --node chooses one yourself.\n"
            "route = %suzent route take a photo   gives .frame .node_id .decision .png"
        ),
        prose=True,
    ),
    Verb(
        "scope",
        "NODE account|enterprise",
        "who may see and use a node of yours",
        _scope,
        _scopes,
        details="account: you alone. enterprise: everybody of your organisation; taken back, their calls end at once.",
    ),
)
