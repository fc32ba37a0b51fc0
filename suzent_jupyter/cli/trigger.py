"""Running a prompt on a peer's agent, from a terminal."""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

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
    from ..kernel.rest import segment
    from ..protocol.errors import SuzentError
    from .stream import events
    from .transcript import Transcript

    text = sys.stdin.read() if prompt == ["-"] else " ".join(prompt)
    route = f"/nodes/peers/{segment(peer.strip())}"
    body: dict[str, Any] = {"prompt": text}
    if chat is not None:
        body["chat_id"] = chat
    if files:
        body["attachments"] = [{"path": _path(name)} for name in files]
    with connected(url, token) as gateway:
        transcript = Transcript(json)
        try:
            with closing(events(gateway, f"{route}/trigger", body)) as coming:
                for event in coming:
                    transcript.take(event)
        except KeyboardInterrupt:
            with suppress(SuzentError):
                gateway.post(f"{route}/stop")
            raise
        finally:
            transcript.end_line()
        if transcript.error is not None:
            fail(f"{peer} failed: {transcript.error}")
        if not transcript.finished:
            fail(f"The answer of {peer} broke off.")


def _path(name: str) -> str:
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
