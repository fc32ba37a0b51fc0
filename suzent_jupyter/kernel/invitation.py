"""An invitation as a notebook and a terminal show it: QR code, link, and what to do with them."""

from __future__ import annotations

import base64
import binascii
from html import escape
from typing import Any

from .plain import one_line
from .show import html_block

Record = dict[str, Any]
_PNG = "data:image/png;base64,"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHARS = 2000


class Invitation:
    """A pairing link that is good once; as the last expression of a cell it shows its QR code.

    Attributes
    ----------
    links : list of dict
        The link for every address of the gateway, best first: ``label``, ``host``, ``gateway_url``, ``pairing_link``.
    name : str
        Whom or what it is for; shown again when the device waits for approval.
    expires_at : str
        UTC, ISO 8601.
    problem : str
        Why other machines can't join; ``""`` if they can.
    """

    def __init__(self, answer: Record) -> None:
        self._answer = answer
        self._links: list[Record] = [item for item in answer.get("links") or () if isinstance(item, dict)]
        self.links = [{key: value for key, value in item.items() if key != "qr"} for item in self._links]
        self.name = one_line(answer.get("name"), 64)
        self.expires_at = one_line(answer.get("expires_at"), 40)
        self.problem = one_line(answer.get("problem"), 1000)
        self.warnings = [one_line(text, 1000) for text in answer.get("warnings") or ()]

    @property
    def link(self) -> str:
        """The pairing link most devices can use; ``""`` where the gateway has no address at all."""
        return self._text(self._best(), "pairing_link")

    @property
    def for_others(self) -> bool:
        """Whether other machines can use it."""
        return bool(self._best().get("qr"))

    @property
    def png(self) -> bytes | None:
        """The QR code of :attr:`link` as a PNG; None where only this machine could use it."""
        text = self._best().get("qr")
        if not isinstance(text, str) or not text.startswith(_PNG):
            return None
        try:
            content = base64.b64decode(text[len(_PNG) :], validate=True)
        except (binascii.Error, ValueError):
            return None
        return content if content.startswith(_SIGNATURE) else None

    def body(self) -> Record:
        """Return the gateway's answer as it came."""
        return self._answer

    def lines(self, invite: str, pending: str, config: str) -> list[str]:
        """Return what to do, a sentence a line, naming the commands of a notebook or of a terminal."""
        if not self.links:
            return [self.problem or "The gateway has no address; is its listener off?"]
        until = self.expires_at[11:16]
        good = f"Good once{f', until {until} UTC' if until else ''}; then `{pending}` shows the device and its code."
        if self.for_others:
            first = "Scan the code with the phone, or on a computer type"
        else:
            first = "Only programs on this machine can use it. Here, type"
        lines = [f"{first}: jupyter suzent node host --url '{self.link}'", good]
        others = [item for item in self._links if item is not self._best() and item.get("qr")]
        lines += [f"{one_line(item.get('label'), 64)}: {self._text(item, 'pairing_link')}" for item in others]
        if self.problem:
            lines.append(self.problem)
        elif not self.for_others and not self.warnings:
            lines.append(f"`{config}` and a restart let other machines in; `{invite}` then shows a QR code.")
        return [*lines, *self.warnings]

    def _best(self) -> Record:
        return next((item for item in self._links if item.get("qr")), self._links[0] if self._links else {})

    @staticmethod
    def _text(item: Record, field: str) -> str:
        return one_line(item.get(field), _CHARS)

    def _magics(self) -> list[str]:
        return self.lines("%suzent invite", "%suzent pending", "%suzent config node_lan_bind true")

    def __repr__(self) -> str:
        return "\n".join([*([self.link] if self.link else []), *self._magics()])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        png = self.png
        whose = f" for {self.name}" if self.name else ""
        parts = [f"<p>{escape(line)}</p>" for line in self._magics()]
        if self.link:
            link = escape(self.link, quote=True)
            parts.insert(0, f'<p><code style="overflow-wrap:anywhere">{link}</code></p>')
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if png is not None:
            content = base64.b64encode(png).decode("ascii")
            alt = escape(f"QR code of the pairing link{whose}", quote=True)
            parts.insert(
                0,
                f'<img alt="{alt}" src="{_PNG}{content}" style="max-width:none">',
            )
            bundle["image/png"] = content
        return {**bundle, "text/html": html_block("".join(parts))}


def shown_addresses(config: Record) -> dict[str, str]:
    """Return the addresses of ``GET /nodes/config`` as label → URL of the device socket."""
    shown: dict[str, str] = {}
    for item in config.get("addresses") or ():
        if isinstance(item, dict):
            label = f"address: {one_line(item.get('label'), 64)}"
            shown[f"{label} {one_line(item.get('host'), 80)}" if label in shown else label] = one_line(
                item.get("gateway_url"), 400
            )
    return shown
