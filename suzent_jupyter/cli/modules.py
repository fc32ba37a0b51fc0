"""Programs of the user's that the command line loads: files with capabilities or an agent in them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

_AGENT_NAMES = ("agent", "answer")


def load(module: str) -> ModuleType:
    """Import a file or a dotted name; whatever its code raises is told in one line."""
    path = Path(module)
    try:
        if path.suffix == ".py" or path.exists():
            name = f"suzent_capabilities_{path.stem}"  # a file named json.py must not become everybody's json
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{path} is no Python file")
            made = importlib.util.module_from_spec(spec)
            sys.modules[name] = made
            sys.path.insert(0, str(path.resolve().parent))
            spec.loader.exec_module(made)
            return made
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise failed(f"{module} can't be loaded: {type(error).__name__}: {reason}".rstrip(": ")) from None


def load_agent(place: str) -> Callable[..., Any] | None:
    """Load ``FILE`` or ``FILE:NAME`` and return the function that answers prompts; None where ``@agent`` declared it.

    Without a name and an ``@agent`` it is the function called ``agent`` or ``answer``, else the only one in the file.
    """
    from ..node.capability import registry
    from ..protocol.device import AGENT_COMMAND

    module, name = _parts(place)
    before = registry.get(AGENT_COMMAND)
    made = load(module)
    if name:
        found = getattr(made, name, None)
        if not callable(found):
            raise failed(f"{module} has no function '{name}'.")
        return found  # type: ignore[no-any-return]
    if registry.get(AGENT_COMMAND) is not before:
        return None
    own = {
        key: each
        for key, each in vars(made).items()
        if inspect.isfunction(each) and each.__module__ == made.__name__ and not key.startswith("_")
    }
    for wanted in _AGENT_NAMES:
        if wanted in own:
            return own[wanted]
    if len(own) != 1:
        raise failed(
            f"{module} has no agent: put @agent above its function, call it 'answer', or name it: --agent {module}:NAME"
        )
    return next(iter(own.values()))


def failed(message: str) -> typer.Exit:
    """Say why a command can't go on, and return what ends it."""
    typer.echo(f"Error: {message}", err=True)
    return typer.Exit(1)


def _parts(place: str) -> tuple[str, str]:
    module, colon, name = place.rpartition(":")
    # A drive letter is no file, and a path no name.
    return (module, name) if colon and len(module) > 1 and name.isidentifier() else (place, "")
