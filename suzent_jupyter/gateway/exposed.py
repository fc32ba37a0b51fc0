"""Photos that a device leaves as a file on this machine: made into references that the calling peer can fetch.

Suzent's nodes answer ``camera.snap`` with a path. Whoever answers chooses that path, so a device could name any file,
and have the gateway hand it out. Hence a file is exposed only where everything agrees:

- the command is ``camera.snap``, and the device is connected from this machine itself, with no proxy between;
- the file lies in this user's or the system's directory of temporary files, links resolved, and belongs to this user;
- it was written during the call;
- it is a PNG or JPEG by its name and by its first bytes.

Otherwise the path goes, since it tells a peer about this machine, and ``file_error`` stands in its place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol.errors import SuzentError
from ..protocol.files import photo_type
from ..protocol.wire import CallFrame, Raw, decode, encode_ascii
from .calls import Outcome
from .peer_files import FileOnDisk
from .principals import Principal

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_COMMAND = "camera.snap"
_SUFFIXES = (".png", ".jpg", ".jpeg")
_NAMED_BYTES = 64 * 1024  # an answer that names a file; one that holds it is passed on unread
_CLOCK_SLACK = 2.0  # seconds by which file systems round
_WHY = "The file was made, but it can't be handed out from here."


async def expose_files(
    gateway: Gateway, principal: Principal, call: CallFrame, outcome: Outcome, started: float
) -> Outcome:
    """Return what a peer is told of a call's outcome.

    Parameters
    ----------
    gateway : Gateway
        Whose node was called.
    principal : Principal
        The peer; the file is for its grant alone.
    call : CallFrame
        What was called, and on which node.
    outcome : Outcome
        What the node answered.
    started : float
        When the call began, as :func:`time.time` has it.
    """
    if not outcome.success or call.command != _COMMAND or len(memoryview(outcome.result)) > _NAMED_BYTES:
        return outcome
    try:
        result = decode(bytes(outcome.result))
    except SuzentError:
        return outcome
    if not isinstance(result, dict) or not isinstance(result.get("file"), str):
        return outcome
    path = result.pop("file")
    try:
        if not _is_here(gateway, principal, call):
            raise PermissionError("its device is not on this machine")
        file, media_type = await asyncio.to_thread(_photo, path, started)
        offer = gateway.peer_files.offer(
            file,
            account=principal.account,
            device_id=principal.credential_id,
            name=file.path.name,
            media_type=media_type,
        )
        result["file"] = offer.reference().model_dump(exclude_none=True)
    except (OSError, ValueError) as error:
        log.info("A photo is not handed out to a peer: %s", error if isinstance(error, PermissionError) else "no photo")
        result["file_error"] = _WHY
    return Outcome(True, Raw(encode_ascii(result)), outcome.error, True)


def _is_here(gateway: Gateway, principal: Principal, call: CallFrame) -> bool:
    try:
        return gateway.registry.find(principal, call.node).transport.local
    except SuzentError:
        return False  # gone by now


def _photo(named: str, started: float) -> tuple[FileOnDisk, str]:
    """Return the photo and its media type; OSError or ValueError if it is none. Blocks."""
    path = Path(named)
    if not path.is_absolute() or path.suffix.lower() not in _SUFFIXES:
        raise ValueError("no photo by its name")
    found = FileOnDisk.look(path)
    if not found.path.is_relative_to(Path(tempfile.gettempdir()).resolve(strict=True)):
        raise PermissionError("it lies outside the directory of temporary files")
    with found.open() as file:
        facts = os.fstat(file.fileno())
        media_type = photo_type(file.read(16))
    if hasattr(os, "getuid") and facts.st_uid != os.getuid():
        raise PermissionError("it belongs to somebody else")
    if found.changed < (started - _CLOCK_SLACK) * 1e9:
        raise PermissionError("it was there before the call")
    if media_type is None:
        raise ValueError("no photo by its content")
    return found, media_type
