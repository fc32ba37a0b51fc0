"""Letting devices in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.text import split_list
from ..display import Note
from ..durations import read_duration
from ..errors import UsageError
from ..granting import COVERS
from ..pairing import HostToken
from . import Context, Verb, read_arguments

if TYPE_CHECKING:
    from ..invitation import Invitation
    from ..mirror import Mirror


def _pending(context: Context) -> Any:
    read_arguments(context, "pending")
    return context.gateway.pending


def _devices(context: Context) -> Any:
    read_arguments(context, "devices")
    return context.gateway.devices


def _approve(context: Context) -> Note:
    arguments = read_arguments(
        context, "approve", ("CODE",), options=("--for", "--commands", "--covers"), flags=("--unattended",)
    )
    lasts, commands, covers = (arguments.get(name) for name in ("--for", "--commands", "--covers"))
    patterns = split_list(commands or "")
    if commands is not None and not patterns:
        raise UsageError("--commands names none.", hint="Such as --commands camera.*,system.info.")
    answer = context.gateway.approve(
        arguments["CODE"],
        expires_in=None if lasts is None else read_duration(lasts),
        commands=patterns,
        covers="both" if covers is None else covers.casefold(),
        unattended_tools=arguments.get("--unattended") is not None,
    )
    return Note(answer.get("message") or "Approved.")


def _deny(context: Context) -> Note:
    code = read_arguments(context, "deny", ("CODE",))["CODE"]
    return Note(context.gateway.deny(code).get("message") or "Denied.")


def _revoke(context: Context) -> Note:
    device = read_arguments(context, "revoke", ("DEVICE",))["DEVICE"]
    return Note(context.gateway.revoke(device).get("message") or f"Revoked {device}.")


def _pause(context: Context) -> Note:
    device = read_arguments(context, "pause", ("DEVICE",))["DEVICE"]
    context.gateway.pause(device)
    return Note(f"Paused {device}: its calls are refused until `%suzent resume`.")


def _resume(context: Context) -> Note:
    device = read_arguments(context, "resume", ("DEVICE",))["DEVICE"]
    context.gateway.resume(device)
    return Note(f"{device} may work again.")


def _host_token(context: Context) -> HostToken:
    return context.gateway.host_token(read_arguments(context, "host-token", (), ("NAME",)).get("NAME"))


def _invite(context: Context) -> Invitation:
    return context.gateway.invite(read_arguments(context, "invite", (), ("NAME",)).get("NAME"))


def _codes(mirror: Mirror, words: list[str]) -> list[str]:
    if words:
        return []
    return [
        *(str(item.get("pairing_code", "")) for item in mirror.items("pending")),
        *(str(item.get("code", "")) for item in mirror.items("grants")),
    ]


def _approve_words(mirror: Mirror, words: list[str]) -> list[str]:
    if not words:
        return _codes(mirror, words)
    if words[-1] == "--covers":
        return list(COVERS)
    if words[-1] in ("--for", "--commands") or not any(item.get("code") == words[0] for item in mirror.items("grants")):
        return []
    return [option for option in ("--for", "--commands", "--covers", "--unattended") if option not in words]


def _device_names(mirror: Mirror, words: list[str]) -> list[str]:
    return [] if words else [str(item.get("display_name", "")) for item in mirror.items("devices")]


VERBS = (
    Verb(
        "invite",
        "[NAME]",
        "a pairing link and its QR code, good once; NAME says whom it is for",
        _invite,
        details=(
            "A phone scans the code; a computer takes the link: jupyter suzent node host --url LINK\n"
            "invitation = %suzent invite Bench   gives .link .links .png .expires_at\n"
            "The device still waits for your approval, marked as invited: %suzent pending"
        ),
    ),
    Verb("pending", "", "what waits for approval, as a frame", _pending),
    Verb(
        "approve",
        "CODE [--for 7d] [--commands C] [--covers W] [--unattended]",
        "let in the device, its new commands, or the gateway that shows this code",
        _approve,
        _approve_words,
        details=(
            "The options are for gateways that ask for control (%suzent grants), and narrow what they get:\n"
            "--for 30m, 12h or 7d ends it by itself. --commands camera.*,system.info are all it may call.\n"
            "--covers agent, devices or both. --unattended lets its turns use tools that would otherwise ask."
        ),
    ),
    Verb("deny", "CODE", "turn it away", _deny, _codes),
    Verb("devices", "", "every device and token that was approved, as a frame", _devices),
    Verb(
        "revoke",
        "DEVICE",
        "take a device's or a gateway's approval away; its connection closes at once",
        _revoke,
        _device_names,
    ),
    Verb("pause", "DEVICE", "refuse calls to a device for now", _pause, _device_names),
    Verb("resume", "DEVICE", "let a paused device work again", _resume, _device_names),
    Verb("host-token", "[NAME]", "a token of full authority for a program of your own; `.token` holds it", _host_token),
)
