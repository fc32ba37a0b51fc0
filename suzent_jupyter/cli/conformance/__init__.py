"""The conformance kit: which rules of the device protocol the other side keeps."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer


def register(app: typer.Typer, node: typer.Typer) -> None:
    """Add ``jupyter suzent conformance``."""

    @app.command("conformance")
    def conformance(
        url: Annotated[str, typer.Argument(help="Gateway to look at; SUZENT_BASE_URL otherwise.")] = "",
        as_node: Annotated[
            bool, typer.Option("--node", help="Look at a device instead: play a gateway for it.")
        ] = False,
        token: Annotated[
            str, typer.Option(help="Token of full authority, to approve and invoke; your own gateway's is known.")
        ] = "",
        base_url: Annotated[str, typer.Option(help="Where the REST routes are, if not beside the socket.")] = "",
        host: Annotated[str, typer.Option(help="Address to listen on, with --node.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="Port to listen on, with --node; 0 is any free one.")] = 0,
        wait: Annotated[float, typer.Option(help="Seconds to wait for the device, with --node.")] = 60.0,
        command: Annotated[str, typer.Option(help="A command of the device that may be called.")] = "",
        params: Annotated[str, typer.Option(help="Its parameters, a JSON object.")] = "{}",
        slow_command: Annotated[str, typer.Option(help="A command that takes two seconds or more.")] = "",
        slow_params: Annotated[str, typer.Option(help="Its parameters, a JSON object.")] = "{}",
        slow: Annotated[bool, typer.Option("--slow", help="Look at rules that take long, too.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Print which rules of the device protocol a gateway (or, with --node, a device) keeps.

        Ends with 0 if no rule that must be kept is broken, 1 if one is, 2 if there is nobody to look at.
        """
        from . import report
        from .rules import RuleResult, Unreachable
        from .run import run_against_gateway, run_against_node

        def show(result: RuleResult) -> None:
            if not as_json:
                print(report.as_line(result), flush=True)

        def listening(at: str) -> None:
            typer.echo(f"Waiting for a device at {at}", err=as_json)

        try:
            if as_node:
                run: Any = run_against_node(
                    host=host,
                    port=port,
                    wait=wait,
                    on_listening=listening,
                    on_result=show,
                    slow=slow,
                    command=command,
                    params=_object(params, "--params"),
                    slow_command=slow_command,
                    slow_params=_object(slow_params, "--slow-params"),
                )
            else:
                run = run_against_gateway(url, base_url or None, token or None, slow=slow, on_result=show)
            results = asyncio.run(run)
        except (Unreachable, OSError, ValueError) as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        print(report.as_json(results) if as_json else f"\n{report.summary(results)}")
        raise typer.Exit(0 if report.passed(results) else 1)


def _object(text: str, option: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise typer.BadParameter("give a JSON object", param_hint=option)
    return value
