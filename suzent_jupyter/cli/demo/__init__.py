"""``jupyter suzent demo``: JupyterLab, the gateway, two simulated devices and the quickstart, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def demo(
        check: Annotated[bool, typer.Option("--check", help="Do it all without a browser, print it, and end.")] = False,
        browser: Annotated[bool, typer.Option(help="Open JupyterLab in a browser.")] = True,
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="JupyterLab's port; the next free one if taken.")
        ] = 8888,
        directory: Annotated[
            Path | None, typer.Option("--dir", help="Where the notebooks go; a temporary directory otherwise.")
        ] = None,
    ) -> None:
        """Try it: JupyterLab with two simulated devices that wait for approval. Ctrl-C ends it all."""
        from .run import run_demo

        raise typer.Exit(run_demo(check=check, browser=browser, port=port, directory=directory))
