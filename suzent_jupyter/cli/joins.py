"""Making the gateway a node of another one, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from ..protocol.text import split_list
from .common import Json, Listing, Token, Url, connected, done
from .output import say, say_json

Address = Annotated[
    str, typer.Argument(metavar="URL", help="The other gateway, such as ws://192.168.1.10:25314, or a pairing link.")
]

CONNECTIONS = Listing(
    "/nodes/connections",
    "connections",
    "gateway_url status code name error",
    "No gateway has been joined.",
    {"code": lambda item: item["pairing_code"]},
)


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the commands."""
    node.command("connect")(connect)
    node.command("connections")(CONNECTIONS.command("List the gateways this one has joined."))
    node.command("disconnect")(disconnect)


def connect(
    address: Address,
    name: Annotated[str | None, typer.Option("--name", "-n", help="This gateway's name there.")] = None,
    capabilities: Annotated[str, typer.Option(help="Offer only these, comma-separated; camera.* works.")] = "",
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Make this gateway a node of another gateway or Suzent server."""
    patterns = split_list(capabilities)
    with connected(url, token) as gateway:
        joined = gateway.connect_to(address, name=name, capabilities=patterns or None)
        if json:
            say_json(joined)
        else:
            say(joined.text("jupyter suzent node"))


def disconnect(address: Address, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Leave a gateway that was joined; a second time drops it from the list."""
    with connected(url, token) as gateway:
        done(gateway.disconnect_from(address), "Disconnected.", json)
