"""``screen.notify``: a notification on the desktop of this machine."""

from __future__ import annotations

import asyncio
import html
import os
import shutil
import sys
from typing import Annotated, Any

from pydantic import Field

from ...protocol.text import clean_text
from ..capability import Capability
from .commands import powershell, run_program

_PATIENCE = 10.0  # seconds
_APPLESCRIPT = (
    "on run argv",
    "display notification (item 3 of argv) with title (item 2 of argv)",
    "end run",
)
_TOAST = (
    "[Windows.UI.Notifications.ToastNotificationManager,Windows.UI.Notifications,ContentType=WindowsRuntime] > $null; "
    "$x = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent(1); "
    "$t = $x.GetElementsByTagName('text'); "
    "$t.Item(0).AppendChild($x.CreateTextNode($env:SUZENT_TITLE)) > $null; "
    "$t.Item(1).AppendChild($x.CreateTextNode($env:SUZENT_MESSAGE)) > $null; "
    "[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier('Suzent').Show("
    "[Windows.UI.Notifications.ToastNotification]::new($x))"
)


async def notify(
    message: Annotated[str, Field(min_length=1, max_length=2000)],
    title: Annotated[str, Field(max_length=200)] = "Suzent",
) -> dict[str, Any]:
    """Show a notification on the screen of this machine.

    Parameters
    ----------
    message : str
        The text.
    title : str
        The line above it.
    """
    program = _program()
    if program is None:
        raise RuntimeError("This machine has no desktop to notify.")
    title, message = clean_text(title, 200) or "Suzent", clean_text(message, 2000)
    environment = {"SUZENT_TITLE": title, "SUZENT_MESSAGE": message}
    async with asyncio.timeout(_PATIENCE):
        status, complaint = await run_program(_command(program, title, message), environment=environment)
    if status:
        reason = (complaint.splitlines() or ["no reason given"])[-1]
        raise RuntimeError(f"The desktop did not take the notification: {reason}")
    return {"shown": True}


def _command(program: str, title: str, message: str) -> list[str]:
    if program == "osascript":
        # The word before title and message ends its options, so that neither can be one.
        return ["osascript", *(part for line in _APPLESCRIPT for part in ("-e", line)), "notify", title, message]
    if program == "powershell":
        return powershell(_TOAST)
    # Notification servers read the body as markup: links and images of a stranger are shown as text.
    return ["notify-send", "--app-name=Suzent", "--", title, html.escape(message)]


def _program() -> str | None:
    if sys.platform == "darwin":
        return shutil.which("osascript") and "osascript"
    if sys.platform == "win32":
        return shutil.which("powershell") and "powershell"
    desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"))
    return "notify-send" if desktop and shutil.which("notify-send") else None


def find() -> Capability | None:
    """Return the capability where there is a desktop."""
    return Capability.of(notify, "screen.notify") if _program() else None
