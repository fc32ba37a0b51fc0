"""Whatever a device says, in outputs of cells that were run in JupyterLab: nothing runs and nothing is fetched."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page
from support.device import BareDevice
from support.gateways import JupyterServer
from support.lab import outputs, run_notebook, start_lab, write_notebook

MARK = "pwned"
BEACON = "http://203.0.113.9/beacon"
SCRIPT = f'<img src={BEACON}/1.png onerror="window.{MARK}=1"><script>window.{MARK}=2</script>'
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="window.{MARK}=3"><image href="{BEACON}/2.svg"/></svg>'
MARKDOWN = (
    f"![x]({BEACON}/3.png) [click](javascript:window.{MARK}=4) "
    f"[data](data:text/html,<script>window.{MARK}=5</script>)\n\n{SCRIPT}\n\n"
    f"[ref]\n\n[ref]: javascript:window.{MARK}=6\n\n<{BEACON}/4>\n\n$\\href{{javascript:window.{MARK}=7}}{{x}}$\n\n"
    f"<style>@import url({BEACON}/5.css)</style><iframe src={BEACON}/6></iframe>"
    f"<a href=javascript:window.{MARK}=8>a</a>"
)
ANSI = "\x1b]8;;javascript:1\x07link\x1b]8;;\x07\x1b[31mred\u202e\u2066evil"


def binary(media_type: str, text: str) -> dict[str, str]:
    return {"media_type": media_type, "base64": base64.b64encode(text.encode()).decode(), "name": "../../x.html"}


ANSWERS: dict[str, Any] = {
    "text": MARKDOWN,
    "html": binary("text/html", SCRIPT),
    "svg": binary("image/svg+xml", SVG),
    "fake.png": binary("image/png", SVG),
    "markdown": binary("text/markdown", MARKDOWN),
    "javascript": binary("application/javascript", f"window.{MARK}=9"),
    "bundle": {"text/html": SCRIPT, "application/javascript": f"window.{MARK}=10", "_repr_html_": SCRIPT},
    "table": [{SCRIPT: SCRIPT, "b": MARKDOWN}, {SCRIPT: ANSI, "b": SVG}],
    "ansi": ANSI,
}


class HostileDevice(threading.Thread):
    """Joins under a hostile name, and answers with hostile things, from a thread of its own."""

    def __init__(self, server: JupyterServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.ready = threading.Event()
        self.done: Callable[[], None] = lambda: None
        self.start()
        assert self.ready.wait(30)

    def run(self) -> None:
        asyncio.run(self.work())

    async def work(self) -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.done = lambda: loop.call_soon_threadsafe(over.set)
        capabilities = [
            {"name": name, "description": MARKDOWN, "params_schema": {SCRIPT: MARKDOWN, "p": SVG}} for name in ANSWERS
        ]
        hello = {"description": MARKDOWN, "tags": [SCRIPT], "platform": SCRIPT}
        async with (
            BareDevice(self.server.node_url, "Evil " + SCRIPT, capabilities, **hello) as device,
            BareDevice(self.server.node_url, SVG, capabilities, **hello) as waiting,
        ):
            await waiting.code()
            await self.server.pair(device)

            def answer(command: str, params: dict[str, Any]) -> Any:
                if params.get("fail"):
                    raise RuntimeError(MARKDOWN + SCRIPT + ANSI)
                return ANSWERS[command]

            device.answer(answer)
            self.ready.set()
            await over.wait()


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_nothing_runs_and_nothing_is_fetched(start_jupyter: Callable[..., JupyterServer], browser: Browser) -> None:
    server = start_lab(start_jupyter)
    device = HostileDevice(server)
    shown = [
        "%load_ext suzent_jupyter\nimport suzent_jupyter as sz\ngw = sz.connect()",
        "node = next(iter(gw))\nname = node.id",
        "%suzent",
        "%suzent list",
        "%suzent pending",
        "%suzent devices",
        "%suzent audit",
        "node",
        "get_ipython().run_line_magic('suzent', f'describe {name}')",
        "gw.capabilities",
        *(f"result = gw.invoke(name, {command!r})\nresult" for command in ANSWERS),
        *(f"gw.invoke(name, {command!r}).data" for command in ANSWERS),
        "gw.invoke(name, 'table').frame",
        "result = gw.invoke(name, 'text', {'fail': True})\nresult",
        "try:\n    result.data\nexcept sz.SuzentError as error:\n    print(error)\n    display(error)",
        "from suzent_jupyter.kernel.render import safe_markdown\nfrom IPython.display import Markdown\n"
        "Markdown(safe_markdown(gw.invoke(name, 'text').data))",
        "get_ipython().run_line_magic('suzent', f'invoke {name} text fail=true')",
    ]
    write_notebook(server, "hostile.ipynb", shown)
    asked: list[str] = []
    dialogs: list[str] = []

    def watch(page: Page) -> None:
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

    try:
        page = run_notebook(server, browser, "hostile.ipynb", watch)
        found = outputs(page)
        assert len(found) >= len(shown) - 2
        # JupyterLab makes links of data: URLs in plain text by itself; no browser follows them at the top level.
        links = page.locator(".jp-OutputArea-output:is(.jp-RenderedMarkdown, .jp-RenderedHTMLCommon) a")
        links.first.wait_for(state="attached")  # Markdown is rendered some time after its cell has run
        rendered = links.all()
        assert rendered
        for link in rendered:
            assert urlsplit(link.get_attribute("href") or "").scheme in ("", "http", "https", "mailto")
        for link in page.locator(".jp-OutputArea-output a").all():
            assert urlsplit(link.get_attribute("href") or "").scheme not in ("javascript", "vbscript", "file")
        assert page.evaluate(f"window.{MARK}") is None
        assert (
            page.locator(
                ".jp-OutputArea-output :is(script, iframe, [onload], [onerror], svg image, img:not([src^=data]))"
            ).count()
            == 0
        )
        types = {kind for output in found for kind in output.get("data", {})}
        assert types <= {"text/plain", "text/html", "text/markdown", "application/json"}
        assert [url for url in asked if urlsplit(url).hostname not in ("127.0.0.1", "localhost", None, "")] == []
        assert dialogs == []
        # ensure_ascii=False: the characters themselves, not the harmless escapes that repr() makes of them.
        text = json.dumps(found, ensure_ascii=False)
        assert "\\u001b]8" not in text
        assert "\u202e" not in text
    finally:
        device.done()
