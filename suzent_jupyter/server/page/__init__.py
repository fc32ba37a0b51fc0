"""The browser node: one page, put together once from the files beside this one."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from ..request import Page
from .headers import page_headers

#: The script in the order it is joined; they share one scope, and the last one sets it going.
_SCRIPT = (
    "basics", "kept", "device", "screen", "speech", "consent", "senses", "offers", "views", "calls", "connection",
    "begin",
)  # fmt: skip


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the whole script, in ES2017 and nothing newer, since televisions are slow to learn."""
    return '(function () {\n"use strict";\n\n' + "\n".join(_read(f"script/{name}.js") for name in _SCRIPT) + "})();\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _assembled() -> tuple[bytes, str, str]:
    style, script = _read("node.css"), _script()
    assert "</" not in style + script  # nothing in them may end the element they stand in
    html = _read("node.html").replace("/* style */", style).replace("/* script */", script)
    return html.encode(), _hash(script), _hash(style)


def node_page(scheme: str, host: str, path: str) -> Page:
    """Return the page as it is served at a place; see :func:`.headers.page_headers`."""
    content, script, style = _assembled()
    return Page(content, "text/html; charset=utf-8", page_headers(scheme, host, path, script, style))


_assembled()  # now, while the gateway is loaded off the event loop
