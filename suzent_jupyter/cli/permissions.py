"""What somebody must allow before it runs, from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .common import Json, Listing, Token, Url, connected
from .output import say, say_json

_HISTORY = Listing(
    "/permissions",
    "permissions",
    "asked_at command node caller decision reason by",
    "Nothing was asked in the last 30 days.",
    {"command": lambda item: item["tool"], "node": lambda item: item["node_name"] or "this gateway"},
)


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the commands."""
    app.command("permissions")(permissions)
    app.command("answer")(answer)


def permissions(
    history: Annotated[bool, typer.Option("--history", help="What was asked in the last 30 days instead.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show what waits for your permission, with exactly what would run."""
    with connected(url, token) as gateway:
        if history:
            _HISTORY.show(gateway.get("/permissions", history=1), json)
            return
        body = gateway.get("/permissions")
        if json:
            say_json(body)
        else:
            say("\n\n".join(map(_shown, body["permissions"])) or "Nothing waits for your permission.")


def answer(
    prompt: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")],
    decision: Annotated[str, typer.Argument(metavar="allow|deny", help="Your answer.")],
    session: Annotated[
        bool, typer.Option("--session", help="Answer the same command there for the rest of its conversation.")
    ] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Allow or deny what waits under an id."""
    from ..kernel.asking.words import outcome

    with connected(url, token) as gateway:
        closed = gateway.answer(prompt, decision, remember="session" if session else "once")
        if json:
            say_json(closed)
        else:
            say(outcome(closed, mine=True))


def _shown(prompt: dict[str, Any]) -> str:
    from ..kernel.asking.words import details, headline, short

    code = short(prompt["id"])
    how = f"jupyter suzent answer {code} allow   (or deny; --session: for its conversation)"
    return "\n  ".join([f"[{code}] {headline(prompt)}", *details(prompt), how])
