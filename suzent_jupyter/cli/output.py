"""How the command line speaks: tables or JSON on stdout; one line on stderr and an exit status when it failed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from ..kernel.errors import UsageError
from ..kernel.plain import one_line, table
from ..protocol.errors import SuzentError


def say(text: str) -> None:
    """Print text on stdout, whatever its encoding can carry."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def say_aside(text: str) -> None:
    """Print a line on stderr, beside the answer."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(_terminal(one_line(text, 1500)).encode(encoding, "replace").decode(encoding) + "\n")


def say_json(body: Any) -> None:
    """Print JSON; ASCII, so that it survives any pipe."""
    say(json.dumps(body, indent=2 if sys.stdout.isatty() else None))


def say_table(rows: list[dict[str, Any]], columns: list[str], empty: str) -> None:
    """Print rows as aligned columns, or one sentence if there are none."""
    say(table(rows, columns) if rows else empty)


def fail(message: str, status: int = 1) -> NoReturn:
    """Print one line on stderr and exit."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(f"Error: {one_line(message, 1500)}".encode(encoding, "replace").decode(encoding) + "\n")
    raise typer.Exit(status)


@contextmanager
def reporting() -> Iterator[None]:
    """Turn failures into one line on stderr and exit status 1 (2 for a wrong command line, 130 when interrupted)."""
    try:
        yield
        sys.stdout.flush()
    except UsageError as error:
        fail(_terminal(str(error)), 2)
    except SuzentError as error:
        fail(_terminal(error.sentences))
    except BrokenPipeError:
        # The reader of our pipe has gone (`| head`): nothing is left to say, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except FileExistsError as error:
        fail(f"{error.filename} exists already; choose another name for --output.")
    except OSError as error:
        fail(f"{error.filename or 'Writing'}: {error.strerror or error}.")
    except KeyboardInterrupt:
        fail("Interrupted.", 130)


_COMMANDS = {
    "%suzent list": "jupyter suzent node list",
    "%suzent config": "jupyter suzent config set",
    "%suzent host-token": "jupyter suzent host-token",
    "%suzent audit": "jupyter suzent audit",
    "%suzent invite": "jupyter suzent invite",
    "%suzent control ": "jupyter suzent control ask ",
    "%suzent grants": "jupyter suzent control list",
    "%suzent mode": "jupyter suzent peer mode",
    "%suzent reverse": "jupyter suzent peer reverse",
    "%suzent remove": "jupyter suzent peer remove",
    "%suzent peers": "jupyter suzent peers",
    "%suzent trigger": "jupyter suzent trigger",
    "%suzent route": "jupyter suzent route",
    "%suzent chat": "jupyter suzent chat",
    "%suzent scope": "jupyter suzent scope",
    "%suzent conversations": "jupyter suzent conversations",
    "%suzent memory": "jupyter suzent memory",
    "%suzent unauthorized": "jupyter suzent unauthorized",
    "%suzent permissions": "jupyter suzent permissions",
    "%suzent answer": "jupyter suzent answer",
    "%suzent use URL --token T": "--url URL --token T",
    "%suzent use URL": "--url URL",
    "%suzent ": "jupyter suzent node ",
}


def _terminal(text: str) -> str:
    """Name the commands of a terminal where a hint names those of a notebook."""
    for magic, command in _COMMANDS.items():
        text = text.replace(magic, command)
    return text
