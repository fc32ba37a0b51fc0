"""A peer's answer as JupyterLab draws it: the tools fold above, the text stands below, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page
from support.gateways import JupyterServer
from support.lab import run_notebook, start_lab, write_notebook
from support.played_gateway import PlayedGateway, TurnHandler

from .test_hostile_output import BEACON, MARK, MARKDOWN, SCRIPT, SVG


async def hostile(turn: TurnHandler, body: dict[str, Any]) -> None:
    await turn.started()
    await turn.text("Let me see.")
    await turn.event("TOOL_CALL_START", toolCallId="t", toolCallName="snap" + SCRIPT)
    await turn.event("TOOL_CALL_ARGS", toolCallId="t", delta=SVG)
    await turn.event("TOOL_CALL_RESULT", toolCallId="t", content=MARKDOWN)
    for char in f"## Found\n\n{MARKDOWN}\n\n{SVG}\n\nThe end.":  # every length of it is drawn at some time
        await turn.text(char, message="m2")
    if "fail" in body["prompt"]:
        await turn.event("RUN_ERROR", message=SCRIPT + MARKDOWN, code="agent_failed")
    else:
        await turn.finished()


@pytest.fixture
def played() -> Iterator[PlayedGateway]:
    gateway = PlayedGateway()
    yield gateway
    gateway.stop()


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_a_streamed_answer(
    start_jupyter: Callable[..., JupyterServer], browser: Browser, played: PlayedGateway
) -> None:
    server = start_lab(start_jupyter)
    played.add_peer("Evil " + SCRIPT, hostile, peer_id="evil")
    cells = [
        "%load_ext suzent_jupyter",
        f"%suzent use {played.url} --token {played.token}",
        "%suzent trigger evil Hello?",
        "%suzent peers",
        "%suzent trigger evil please fail",
    ]
    write_notebook(server, "answer.ipynb", cells)
    asked: list[str] = []

    def watch(page: Page) -> None:
        page.on("request", lambda request: asked.append(request.url))

    page = run_notebook(server, browser, "answer.ipynb", watch)
    areas = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea-output")
    areas.nth(1).locator("h2").wait_for(state="attached")
    assert areas.nth(0).locator("summary").first.inner_text().startswith("1 tool call")
    assert "Found" in areas.nth(1).locator("h2").inner_text()
    assert "The end." in areas.nth(1).inner_text()
    assert areas.nth(2).inner_text().startswith("<Answer of Evil")
    error = page.locator(".jp-CodeCell").nth(4).locator(".jp-OutputArea-output").last
    assert error.inner_text().strip().count("\n") == 0
    for link in page.locator(".jp-OutputArea-output:is(.jp-RenderedMarkdown, .jp-RenderedHTMLCommon) a").all():
        assert urlsplit(link.get_attribute("href") or "").scheme in ("", "http", "https", "mailto")
    assert page.evaluate(f"window.{MARK}") is None
    assert not [url for url in asked if url.startswith(BEACON)]
    assert page.locator(".jp-OutputArea-output :is(script, iframe, [onload], [onerror], svg image)").count() == 0
