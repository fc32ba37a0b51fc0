"""A pairing link and its QR code in the terminal."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from .common import Json, Token, Url, connected
from .output import say, say_json


def register(app: typer.Typer, _node: typer.Typer) -> None:
    """Add the command."""
    app.command("invite")(invite)


def invite(
    name: Annotated[str | None, typer.Argument(help="Whom or what it is for; shown when the device waits.")] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Invite a device: a pairing link, good once, and its QR code. You still approve the device."""
    with connected(url, token) as gateway:
        invitation = gateway.invite(name)
        if json:
            say_json(invitation.body())
            return
        if invitation.for_others:
            say(qr_text(invitation.link))
        if invitation.link:
            say(invitation.link)
        lines = invitation.lines(
            "jupyter suzent invite", "jupyter suzent node pending", "jupyter suzent config set node_lan_bind true"
        )
        say("\n".join(lines))


def qr_text(link: str) -> str:
    """Return the QR code of a link in characters, light ones on dark; half blocks where the output can carry them."""
    import segno

    code = segno.make_qr(link, error="m", boost_error=False)
    try:
        "▀▄█".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = "\n".join("".join("  " if dark else "##" for dark in row) for row in code.matrix_iter(border=4))
    else:
        lines = io.StringIO()
        code.terminal(lines, border=4, compact=True)
        text = lines.getvalue().rstrip("\n")
    if not sys.stdout.isatty():
        return text
    # On a light terminal it would come out inverted, which many phones don't read: say both colours.
    return "\n".join(f"\x1b[97;40m{line}\x1b[0m" for line in text.splitlines())
