"""``jupyter suzent node host``: this machine as a node."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .modules import failed, load, load_agent
from .prompts import TerminalPrompts

if TYPE_CHECKING:
    from ..node import Capability, NodeHost


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add ``jupyter suzent node host``."""

    @node.command("host")
    def host(
        name: Annotated[str, typer.Option(help="What people call this node.")] = "Local PC",
        url: Annotated[
            str,
            typer.Option(
                help="The gateway: its pairing link, wss://…, ws://… or host:port. "
                "Default: SUZENT_BASE_URL, else the running one."
            ),
        ] = "",
        capabilities: Annotated[str, typer.Option(help="Offer only these, comma-separated; camera.* works.")] = "",
        module: Annotated[
            list[str] | None, typer.Option(help="File or module with @capability functions, or an @agent.")
        ] = None,
        agent: Annotated[
            str,
            typer.Option(help="File or module whose function answers prompts: its @agent, 'answer', or FILE:NAME."),
        ] = "",
        protocol: Annotated[
            Literal["device", "multinode"],
            typer.Option(help="multinode: this node has a key of its own, takes chats, and may ask other nodes."),
        ] = "device",
        description: Annotated[str, typer.Option(help="What this node is, for people and for routing.")] = "",
        tag: Annotated[list[str] | None, typer.Option(help="A word to find it by; may be repeated.")] = None,
        identity: Annotated[str, typer.Option(help="Stable id of this installation; made and kept otherwise.")] = "",
        platform: Annotated[str, typer.Option(help="Found out otherwise.")] = "",
        builtin: Annotated[bool, typer.Option(help="Offer what ordinary computers can do, where it works.")] = True,
        vault_dir: Annotated[str, typer.Option(help="Where its token is kept; SUZENT_DATA_DIR otherwise.")] = "",
        ask: Annotated[
            bool | None,
            typer.Option(
                "--ask/--no-ask",
                help="Ask on this terminal before what needs somebody's permission. Default: if there is a terminal.",
            ),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    ) -> None:
        """Make this machine a node: join a gateway, wait for approval, and answer calls until Ctrl-C.

        With --protocol multinode and --agent FILE, chats are routed to it and its agent may ask other nodes.
        Ends with 1 when the gateway refuses or revokes it.
        """
        from ..node import NodeHost, TokenVault
        from .output import reporting

        talker = _Talker(as_json=as_json)
        try:
            with reporting():
                address = url or _running()
            offered, function = _offered(module or [], capabilities, agent, builtin=builtin)
            host = NodeHost(
                address,
                name=name,
                platform=platform or None,
                capabilities=offered,
                agent=function,
                protocol=protocol,
                description=description or None,
                tags=tag,
                node_identity=identity or None,
                vault=TokenVault(vault_dir or None),
                on_status=talker.status,
                on_call=talker.call,
                on_permission=talker.prompts(sys.stdin.isatty() if ask is None else ask),
            )
        except (ValueError, TypeError) as error:
            raise failed(str(error)) from None
        try:
            status = asyncio.run(_run(host))
        except KeyboardInterrupt:  # where signals can't be handled on the loop
            status = "stopped"
        raise typer.Exit(1 if status == "refused" else 0)


async def _run(host: NodeHost) -> str:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, host.stop)
        except NotImplementedError:
            signal.signal(number, lambda *_: host.stop())
    return await host.run()


def _running() -> str | None:
    """Return the gateway of this user that is running, None if there is none yet; which of several is an error."""
    from ..kernel.errors import NoGateway
    from ..kernel.locate import locate
    from ..protocol.pairing_link import PairingLink

    if PairingLink.is_link(os.environ.get("SUZENT_BASE_URL", "")):
        return None  # the host reads it, with its ticket
    try:
        return locate().url
    except NoGateway as error:
        if error.details:
            raise
        return None


def _offered(
    modules: list[str], chosen: str, agent: str, *, builtin: bool
) -> tuple[list[Capability], Callable[..., Any] | None]:
    """Return what this node offers, and the function that answers prompts where it was not declared as ``@agent``."""
    from ..node.agent import on_device
    from ..node.builtin import available
    from ..node.capability import matching, registry
    from ..protocol.device import AGENT_COMMAND
    from ..protocol.text import split_list

    on_device()
    for module in modules:
        load(module)
    function = load_agent(agent) if agent else None
    known = {each.name: each for each in asyncio.run(available())} if builtin else {}
    known |= registry
    patterns = split_list(chosen) or ["*"]
    found = {each.name: each for pattern in patterns if known for each in matching(known, pattern)}
    if agent and function is None:
        found[AGENT_COMMAND] = registry[AGENT_COMMAND]  # asked for by name, whatever else was chosen
    if not found and function is None:
        raise failed("This node would offer nothing: give --module with @capability functions, or --agent.")
    return list(found.values()), function


class _Talker:
    """Tells on the terminal what happens. Everything here that came over the network was cleaned by the host."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last: dict[str, Any] = {}

    def status(self, host: NodeHost) -> None:
        facts = {
            "status": host.status,
            "name": host.name,
            "url": host.url,
            "node_id": host.node_id,
            "scope": host.scope,
            "pairing_code": host.pairing_code,
            "pending_approval": list(host.pending_approval),
            "retry_in": None if host.retry_in is None else round(host.retry_in, 2),
            "error": host.last_error,
        }
        if facts != self._last:
            self._last = facts
            self._say({"event": "status", **facts}, _sentence(host))

    def call(self, command: str, seconds: float, error: str | None) -> None:
        outcome = "ok" if error is None else "failed"
        facts = {"event": "call", "command": _clean(command), "seconds": round(seconds, 3), "outcome": outcome}
        text = f"{facts['command']} {_duration(seconds)} {outcome}"
        if error is not None:
            facts["error"] = _clean(error)
            text += f": {facts['error']}"
        self._say(facts, text)

    def prompts(self, ask: bool) -> TerminalPrompts | None:
        """Return what asks on this terminal; None where nobody is to be asked."""
        return TerminalPrompts(partial(print, flush=True), as_json=self._as_json) if ask else None

    def _say(self, facts: dict[str, Any], text: str) -> None:
        print(json.dumps(facts) if self._as_json else text, flush=True)


def _sentence(host: NodeHost) -> str:
    match host.status:
        case "connecting":
            return f"Connecting to {host.url} as '{host.name}' ({', '.join(host.capabilities)})"
        case "pending":
            code = shlex.quote(host.pairing_code or "")
            return (
                f"Waiting for approval, code {code}. Approve it with:  jupyter suzent node approve {code}"
                f"  or, in a notebook,  %suzent approve {code}"
            )
        case "connected":
            shared = ", shared with its owner's organisation" if host.scope == "enterprise" else ""
            waiting = f"; waiting for approval: {', '.join(host.pending_approval)}" if host.pending_approval else ""
            return f"Connected as {host.node_id}{shared}{waiting}"
        case "reconnecting":
            return f"Not connected: {host.last_error}. Next attempt in {host.retry_in or 0:.1f} s"
        case "refused":
            return f"Refused: {host.last_error}"
    return "Stopped"


def _clean(text: str) -> str:
    from ..protocol.text import clean_text

    return clean_text(text, 300)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
