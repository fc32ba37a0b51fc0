"""Letting devices in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..display import Note
from ..gateway import HostToken
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
    code = read_arguments(context, "approve", ("CODE",))["CODE"]
    return Note(context.gateway.approve(code).get("message") or "Approved.")


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
    return [] if words else [str(item.get("pairing_code", "")) for item in mirror.items("pending")]


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
    Verb("approve", "CODE", "let in the device, or its new commands, that shows this code", _approve, _codes),
    Verb("deny", "CODE", "turn it away", _deny, _codes),
    Verb("devices", "", "every device and token that was approved, as a frame", _devices),
    Verb("revoke", "DEVICE", "take the approval away; the device's connection closes at once", _revoke, _device_names),
    Verb("pause", "DEVICE", "refuse calls to a device for now", _pause, _device_names),
    Verb("resume", "DEVICE", "let a paused device work again", _resume, _device_names),
    Verb("host-token", "[NAME]", "a token of full authority for a program of your own; `.token` holds it", _host_token),
)
