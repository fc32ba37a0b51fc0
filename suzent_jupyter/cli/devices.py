"""Nodes and devices from a terminal: the same verbs as ``%suzent``, for people and for scripts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .common import Code, Json, Listing, Pairs, Timeout, Token, Url, commands, connected, done
from .output import say, say_json
from .results import Output, Overwrite, show

Node = Annotated[str, typer.Argument(help="Name, id or first characters of the id.")]
Device = Annotated[str, typer.Argument(help="Name, id or first characters of the id of an approved device or token.")]


NODES = Listing(
    "/nodes", "nodes", "node node_id platform status commands", "No node is connected.", {"commands": commands}
)
PENDING = Listing(
    "/nodes/pending",
    "pending",
    "code name platform kind invited remote commands",
    "Nothing waits for approval.",
    {
        "commands": commands,
        "invited": lambda item: str(item.get("invitation") or "yes") if item.get("invited") else "no",
    },
)
DEVICES = Listing(
    "/nodes/devices",
    "devices",
    "device device_id platform scope status connected token_hint",
    "No device has been approved yet.",
)
AUDIT = Listing(
    "/audit",
    "entries",
    "at actor action node command outcome ms",
    "Nothing is recorded yet.",
    {"ms": lambda item: "" if item.get("duration_ms") is None else f"{item['duration_ms']:.0f}"},
)


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the commands."""
    config = typer.Typer(help="Show and change the gateway's settings.", no_args_is_help=True)
    app.add_typer(config, name="config")
    node.command("list")(NODES.command("List the connected nodes."))
    node.command("status")(status)
    node.command("describe")(describe)
    node.command("invoke")(invoke)
    node.command("pending")(PENDING.command("List what waits for approval."))
    node.command("approve")(approve)
    node.command("deny")(deny)
    node.command("devices")(DEVICES.command("List every device and token that was approved."))
    node.command("revoke")(revoke)
    node.command("pause")(pause)
    node.command("resume")(resume)
    app.command("host-token")(host_token)
    app.command("audit")(audit)
    config.command("get")(config_get)
    config.command("set")(config_set)


def status(url: Url = None, token: Token = None, json: Json = False) -> None:
    """Say how things stand."""
    with connected(url, token) as gateway:
        nodes, waiting = gateway.get("/nodes"), gateway.get("/nodes/pending")
        if json:
            say_json({"url": gateway.url, "nodes": nodes["count"], "pending": waiting["count"]})
        else:
            say(f"Gateway {gateway.url}: {nodes['count']} connected, {waiting['count']} waiting for approval.")
            if waiting["count"]:
                say("`jupyter suzent node pending` shows what waits.")


def describe(node: Node, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Show what a node is and what it can do."""
    from ..kernel.finding import find_node
    from ..kernel.node import description

    with connected(url, token) as gateway:
        info = find_node(gateway.records("nodes"), node)
        if json:
            say_json(info)
        else:
            say(description(info))


def invoke(
    node: Node,
    command: Annotated[str, typer.Argument(help="Such as camera.snap.")],
    pairs: Pairs = None,
    params: Annotated[
        str | None, typer.Option("--params", help="Parameters as a JSON object; - reads it from stdin.")
    ] = None,
    timeout: Timeout = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: the same call is made once within 5 minutes.")
    ] = None,
    output: Output = None,
    overwrite: Overwrite = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Call a command of a node. Ctrl-C cancels the call on the device."""
    import sys

    from ..kernel.values import Word, pair, read_json

    with connected(url, token) as gateway:
        body: dict[str, Any] = {}
        if params is not None:
            body = read_json(sys.stdin.read() if params == "-" else params, "--params")
        # The shell has taken the quotes: what is left of them belongs to the value.
        body |= dict(pair(Word(text, 0)) for text in pairs or ())
        result = gateway.invoke(node, command, body, timeout=timeout, idempotency_key=key, on_progress=_progress(json))
        show(result, output, overwrite, json)


def approve(code: Code, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Let in the device, or its new commands, that shows this code; or give control to the gateway that asks for it."""
    with connected(url, token) as gateway:
        done(gateway.approve(code), "Approved.", json)


def deny(code: Code, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Turn away the device, or the gateway, that shows this code."""
    with connected(url, token) as gateway:
        done(gateway.deny(code), "Denied.", json)


def revoke(device: Device, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Take a device's approval away; its connection closes at once."""
    with connected(url, token) as gateway:
        done(gateway.revoke(device), "Revoked.", json)


def pause(device: Device, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Refuse calls to a device for now."""
    with connected(url, token) as gateway:
        done(gateway.pause(device), "Paused.", json)


def resume(device: Device, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Let a paused device work again."""
    with connected(url, token) as gateway:
        done(gateway.resume(device), "Resumed.", json)


def host_token(
    name: Annotated[str | None, typer.Argument(help="What it is for.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Make a token of full authority for a program of your own. It is printed this once."""
    with connected(url, token) as gateway:
        made = gateway.host_token(name)
        if json:
            say_json({"device_id": made.device_id, "token": made.token, "scope": "full"})
        else:
            say(made.token)


def audit(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Entries at most.")] = 50,
    before: Annotated[int | None, typer.Option("--before", help="Only entries older than the one of this id.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show who did what, newest first."""
    with connected(url, token) as gateway:
        AUDIT.show(gateway.get("/audit", limit=limit, before=before), json)


def config_get(
    key: Annotated[str | None, typer.Argument(help="One setting or limit.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show the settings in force, or one of them."""
    from ..kernel.display import Config
    from ..kernel.settings import lookup

    with connected(url, token) as gateway:
        body = gateway.config()
        if key is not None:
            value = lookup(body, key)
            say_json(value) if json or not isinstance(value, str) else say(value)
        elif json:
            say_json(body)
        else:
            say(repr(Config(body)))


def config_set(
    key: Annotated[str, typer.Argument(help="The setting.")],
    value: Annotated[str, typer.Argument(help="Its value: JSON where it parses, else text.")],
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Change a setting."""
    from ..kernel.settings import parse_value

    with connected(url, token) as gateway:
        body = gateway.post("/nodes/config", {key: parse_value(key, value)})
        if json:
            say_json(body)
        else:
            say(f"{key} is {body.get(key)}{' after a restart' if body.get('restart_required') else ''}.")


def _progress(quiet: bool) -> Any:
    """Return what writes progress to a terminal's stderr; None where nobody watches."""
    import sys

    if quiet or not sys.stderr.isatty():
        return None

    def write(progress: Any) -> None:
        share = "" if progress.fraction is None else f"{min(max(progress.fraction, 0.0), 1.0):4.0%} "
        sys.stderr.write(f"{share}{progress.message or ''}\n")

    return write
