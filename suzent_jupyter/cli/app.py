"""The command tree: each module of this package adds its own commands."""

import typer

from . import conformance, demo, devices, gateway, host

app = typer.Typer(
    name="jupyter suzent",
    help="The gateway your devices join, and the devices, from a terminal.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
node = typer.Typer(help="List, approve, invoke and host nodes.", no_args_is_help=True)
app.add_typer(node, name="node")

for module in (devices, host, demo, gateway, conformance):
    module.register(app, node)
