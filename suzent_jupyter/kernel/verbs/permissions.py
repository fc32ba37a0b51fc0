"""What somebody must allow before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..asking import words
from ..display import Note
from . import Context, Verb, read_arguments

if TYPE_CHECKING:
    from ..mirror import Mirror


def _permissions(context: Context) -> Any:
    arguments = read_arguments(context, "permissions", flags=("--history",))
    gateway = context.gateway
    return gateway.permissions if arguments.get("--history") is None else gateway.permission_history()


def _answer(context: Context) -> Note:
    arguments = read_arguments(context, "answer", ("ID", "allow|deny"), flags=("--session",))
    remember = "once" if arguments.get("--session") is None else "session"
    closed = context.gateway.answer(arguments["ID"], arguments["allow|deny"], remember=remember)
    return Note(words.outcome(closed, mine=True))


def _permission_words(mirror: Mirror, words_: list[str]) -> list[str]:
    return [] if words_ else ["--history"]


def _answer_words(mirror: Mirror, words_: list[str]) -> list[str]:
    given = [word for word in words_ if word != "--session"]
    if not given:
        return [str(item.get("id", "")) for item in mirror.items("permissions")]
    if len(given) == 1:
        return ["allow", "deny"]
    return [] if "--session" in words_ else ["--session"]


VERBS = (
    Verb(
        "permissions",
        "[--history]",
        "what waits for your permission, with exactly what would run",
        _permissions,
        _permission_words,
        details=(
            "Whatever is private or can't be undone asks before it runs; no answer within 5 minutes means no.\n"
            "--history shows what was asked in the last 30 days, who answered, and how.\n"
            "A cell that waits for something of its own asks right there, where one can type."
        ),
    ),
    Verb(
        "answer",
        "ID allow|deny [--session]",
        "allow or deny what waits under this id",
        _answer,
        _answer_words,
        details=(
            "ID may be the beginning of one. What was shown is what runs, to the letter; the first answer counts.\n"
            "--session answers the same command there for the rest of its conversation; of a direct call, for as long\n"
            "as its notebook is connected. It is forgotten when the gateway ends."
        ),
    ),
)
