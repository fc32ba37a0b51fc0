"""The gateways this one drives, or is driven by, from a terminal."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from .common import Json, Listing, Pairs, Timeout, Token, Url, connected, done, yes_no
from .output import say
from .results import Output, Overwrite, show

Peer = Annotated[str, typer.Argument(help="Name, id or address, as `jupyter suzent peers` lists them.")]
PEERS = Listing(
    "/nodes/peers",
    "peers",
    "name peer_id base_url mode outbound inbound used drives_us",
    "There is no peer. `jupyter suzent control ask ADDRESS` asks for one.",
    {
        "outbound": lambda item: item.get("outbound_status"),
        "used": lambda item: item.get("inbound_count") or "",
        "drives_us": yes_no("reverse_enabled"),
    },
)
CAPABILITIES = Listing(
    "", "capabilities", "name node description", "None of its devices is connected.",
)  # fmt: skip


class Mode(StrEnum):
    """Whether this gateway drives a peer."""

    TRIGGER = "trigger"
    PAUSED = "paused"
    OFF = "off"


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the commands."""
    peer = typer.Typer(help="Change, look at and invoke a peer.", no_args_is_help=True)
    app.add_typer(peer, name="peer")
    app.command("peers")(peers)
    peer.command("mode")(mode)
    peer.command("reverse")(reverse)
    peer.command("remove")(remove)
    peer.command("capabilities")(capabilities)
    peer.command("invoke")(invoke)


def peers(
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask each of them now.")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List the gateways this one drives, or that drive it."""
    with connected(url, token) as gateway:
        body = gateway.get("/nodes/peers", refresh="1" if refresh else None)
        PEERS.show(body, json)
        for request in [] if json else body.get("requests", ()):
            shown = f" (code {request['code']})" if request.get("code") else ""
            say(f"Asked {request.get('base_url')} for control{shown}: {request['status']}.")


def mode(peer: Peer, to: Annotated[Mode, typer.Argument(metavar="MODE", help="trigger, paused or off.")],
         url: Url = None, token: Token = None, json: Json = False) -> None:  # fmt: skip
    """Say whether this gateway drives a peer."""
    with connected(url, token) as gateway:
        mode = gateway.set_mode(peer, to.value)
        done({"success": True, "mode": mode}, f"Its mode is {mode}.", json)


def reverse(peer: Peer, to: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether it may.")],
            url: Url = None, token: Token = None, json: Json = False) -> None:  # fmt: skip
    """Say whether a peer may drive this gateway."""
    with connected(url, token) as gateway:
        enabled = gateway.set_reverse(peer, to is Switch.ON)
        said = "It may drive this gateway." if enabled else "It may no longer drive this gateway."
        done({"success": True, "enabled": enabled}, said, json)


def remove(peer: Peer, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Forget a peer, and let it drive this gateway no more."""
    with connected(url, token) as gateway:
        done(gateway.remove_peer(peer), "Removed, in both directions.", json)


def capabilities(peer: Peer, url: Url = None, token: Token = None, json: Json = False) -> None:
    """List what a peer's devices can do."""
    from ..kernel.rest import segment

    with connected(url, token) as gateway:
        found = gateway.peer(peer)
        CAPABILITIES.show(gateway.get(f"/nodes/peers/{segment(str(found['peer_id']))}/capabilities"), json)


def invoke(
    peer: Peer,
    command: Annotated[str, typer.Argument(help="Such as camera.snap.")],
    pairs: Pairs = None,
    device: Annotated[str | None, typer.Option("--node", help="Which of its devices, where several could.")] = None,
    timeout: Timeout = None,
    output: Output = None,
    overwrite: Overwrite = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Call a command of a peer's devices."""
    from ..kernel.values import Word, pair

    with connected(url, token) as gateway:
        params: dict[str, Any] = dict(pair(Word(text, 0)) for text in pairs or ())
        show(gateway.invoke_peer(peer, command, params, node=device, timeout=timeout), output, overwrite, json)
