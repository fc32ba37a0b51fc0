"""What verbs return beside frames and results: facts, notes and the status, as text and as escaped HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from .plain import one_line, table
from .show import html_block, html_table


class Facts(dict[str, Any]):
    """A dictionary that shows itself as two columns; dictionaries in it a line for each of their keys."""

    def _rows(self) -> list[dict[str, Any]]:
        lines: list[tuple[str, Any]] = []
        for item in self.items():
            lines += item[1].items() if isinstance(item[1], dict) else [item]
        return [{"setting": key, "value": _value(value)} for key, value in lines]

    def __repr__(self) -> str:
        return table(self._rows(), ["setting", "value"], width=100)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": html_block(html_table(self._rows(), ["setting", "value"]))}


class Config(Facts):
    """The gateway's configuration; its addresses show as a line each, without the QR codes they carry."""

    def _rows(self) -> list[dict[str, Any]]:
        from .invitation import shown_addresses

        return Facts({name: shown_addresses(self) if name == "addresses" else self[name] for name in self})._rows()


class Note(str):
    """One sentence about what was done; text that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return one_line(str(self), 2000)


class Page(str):
    """Several lines of text of ours, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Bundle:
    """Something with its own MIME bundle; ``data`` is what it shows."""

    def __init__(self, bundle: dict[str, Any], data: Any) -> None:
        self._bundle = bundle
        self.data = data

    def __repr__(self) -> str:
        return str(self._bundle["text/plain"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self._bundle


class Status:
    """How things stand, and the next useful thing to type.

    Attributes
    ----------
    nodes, pending : list of dict
        The gateway's own records.
    enabled : bool
        Whether it accepts nodes at all.
    grants, peers : list of dict
        Requests for control that wait, and the peers as they were last heard of.
    permissions : list of dict
        What waits for your permission, as it was last heard of.
    """

    def __init__(
        self,
        url: str,
        nodes: list[dict[str, Any]],
        pending: list[dict[str, Any]],
        enabled: bool = True,
        grants: Sequence[dict[str, Any]] = (),
        peers: Sequence[dict[str, Any]] = (),
        permissions: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.url = url
        self.nodes = nodes
        self.pending = pending
        self.enabled = enabled
        self.grants = list(grants)
        self.peers = list(peers)
        self.permissions = list(permissions)

    def _lines(self) -> list[str]:
        count = f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'} connected"
        lines = [f"Gateway {self.url}: {count}, {len(self.pending)} waiting for approval."]
        lines += [
            f"  {one_line(node.get('display_name'), 64)} ({one_line(node.get('platform'), 64)})"
            for node in self.nodes[:8]
        ]
        if len(self.nodes) > 8:
            lines.append(f"  … and {len(self.nodes) - 8} more: %suzent list")
        if self.grants:
            names = ", ".join(one_line(item.get("controller_name"), 64) or "?" for item in self.grants[:4])
            more = f" and {len(self.grants) - 4} more" if len(self.grants) > 4 else ""
            lines.append(f"Waiting for control of this gateway: {names}{more}.")
        if self.permissions:
            tools = ", ".join(one_line(item.get("tool"), 64) for item in self.permissions[:4])
            more = f" and {len(self.permissions) - 4} more" if len(self.permissions) > 4 else ""
            lines.append(f"Waiting for your permission: {tools}{more}.")
        if self.peers:
            names = ", ".join(_peer(item) for item in self.peers[:8])
            more = f" and {len(self.peers) - 8} more" if len(self.peers) > 8 else ""
            lines.append(f"Peers: {names}{more}.")
        return lines

    def _next(self) -> tuple[str, str]:
        from .values import quote, typed_code

        if not self.enabled:
            return "%suzent config nodes_enabled true", "nodes are switched off; this lets them in again"
        if self.permissions:
            return "%suzent permissions", "shows what would run, and how to answer"
        if self.pending:
            first = self.pending[0]
            name, code = one_line(first.get("display_name"), 64), one_line(first.get("pairing_code"), 16)
            return f"%suzent approve {code}", f"lets {name} in; %suzent pending shows all that wait"
        if self.grants:
            name = one_line(self.grants[0].get("controller_name"), 64) or "the other gateway"
            code = one_line(self.grants[0].get("code"), 16)
            return (
                f"%suzent approve {typed_code(code)}",
                f"gives {name} control of this gateway; %suzent grants says more",
            )
        if self.nodes:
            name = quote(one_line(self.nodes[0].get("display_name"), 64))
            return f"%suzent describe {name}", "shows what it can do"
        driven = [item for item in self.peers if item.get("mode") == "trigger" and item.get("base_url")]
        revoked = [item for item in driven if item.get("outbound_status") == "revoked"]
        driven = [item for item in driven if item.get("outbound_status") not in ("revoked", "offline")]
        if revoked and not driven:
            name = quote(one_line(revoked[0].get("name"), 64))
            return f"%suzent control {name}", "asks it for control again"
        if driven:
            name = quote(one_line(driven[0].get("name"), 64))
            return f"%suzent trigger {name} How are you?", "gives its agent a prompt"
        return f"jupyter suzent node host --url {self.url}", "in a terminal, makes that computer a node"

    def __repr__(self) -> str:
        command, why = self._next()
        return "\n".join([*self._lines(), f"Next: {command}  ({why})"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        command, why = self._next()
        lines = "<br>".join(escape(line).replace("  ", "&nbsp;&nbsp;", 1) for line in self._lines())
        return {
            "text/plain": repr(self),
            "text/html": html_block(f"<p>{lines}</p><p>Next: <code>{escape(command)}</code> ({escape(why)})</p>"),
        }


def _peer(item: dict[str, Any]) -> str:
    """Return a peer's name, and what keeps it from being driven, if anything does."""
    name, status, mode = one_line(item.get("name"), 64), item.get("outbound_status"), item.get("mode")
    if not item.get("base_url"):
        return name
    if mode == "paused" or (mode == "off" and status != "none"):
        return f"{name} ({mode})"
    return f"{name} ({status})" if status in ("revoked", "offline") else name


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 1000)
