"""What the commands share: their options, the gateway they speak to, and one shape for lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import reporting, say, say_json, say_table

if TYPE_CHECKING:
    from ..kernel.gateway import Gateway

Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="The gateway, such as http://127.0.0.1:25314. Default: SUZENT_BASE_URL, else the running one."
    ),
]
Token = Annotated[
    str | None, typer.Option("--token", help="Its token. Default: SUZENT_TOKEN or the running gateway's.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the gateway's answer as JSON.")]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Parameters; values are JSON where they parse, else text."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds; 30 by default, 600 at most.")]
Code = Annotated[str, typer.Argument(help="The code that is shown on both sides.")]
Cell = Callable[[dict[str, Any]], Any]


@contextmanager
def connected(url: str | None, token: str | None) -> Iterator[Gateway]:
    """Give the gateway of a command; what fails inside is said in one line."""
    from ..kernel.gateway import Gateway

    with reporting(), Gateway(url, token) as gateway:
        yield gateway


def done(body: dict[str, Any], otherwise: str, json: bool) -> None:
    """Print the gateway's word that something is done."""
    if json:
        say_json(body)
    else:
        from ..kernel.plain import one_line

        say(one_line(body.get("message")) or otherwise)


@dataclass(frozen=True)
class Listing:
    """A list of the gateway's, and how a terminal shows it.

    Attributes
    ----------
    path, key : str
        The route, and the field of its answer that holds the list.
    columns : str
        What is shown, in order, with blanks between.
    empty : str
        Said where there is nothing.
    cells : dict
        Columns that show something else than the field of their name.
    """

    path: str
    key: str
    columns: str
    empty: str
    cells: dict[str, Cell] = field(default_factory=dict)

    def show(self, body: dict[str, Any], json: bool) -> None:
        """Print an answer of the route."""
        if json:
            say_json(body)
            return
        columns = self.columns.split()
        cells = {name: cell for name, cell in (_CELLS | self.cells).items() if name in columns}
        say_table(
            [item | {name: cell(item) for name, cell in cells.items()} for item in body[self.key]], columns, self.empty
        )

    def command(self, text: str) -> Callable[..., None]:
        """Return the command that prints it; ``text`` is its help."""

        def listed(url: Url = None, token: Token = None, json: Json = False) -> None:
            with connected(url, token) as gateway:
                self.show(gateway.get(self.path), json)

        listed.__doc__ = text
        return listed


def yes_no(name: str) -> Cell:
    """Return a cell that shows a field as a word."""
    return lambda item: "yes" if item.get(name) else "no"


def _names(capabilities: Any) -> str:
    return ", ".join(str(item.get("name", "")) for item in capabilities or ())


_CELLS: dict[str, Cell] = {
    "name": lambda item: item.get("name", item.get("display_name")),
    "node": lambda item: item.get("node", item.get("display_name")),
    "device": lambda item: item.get("display_name"),
    "code": lambda item: item.get("code", item.get("pairing_code")),
    "connected": yes_no("connected"),
}


def commands(item: dict[str, Any]) -> str:
    """Show the names of a node's commands."""
    return _names(item.get("capabilities"))
