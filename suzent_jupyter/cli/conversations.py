"""What was said to this gateway and its nodes, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import Json, Listing, Token, Url, connected
from .output import say, say_json

CONVERSATIONS = Listing(
    "/conversations",
    "conversations",
    "conversation_id icon title folder target_node_id status message_count updated_at",
    "Nothing was said to this gateway or its nodes yet.",
)


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the command."""
    app.command("conversations")(conversations)


def conversations(
    conversation: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Show this one, message by message.")
    ] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List the conversations with this gateway and its nodes, or show one: its id, or last for the newest of a node."""
    from ..kernel.route import chosen_line
    from ..protocol.text import clean_lines

    with connected(url, token) as gateway:
        if conversation is None:
            CONVERSATIONS.show(gateway.get(CONVERSATIONS.path), json)
            return
        body = gateway.conversation(conversation).record
        if json:
            say_json(body)
            return
        for message in body["messages"]:
            failed = message.get("outcome") not in ("", "done", None)
            ended = f" ({clean_lines(message['outcome'])})" if failed else ""
            say(f"{message['role']}{ended}: {clean_lines(message['content'])}")
            routing = (message.get("detail") or {}).get("routing") or {}
            if routing.get("choice"):
                say(f"  -> {chosen_line(routing['choice'])}")
