"""JupyterLab in a browser: open a notebook, run all of it, wait until it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import nbformat
from playwright.sync_api import Browser, Page

from .gateways import JupyterServer


def start_lab(start_jupyter: Callable[..., JupyterServer], **options: Any) -> JupyterServer:
    """Start a server whose JupyterLab asks nothing of the network."""
    return start_jupyter("--LabApp.expose_app_in_browser=True", **options)


def write_notebook(server: JupyterServer, name: str, cells: list[str]) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, server.files / name)


def run_notebook(server: JupyterServer, browser: Browser, name: str, watch: Callable[[Page], None]) -> Page:
    """Open a notebook in JupyterLab, run every cell as its reader would, and return the page when all have run."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    watch(page)
    page.goto(f"{server.root_url}lab/tree/{name}?token={server.jupyter_token}")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=90_000)
    page.wait_for_function(
        "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000
    )
    page.set_default_timeout(120_000)
    # Resolves when the last cell has run, or at the first that fails.
    page.evaluate("async () => { await window.jupyterapp.commands.execute('notebook:run-all-cells') }")
    return page


def outputs(page: Page) -> list[dict[str, Any]]:
    """Return every output of the notebook shown."""
    text = page.evaluate(
        """() => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
                .flatMap(c => c.toJSON().outputs || []))"""
    )
    found: list[dict[str, Any]] = json.loads(text)
    return found
