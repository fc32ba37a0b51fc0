"""``jupyter suzent gateway``: the gateway without a Jupyter server."""

from __future__ import annotations

import typer


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
        add_help_option=False,
    )
    def gateway(context: typer.Context) -> None:
        """Run the gateway alone, without a Jupyter server. `--port`, `--data-dir`, `--lan`, `--SuzentApp.…`."""
        from ..server.standalone import StandaloneGateway

        StandaloneGateway.launch_instance(argv=context.args)
