"""Running a prompt on a peer's agent, from a terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .common import Json, Token, Url, connected
from .output import fail
from .peers import Peer


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the command, also where Suzent has it."""
    app.command("trigger")(trigger)
    node.command("trigger")(trigger)


def trigger(
    peer: Peer,
    prompt: Annotated[list[str], typer.Argument(help="What to ask; - reads it from stdin.")],
    chat: Annotated[str | None, typer.Option("--chat", "--chat-id", help="Go on with this conversation there.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Send this file of the gateway's machine along; repeatable."),
    ] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Run a prompt on a peer's agent and print the answer as it comes. Ctrl-C stops it over there.

    With --json each event is one line of JSON.
    """
    from .transcript import Transcript

    text = sys.stdin.read() if prompt == ["-"] else " ".join(prompt)
    with connected(url, token) as gateway:
        transcript = Transcript(json)
        try:
            gateway.trigger(peer, text, chat, files or (), transcript.take)
        finally:
            transcript.end_line()
        if not transcript.finished:
            fail(f"The answer of {peer} broke off.")
