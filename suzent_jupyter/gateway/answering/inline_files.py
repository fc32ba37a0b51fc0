"""Files that come inside a ``chat.send``: decoded and laid down off the event loop."""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from typing import Any

from ...protocol.agents import TurnAttachment
from ...protocol.errors import SuzentError
from ...protocol.files import clean_file_name, safe_media_type
from ...protocol.limits import MIB, Limits
from .staging import Staging

_HINT = "Send each as `{name, media_type, base64}`, fewer or smaller ones."


def check(items: Any, limits: Limits) -> list[dict[str, Any]]:
    """Return the attachments of a frame; ``attachment_refused`` for what can't be, before any of it is decoded."""
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and isinstance(item.get("base64"), str) for item in items
    ):
        raise _refused("`attachments` must be a list of `{name, media_type, base64}`")
    if len(items) > limits.attachments:
        raise _refused(f"they are {len(items)}; {int(limits.attachments)} may come with a prompt")
    if sum(len(item["base64"]) for item in items) * 3 // 4 > limits.attachment_bytes + 3 * len(items):
        raise _too_large(limits)
    return items


async def stage(data_dir: Path, items: list[dict[str, Any]], limits: Limits) -> Staging:
    """Write them into a directory of their own; it is to be cleared when the turn is over."""
    return await asyncio.to_thread(_stage, data_dir, items, limits)


def _stage(data_dir: Path, items: list[dict[str, Any]], limits: Limits) -> Staging:
    try:
        staging = Staging.make(data_dir)
    except OSError as error:
        raise _unkept(error) from None
    try:
        room = int(limits.attachment_bytes)
        for item in items:
            own = clean_file_name(item.get("name"), "attachment")
            try:
                data = base64.b64decode(item["base64"], validate=True)
            except (binascii.Error, ValueError):
                raise _refused(f"'{own}' is no base64") from None
            room -= len(data)
            if room < 0:
                raise _too_large(limits)
            path, file = staging.create(own)
            with file:
                file.write(data)
            media_type = safe_media_type(item.get("media_type"))
            staging.attachments.append(TurnAttachment(name=own, media_type=media_type, size=len(data), path=path))
    except BaseException as error:
        staging.remove()
        if isinstance(error, OSError):
            raise _unkept(error) from None
        raise
    return staging


def _too_large(limits: Limits) -> SuzentError:
    return _refused(f"they are larger than {limits.attachment_bytes / MIB:g} MiB together")


def _unkept(error: OSError) -> SuzentError:
    return _refused(f"they can't be kept here: {error.strerror or 'the disk refuses'}")


def _refused(why: str) -> SuzentError:
    return SuzentError("attachment_refused", f"The prompt's files are refused: {why}.", hint=_HINT)
