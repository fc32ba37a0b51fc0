"""Files that come with a ``chat.send``: inside it, or kept here before; laid down off the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, BinaryIO

from ...protocol.agents import TurnAttachment
from ...protocol.artifacts import is_reference
from ...protocol.errors import SuzentError
from ...protocol.files import clean_file_name, safe_media_type
from ...protocol.limits import MIB, Limits
from ..artifacts.hoisting import data_url_head, decoded, size_of
from .staging import Staging

if TYPE_CHECKING:
    from ..gateway import Gateway

_HINT = "Send each as `{name, media_type, base64}`, fewer or smaller ones."


def check(items: Any, limits: Limits) -> list[dict[str, Any]]:
    """Return the attachments of a frame; ``attachment_refused`` for what can't be, before any of it is decoded."""
    if not isinstance(items, list) or not all(_is_file(item) for item in items):
        raise _refused(
            "`attachments` must be a list of `{name, media_type, base64}`, data: URLs as `url`, "
            "or references as POST /artifacts returns them"
        )
    if len(items) > limits.attachments:
        raise _refused(f"they are {len(items)}; {int(limits.attachments)} may come with a prompt")
    if sum(map(_size, items)) > limits.attachment_bytes + 3 * len(items):
        raise _too_large(limits)
    return items


async def stage(gateway: Gateway, account: str, items: list[dict[str, Any]]) -> Staging:
    """Write them into a directory of their own; it is to be cleared when the turn is over.

    Raises
    ------
    SuzentError
        ``attachment_refused``, ``artifact_unknown``, ``artifact_corrupt`` or ``artifact_store_failed``; nothing is
        left then.
    """
    try:
        staging = await asyncio.to_thread(Staging.make, gateway.data_dir)
    except OSError as error:
        raise _unkept(error) from None
    try:
        room = int(gateway.limits.attachment_bytes)
        for item in items:
            own = clean_file_name(item.get("name"), "attachment")
            path, file = await asyncio.to_thread(staging.create, own)
            try:
                if is_reference(item):
                    size = await _fetch(gateway, account, item, file, room)
                else:
                    size = await asyncio.to_thread(_decode, item, own, file, room, gateway.limits)
            finally:
                await asyncio.to_thread(file.close)
            room -= size
            if room < 0:
                raise _too_large(gateway.limits)
            media_type = safe_media_type(item.get("media_type") or _said_by_url(item))
            staging.attachments.append(TurnAttachment(name=own, media_type=media_type, size=size, path=path))
    except BaseException as error:
        await staging.clear()
        if isinstance(error, OSError):
            raise _unkept(error) from None
        raise
    return staging


async def _fetch(gateway: Gateway, account: str, item: dict[str, Any], file: BinaryIO, room: int) -> int:
    kept = await gateway.artifacts.find(account, item)
    if kept is None:
        raise _refused("a reference is to no file that is kept here")
    if kept.size > room:
        raise _too_large(gateway.limits)
    async for piece in gateway.artifacts.checked(kept):
        await asyncio.to_thread(file.write, piece)
    return kept.size


def _decode(item: dict[str, Any], name: str, file: BinaryIO, room: int, limits: Limits) -> int:
    size = 0
    try:
        for piece in decoded(*_base64(item), path=name):
            size += len(piece)
            if size > room:
                raise _too_large(limits)
            file.write(piece)
    except SuzentError as error:
        if error.code == "invalid_params":
            raise _refused(f"'{name}' is no base64") from None
        raise
    return size


def _is_file(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    url = item.get("url")
    return (
        isinstance(item.get("base64"), str)
        or is_reference(item)
        or (isinstance(url, str) and data_url_head(url) is not None)
    )


def _base64(item: dict[str, Any]) -> tuple[str, int]:
    """Return the text that holds a file, and where in it its base64 begins."""
    if isinstance(item.get("base64"), str):
        return item["base64"], 0
    head = data_url_head(item["url"])
    assert head is not None
    return item["url"], head.end()


def _said_by_url(item: dict[str, Any]) -> str:
    head = data_url_head(item["url"]) if isinstance(item.get("url"), str) else None
    return head[1] if head is not None else ""


def _size(item: dict[str, Any]) -> int:
    return max(0, int(item["size"])) if is_reference(item) else size_of(*_base64(item))


def _too_large(limits: Limits) -> SuzentError:
    return _refused(f"they are larger than {limits.attachment_bytes / MIB:g} MiB together")


def _unkept(error: OSError) -> SuzentError:
    return _refused(f"they can't be kept here: {error.strerror or 'the disk refuses'}")


def _refused(why: str) -> SuzentError:
    return SuzentError("attachment_refused", f"The prompt's files are refused: {why}.", hint=_HINT)
