"""The result of a call on a terminal, or in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import say, say_json

if TYPE_CHECKING:
    from ..kernel.results import Result

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the image, sound, file or data to this file.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file of --output if it exists.")]


def show(result: Result, output: Path | None, overwrite: bool, json: bool) -> None:
    """Print a result or write it to a file; a failure of the device is raised."""
    if json:
        say_json(result.body())
    result.check()
    if output is not None:
        path = result.save(output, overwrite=overwrite)
        if not json:
            others = f", the first of {count} parts" if (count := len(result.binaries)) > 1 else ""
            say(f"Wrote {path} ({path.stat().st_size} bytes{others}).")
    elif not json:
        say(result.text)
        if result.binaries and sys.stdout.isatty():
            sys.stderr.write("--output FILE writes it to a file.\n")
