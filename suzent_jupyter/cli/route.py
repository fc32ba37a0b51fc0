"""Prompts for nodes, from a terminal: which one answers, its answer, and who may use a node."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from .common import Json, Token, Url, connected
from .output import fail, say, say_aside, say_json, say_table

_COLUMNS = ["chosen", "node", "score", "matched", "confidence", "reason", "executes", "scope", "connected_at"]

Words = Annotated[list[str], typer.Argument(help="What to ask; - reads it from stdin.")]


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the commands."""
    app.command("route")(route)
    app.command("chat")(chat)
    app.command("scope")(scope)
    node.command("scope")(scope)


def route(
    query: Words,
    executors: Annotated[bool, typer.Option("--chat", help="Only nodes that could carry out a chat.")] = False,
    node: Annotated[str | None, typer.Option("--node", help="Choose this one yourself.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Say which node a prompt would go to and why, with every candidate's scores; nothing is sent to any."""
    with connected(url, token) as gateway:
        found = gateway.route(_text(query), node=node, executors=executors)
        if json:
            say_json(found.decision)
            return
        for line in found.lines:
            say(line)
        candidates = found.decision.get("candidates") or ()
        if candidates:
            say("")
            say_table([_row(item, found.node_id) for item in candidates], _COLUMNS, "")
        if found.bars:
            say(f"\n{found.bars}")


def chat(
    prompt: Words,
    node: Annotated[str | None, typer.Option("--node", help="The node that is to answer.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Go on with this one: its id, or last.")
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--attach", "-a", help="Send this file of this machine along; repeatable.")
    ] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Have the node best suited answer a prompt and print the answer as it comes. Ctrl-C stops it on the node.

    Which node answers, and why, is said on stderr. With --json each event is one line of JSON, after a first line that
    says who answers.
    """
    from ..kernel.route import chosen_line
    from ..kernel.turns.chat import choice_of
    from .transcript import Transcript

    transcript = Transcript(json)

    def accepted(frame: dict[str, Any]) -> None:
        if json:
            transcript.take(frame)
        else:
            say_aside(f"-> {chosen_line(choice_of(frame))}")

    with connected(url, token) as gateway:
        try:
            gateway.chat(_text(prompt), node, conversation, transcript.take, accepted, attachments=files or ())
        finally:
            transcript.end_line()
        if not transcript.finished:
            fail("The answer broke off.")


def scope(
    node: Annotated[str, typer.Argument(help="Name or id of a node of yours.")],
    scope: Annotated[Literal["account", "enterprise"], typer.Argument(help="You alone, or your organisation.")],
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Set who may see and use a node of yours: you alone, or everybody of your organisation."""
    with connected(url, token) as gateway:
        answer = gateway.scope(node, scope)
        if json:
            say_json(answer)
            return
        from ..kernel.verbs.routing import shared_with

        say(shared_with(node, answer))


def _text(words: list[str]) -> str:
    return sys.stdin.read() if words == ["-"] else " ".join(words)


def _row(item: dict[str, Any], chosen: str | None) -> dict[str, Any]:
    return {
        **item,
        "chosen": "*" if item.get("node_id") == chosen else "",
        "node": item.get("display_name"),
        "score": _number(item.get("bm25")),
        "matched": ", ".join(map(str, item.get("matched_terms") or ())),
        "confidence": _number(item.get("llm_confidence")),
        "reason": item.get("llm_reason"),
        "executes": "yes" if item.get("executes") else "no",
    }


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else ""
