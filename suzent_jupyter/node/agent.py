"""A device whose capability ``agent.run`` is a function that answers prompts."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import ValidationError

from ..protocol.agents import Turn, load_events
from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.files import OCTETS
from ..protocol.function_agent import FunctionAgent
from ..protocol.limits import Limits
from ..protocol.text import clean_text
from .capability import Capability, registry
from .local_file import LocalFile
from .progress import Reporter, current_call
from .results import ResultError
from .signature import ParameterError, read_binary

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTACHMENTS = int(Limits().attachments)
_DESCRIPTION = "Answer a prompt."


class AgentError(ResultError):
    """The agent's function failed, or gave what is no event; ``code`` says which, as the agent did."""


@overload
def agent(function: Function, /) -> Function: ...
@overload
def agent(*, name: str | None = None) -> Callable[[Function], Function]: ...
def agent(function: Any = None, /, *, name: str | None = None) -> Any:
    """Declare a function as this device's agent; it stays an ordinary function, and the newest counts.

    Parameters
    ----------
    name : str, optional
        How failures call it; the function's own name otherwise.

    Raises
    ------
    TypeError, ValueError
        As :class:`~suzent_jupyter.protocol.function_agent.FunctionAgent`.
    """
    if function is None:
        return lambda later: agent(later) if name is None else _declare(later, name)
    return _declare(function, name)


def _declare(function: Any, name: str | None) -> Any:
    registry[AGENT_COMMAND] = agent_capability(function, name)
    return function


_on_device: list[bool] = []


def on_device() -> None:
    """Say that this process is a device: ``suzent_jupyter.agent`` in its modules then declares, and asks no gateway."""
    _on_device.append(True)


def is_device() -> bool:
    """Tell whether :func:`on_device` was called."""
    return bool(_on_device)


def agent_capability(function: Callable[..., Any], name: str | None = None) -> Capability:
    """Return the capability that answers prompts with a function.

    Its parameters are ``message``, which is all that an ordinary caller gives, and the other fields of
    :class:`~suzent_jupyter.protocol.agents.Turn`; its result is the text of the answer. With ``stream`` the events go
    out as they come. Files of the turn lie in a directory of their own until it is over.
    """
    runner = FunctionAgent(function, name)

    async def run(message: str, **more: Any) -> str:
        stream, call = more.pop("stream", False) is True, current_call.get()
        files = more.pop("attachments", None)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="suzent-turn-") if files else ""
        try:
            turn = await asyncio.to_thread(_turn, message, more, files, folder)
            return await _answer(runner, turn, call if stream else None)
        except SuzentError as error:
            raise AgentError(error.message, error.code) from None
        finally:
            if folder:
                asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, folder, True)

    return Capability.of(run, AGENT_COMMAND, runner.description or _DESCRIPTION)


async def _answer(runner: FunctionAgent, turn: Turn, call: Reporter | None) -> str:
    await load_events()
    from ..protocol.events import write_event

    parts: list[str] = []
    async with aclosing(runner.run(turn)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.type == "TEXT_MESSAGE_CONTENT":
                parts.append(event.delta)  # type: ignore[attr-defined]
            elif event.type == "TEXT_MESSAGE_END":
                parts.append("\n\n")
            if call is not None:
                await call.agent_event(write_event(event))
    return "".join(parts).removesuffix("\n\n")


def _turn(message: str, fields: dict[str, Any], files: Any, folder: str) -> Turn:
    """Return the turn that a call's parameters describe; its files are written to ``folder``."""
    fields = {key: value for key, value in fields.items() if value is not None}
    if (files is not None and not isinstance(files, list)) or len(files or ()) > _ATTACHMENTS:
        raise ParameterError(f"Parameter 'attachments' takes a list of at most {_ATTACHMENTS} files.")
    attachments = [_stored(each, number, folder) for number, each in enumerate(files or ())]
    try:
        return Turn.model_validate(
            {"run_id": "", "conversation_id": "", **fields, "message": message, "attachments": attachments}
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ParameterError(f"Parameter '{clean_text(place, 80)}': {first['msg']}.") from None


def _stored(file: Any, number: int, folder: str) -> dict[str, Any]:
    if isinstance(file, LocalFile):
        name, media_type = clean_text(file.get("name"), 128) or "file", clean_text(file.get("media_type"), 128)
        return {"name": name, "media_type": media_type or OCTETS, "size": file["size"], "path": file.file}
    try:
        data = read_binary(file) if isinstance(file, dict) else None
    except ValueError:
        data = None
    if not isinstance(data, bytes):
        raise ParameterError('Parameter \'attachments\' takes a list of {"name", "media_type", "base64"}.')
    name = clean_text(file.get("name"), 128) or "file"
    path = Path(folder) / f"{number}{Path(name).suffix if Path(name).suffix.isascii() else ''}"  # no name of theirs
    path.write_bytes(data)
    media_type = clean_text(file.get("media_type"), 128) or OCTETS
    return {"name": name, "media_type": media_type, "size": len(data), "path": path}
