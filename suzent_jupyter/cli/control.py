"""Control between gateways, from a terminal: asking for it, and deciding who gets it."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import typer

from .common import Code, Json, Listing, Token, Url, connected, done
from .decisions import decide_grant
from .output import fail, say, say_aside, say_json

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
POLL_S = 1.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


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
        body = {"base_url": address} if name is None else {"base_url": address, "name": name}
        answer = gateway.post("/nodes/control", body)
        if wait and not json:
            say_aside(_asked(answer))
        end = time.monotonic() + wait
        while wait and answer["status"] == "pending" and (left := end - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left))
            known = {"base_url": answer["base_url"], "request_id": answer["request_id"], "name": name}
            answer |= {key: value for key, value in gateway.get("/nodes/control-status", **known).items() if value}
        if json:
            say_json(answer)
        elif answer["status"] == "approved":
            say(f"Granted. `jupyter suzent trigger {answer.get('peer_id')} …` runs a prompt there.")
        elif answer["status"] == "pending":
            say("Still waiting. `jupyter suzent peers` shows when it is granted." if wait else _asked(answer))
        if answer["status"] not in ("approved", "pending"):
            fail(f"The request was not granted: {answer['status']}.")


def _asked(answer: dict[str, Any]) -> str:
    shown = f" It shows there with code {answer['code']}." if answer.get("code") else ""
    return f"Asked {answer.get('base_url')} for control; its operator decides.{shown}"


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
    with connected(url, token) as gateway:
        body: dict[str, Any] = {"covers": covers, "unattended_tools": unattended}
        if span is not None:
            body["expires_in"] = seconds(span)
        if commands:
            body["commands"] = [part.strip() for part in commands.split(",") if part.strip()]
        done(decide_grant(gateway, code, "approve", body), "Approved.", json)


def deny(code: Code, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Refuse control to whom this code belongs."""
    with connected(url, token) as gateway:
        done(decide_grant(gateway, code, "deny", {}), "Denied.", json)


def seconds(span: str) -> float:
    """Read a span of time such as ``90s``, ``30m``, ``12h``, ``7d`` or ``2w``.

    Raises
    ------
    UsageError
        It is none.
    """
    from ..kernel.errors import UsageError

    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", span.strip().lower())
    if match is None or not float(match[1]):
        raise UsageError("--for takes a number and a unit: 90s, 30m, 12h, 7d or 2w.")
    return float(match[1]) * _UNITS[match[2]]
