"""What is kept for later, from a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .common import Json, Listing, Token, Url, connected
from .output import say, say_json

MEMORY = Listing(
    "/memory",
    "memories",
    "memory_id level content tags created_at by",
    "Nothing is kept.",
    {"tags": lambda item: ", ".join(map(str, item.get("tags") or ()))},
)

Level = Annotated[
    str | None, typer.Option("--level", help="account (yours alone), enterprise (your organisation's) or session.")
]
Conversation = Annotated[
    str | None, typer.Option("--conversation", help="The id of a conversation, for level session.")
]


class _Group(TyperGroup):
    """Takes what is no command for words to look for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asks_for_help = bool(args) and args[0] in ("--help", *self.commands)
        return super().parse_args(ctx, args if asks_for_help else ["query", *args])


memory = typer.Typer(
    cls=_Group, help="What is kept for later: all of it, or what fits the words that follow.", no_args_is_help=False
)


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(memory, name="memory")


@memory.command()
def query(
    words: Annotated[list[str] | None, typer.Argument(help="Words to look for; all of it without them.")] = None,
    level: Level = None,
    conversation: Conversation = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Entries at most.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List what fits, best first, or without words what is newest. "query" itself may be left out."""
    asked = {"query": " ".join(words or ()), "level": level, "session_id": conversation, "limit": limit}
    with connected(url, token) as gateway:
        if words or limit is not None:
            MEMORY.show(gateway.get(MEMORY.path, **asked), json)
            return
        found = gateway.memory.records(level, conversation)
        MEMORY.show({"memories": found, "count": len(found)}, json)


@memory.command()
def save(
    text: Annotated[list[str], typer.Argument(help="What to keep; - reads it from stdin.")],
    level: Level = None,
    tags: Annotated[str, typer.Option("--tags", help="Words it shall be found by as well, with commas between.")] = "",
    conversation: Conversation = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Keep a text; level account unless another is named."""
    from ..kernel.verbs.memory import kept
    from ..protocol.text import split_list

    content = sys.stdin.read() if text == ["-"] else " ".join(text)
    with connected(url, token) as gateway:
        entry = gateway.memory.save(content, level, split_list(tags), conversation)
        if json:
            say_json(entry)
        else:
            say(kept(entry))


@memory.command()
def forget(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The entries' ids.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of the level, instead of ids.")] = False,
    level: Level = None,
    conversation: Conversation = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Forget entries for good, also in the gateway's file."""
    from ..kernel.errors import UsageError
    from ..kernel.verbs.memory import forgotten

    with connected(url, token) as gateway:
        if bool(ids) == everything:
            raise UsageError("Name the entries by their ids, or give --all instead.")
        count = gateway.memory.forget(*(ids or ()), level=level, conversation=conversation, everything=everything)
        if json:
            say_json({"forgotten": count})
        else:
            say(forgotten(count))


@memory.command()
def export(
    file: Annotated[Path, typer.Argument(help="A new file: .jsonl, or .csv for a table.")],
    level: Level = None,
    conversation: Conversation = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Write all entries to a new file."""
    from ..kernel.verbs.memory import written

    with connected(url, token) as gateway:
        count = gateway.memory.export(file, level=level, conversation=conversation)
        if json:
            say_json({"entries": count, "file": str(file)})
        else:
            say(written(count, str(file)))
