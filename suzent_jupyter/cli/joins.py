"""Making the gateway a node of another one, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from .devices import Json, Token, Url, _done, _gateway
from .output import say, say_json, say_table

Address = Annotated[
    str, typer.Argument(metavar="URL", help="The other gateway, such as ws://192.168.1.10:25314, or a pairing link.")
]


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the commands."""
    node.command("connect")(connect)
    node.command("connections")(connections)
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
    patterns = [part.strip() for part in capabilities.split(",") if part.strip()]
    with _gateway(url, token) as gateway:
        joined = gateway.connect_to(address, name=name, capabilities=patterns or None)
        if json:
            say_json(joined)
        else:
            say(joined.text("jupyter suzent node"))


def connections(url: Url = None, token: Token = None, json: Json = False) -> None:
    """List the gateways this one has joined."""
    with _gateway(url, token) as gateway:
        body = gateway.get("/nodes/connections")
        if json:
            say_json(body)
        else:
            rows = [
                {**item, "name": item["display_name"], "code": item["pairing_code"]} for item in body["connections"]
            ]
            say_table(rows, ["gateway_url", "status", "code", "name", "error"], "No gateway has been joined.")


def disconnect(address: Address, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Leave a gateway that was joined; a second time drops it from the list."""
    with _gateway(url, token) as gateway:
        _done(gateway.disconnect_from(address), "Disconnected.", json)
