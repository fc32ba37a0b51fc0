"""Control between gateways, from a terminal: asking for it, and deciding who gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..protocol.text import split_list
from .common import Code, Json, Listing, Token, Url, connected, done
from .output import fail, say, say_aside, say_json

if TYPE_CHECKING:
    from ..kernel.control import ControlRequest

GRANTS = Listing(
    "/nodes/grants",
    "grants",
    "code name host address requested_at replaces",
    "Nobody asks for control.",
    {
        "name": lambda item: item.get("controller_name"),
        "host": lambda item: item.get("controller_host"),
        "address": lambda item: item.get("controller_addr"),
    },
)
UNAUTHORIZED = Listing("/nodes/unauthorized", "attempts", "at host claimed_id path", "Nobody was refused lately.")


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the commands."""
    control = typer.Typer(
        help="Ask another gateway for control, and decide who controls this one.", no_args_is_help=True
    )
    app.add_typer(control, name="control")
    control.command("ask")(ask)
    control.command("list")(GRANTS.command("List who waits to be given control of this gateway."))
    control.command("approve")(approve)
    control.command("deny")(deny)
    app.command("unauthorized")(UNAUTHORIZED.command("List refused attempts to drive this gateway's agent."))


def ask(
    address: Annotated[
        str, typer.Argument(help="The other gateway, such as http://192.168.1.10:25314, a pairing link, or a peer.")
    ],
    name: Annotated[str | None, typer.Option("--name", "-n", help="What to call it here.")] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for its operator's answer.")] = 0,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Ask another gateway for control of its agent and devices; its operator decides."""
    with connected(url, token) as gateway:
        request = gateway.control(address, name)
        if wait:
            if not json:
                say_aside(_asked(request))
            request.wait(wait)
        body = {"base_url": request.base_url, "status": request.status, "code": request.code}
        if (peer := request.peer) is not None:
            body["peer_id"] = str(peer["peer_id"])
        if json:
            say_json(body)
        elif request.status == "approved":
            say(f"Granted. `jupyter suzent trigger {name or body['peer_id']} …` runs a prompt there.")
        elif request.status == "pending":
            say("Still waiting. `jupyter suzent peers` shows when it is granted." if wait else _asked(request))
        if request.status not in ("approved", "pending"):
            fail(f"Control of {request.base_url} was not granted: {request.status}.")


def _asked(request: ControlRequest) -> str:
    shown = f" It shows there with code {request.code}." if request.code else ""
    return f"Asked {request.base_url} for control; its operator decides.{shown}"


def approve(
    code: Code,
    span: Annotated[
        str | None, typer.Option("--for", help="For how long, such as 30m, 12h or 7d; else for good.")
    ] = None,
    commands: Annotated[
        str, typer.Option("--commands", help="Only these of the devices' commands, comma-separated; camera.* works.")
    ] = "",
    covers: Annotated[str, typer.Option("--covers", help="What is granted: both, agent or devices.")] = "both",
    unattended: Annotated[
        bool, typer.Option("--unattended", help="Its turns may use tools that would otherwise ask you.")
    ] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Give control of this gateway to whom this code belongs."""
    from ..kernel.durations import read_duration

    patterns = split_list(commands)
    with connected(url, token) as gateway:
        answer = gateway.approve(
            code,
            expires_in=None if span is None else read_duration(span),
            commands=patterns,
            covers=covers,
            unattended_tools=unattended,
        )
        done(answer, "Approved.", json)


def deny(code: Code, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Refuse control to whom this code belongs."""
    with connected(url, token) as gateway:
        done(gateway.deny(code), "Denied.", json)
