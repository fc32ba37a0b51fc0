"""Other gateways: control of them, and control that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..control import ControlRequest
from ..display import Note
from ..errors import UsageError
from ..plain import is_notebook, one_line
from ..values import typed
from . import Context, Verb, read_arguments

if TYPE_CHECKING:
    from ..mirror import Mirror

MODES = ("trigger", "paused", "off")


def _control(context: Context) -> ControlRequest:
    arguments = read_arguments(context, "control", ("ADDRESS",), options=("--name", "--wait"))
    wait = _seconds(arguments.get("--wait"))
    request = context.gateway.control(arguments["ADDRESS"], arguments.get("--name"))
    return request if wait is None or request.is_over else _await(request, wait)


def _await(request: ControlRequest, seconds: float) -> ControlRequest:
    """Show the request while it waits; what is returned then shows what became of it."""
    from IPython.display import display

    handle = display(request, display_id=True)
    try:
        request.wait(seconds)
    except KeyboardInterrupt as interrupt:
        line = "Not waiting any longer; the request still stands: %suzent peers shows when it is approved."
        interrupt._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
        raise
    if request.is_over and handle is not None and is_notebook():
        handle.update({"text/plain": f"Asked {request.base_url} for control."}, raw=True)
    return request


def _seconds(text: str | None) -> float | None:
    value = None if text is None else typed(text)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise UsageError(f"--wait is a number of seconds, not '{one_line(text, 40)}'.", hint="Such as --wait 60.")
    return value


def _peers(context: Context) -> Any:
    from IPython.display import display

    refresh = read_arguments(context, "peers", flags=("--refresh",)).get("--refresh") is not None
    frame = context.gateway.list_peers(refresh)
    for request in frame.attrs["requests"]:
        if request["status"] == "pending":
            code = f" under code {request['code']}" if request["code"] else ""
            display(Note(f"Waiting: {request['base_url']} has not approved our request for control yet{code}."))
    return frame


def _grants(context: Context) -> Any:
    read_arguments(context, "grants")
    return context.gateway.grants


def _unauthorized(context: Context) -> Any:
    read_arguments(context, "unauthorized")
    return context.gateway.unauthorized


def _mode(context: Context) -> Note:
    arguments = read_arguments(context, "mode", ("PEER", "MODE"))
    peer, mode = arguments["PEER"], arguments["MODE"].casefold()
    if mode not in MODES:
        raise UsageError(f"'{one_line(mode, 40)}' is not a mode.", hint=f"Modes are {', '.join(MODES)}.")
    mode = context.gateway.set_mode(peer, mode)
    said = {"trigger": "may be driven from here", "paused": "is not driven for now", "off": "is not driven any more"}
    return Note(f"{one_line(peer, 64)} {said.get(mode, f'is in mode {mode}')}. What it may do here stays as it was.")


def _reverse(context: Context) -> Note:
    arguments = read_arguments(context, "reverse", ("PEER", "STATE"))
    peer, state = arguments["PEER"], arguments["STATE"].casefold()
    if state not in ("on", "off"):
        raise UsageError(f"'{one_line(state, 40)}' is neither on nor off.", hint="Such as `%suzent reverse Lab on`.")
    enabled = context.gateway.set_reverse(peer, state == "on")
    name = one_line(peer, 64)
    if enabled:
        return Note(f"{name} may drive this gateway's agent and devices too, until `%suzent reverse {name} off`.")
    return Note(f"{name} can't drive this gateway any more by the control that was given in return.")


def _remove(context: Context) -> Note:
    peer = read_arguments(context, "remove", ("PEER",))["PEER"]
    context.gateway.remove_peer(peer)
    name = one_line(peer, 64)
    return Note(f"Removed {name}. Both directions are severed: it can't be driven from here, and can't drive us.")


def peer_names(mirror: Mirror, words: list[str]) -> list[str]:
    """Complete a peer's name."""
    return [] if words else [str(item.get("name", "")) for item in mirror.items("peers")]


def _then(*choices: str) -> Any:
    def complete(mirror: Mirror, words: list[str]) -> list[str]:
        return list(choices) if len(words) == 1 else peer_names(mirror, words)

    return complete


VERBS = (
    Verb(
        "control",
        "ADDRESS|PEER [--name N] [--wait S]",
        "ask another gateway or Suzent server for control of its agent and devices",
        _control,
        peer_names,
        details=(
            "ADDRESS is its address or pairing link, such as http://192.168.1.10:25314. PEER asks one again, for\n"
            "instance after it revoked its grant. Its operator compares the code and approves it, once.\n"
            "This gateway goes on asking by itself; --wait 60 waits for the outcome, an interrupt ends only that.\n"
            "request = %suzent control …   gives .status .refresh() .wait(60) .peer"
        ),
    ),
    Verb(
        "peers",
        "[--refresh]",
        "gateways this one controls, or is controlled by, as a frame: both directions side by side",
        _peers,
        lambda mirror, words: [] if words else ["--refresh"],
        details=(
            "We drive it: mode and status. It drives us: inbound, uses, last_used, expires, covers.\n"
            "--refresh asks each of them how it is right now."
        ),
    ),
    Verb(
        "grants",
        "",
        "requests for control of this gateway that wait, as a frame",
        _grants,
        details="Compare the code with the one shown over there, then `%suzent approve CODE` or `%suzent deny CODE`.",
    ),
    Verb("unauthorized", "", "refused attempts to drive this gateway's agent, as a frame", _unauthorized),
    Verb(
        "mode",
        "PEER trigger|paused|off",
        "drive a peer, pause that, or switch it off",
        _mode,
        _then(*MODES),
        details="What the peer may do here is `%suzent pause`, `%suzent resume` and `%suzent revoke`.",
    ),
    Verb("reverse", "PEER on|off", "let a peer that is driven from here drive us too", _reverse, _then("on", "off")),
    Verb("remove", "PEER", "sever both directions between this gateway and a peer", _remove, peer_names),
)
