"""Finding other gateways, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import Json, Token, Url, connected
from .output import say_aside, say_json, say_table


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the command."""
    node.command("discover")(discover)


def discover(
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for answers; 10 at most.")] = 3.0,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Look for other gateways on the local network and in the tailnet."""
    with connected(url, token) as gateway:
        body = gateway.get("/nodes/discover", timeout=timeout)
        if json:
            say_json(body)
            return
        rows = [
            {**item, "reachable": "yes" if item.get("reachable") else "no"} for item in body["lan"] + body["tailscale"]
        ]
        say_table(rows, ["name", "source", "gateway_url", "reachable", "dns_name"], "No other gateway was found.")
        for problem in body["problems"]:
            say_aside(problem)
