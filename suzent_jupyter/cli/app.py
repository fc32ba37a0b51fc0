"""The command tree: each module of this package adds its own commands."""

from typing import Annotated

import typer

from .._version import __version__
from . import (
    conformance,
    control,
    conversations,
    demo,
    devices,
    discover,
    gateway,
    host,
    invite,
    joins,
    memory,
    peers,
    permissions,
    route,
    trigger,
)

app = typer.Typer(
    name="jupyter suzent",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
node = typer.Typer(help="List, approve, invoke and host nodes.", no_args_is_help=True)
app.add_typer(node, name="node")
app.add_typer(node, name="nodes", hidden=True)  # as Suzent calls it


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"suzent-jupyter {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The gateway your devices join, and the devices, from a terminal."""


for module in (
    devices,
    invite,
    discover,
    joins,
    control,
    peers,
    permissions,
    trigger,
    route,
    conversations,
    memory,
    host,
    demo,
    gateway,
    conformance,
):
    module.register(app, node)
