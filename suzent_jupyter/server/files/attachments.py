"""Files that come with a peer's prompt: fetched from that very peer before the turn begins, or not at all."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from ...gateway.answering.staging import Staging
from ...protocol.agents import TurnAttachment
from ...protocol.chat import InboundAttachment
from ...protocol.errors import SuzentError
from ...protocol.files import clean_file_name, safe_media_type
from ...protocol.limits import KIB, MIB
from ...protocol.text import clean_text
from ..auth import has_forwarding_headers, is_loopback
from ..request import Request

if TYPE_CHECKING:
    from ...peers.http import PeerHttp

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")
_WRITE_BYTES = 512 * KIB
_AT_ONCE = 4  # prompts of one caller whose files are being fetched
_HINT = "The sender offers files anew with each prompt; send it again."
_under_way: Counter[tuple[int, str]] = Counter()


async def stage(request: Request, items: list[InboundAttachment]) -> Staging:
    """Fetch what comes with a prompt.

    Parameters
    ----------
    request : Request
        Of the authenticated caller: files come from the address it called from, or that of its grant.
    items : list of InboundAttachment
        What it says of them.

    Returns
    -------
    Staging
        To be cleared when the turn is over.

    Raises
    ------
    SuzentError
        ``attachment_refused``, which file and why; nothing is left then.
    """
    limits = request.gateway.limits
    _check(items, int(limits.attachments), int(limits.attachment_bytes))
    who = id(request.gateway), request.principal.credential_id
    if _under_way[who] >= _AT_ONCE:
        raise _refused("those of", "your other prompts are still being fetched; wait for them")
    _under_way[who] += 1
    try:
        hosts, http = peer_hosts(request), await request.service.peering.http()
        staging = await asyncio.to_thread(Staging.make, request.gateway.data_dir)
        try:
            async with asyncio.timeout(limits.transfer_ttl) as deadline:
                await _fetch_all(http, hosts, items, staging, int(limits.attachment_bytes))
        except BaseException as error:
            await staging.clear()
            if isinstance(error, TimeoutError) and deadline.expired():
                raise _refused("they", f"did not come within {limits.transfer_ttl:g} s") from None
            if isinstance(error, OSError):
                raise _refused("they", f"can't be kept here: {error.strerror or 'the disk refuses'}") from None
            raise
        return staging
    finally:
        _under_way[who] -= 1
        if not _under_way[who]:
            del _under_way[who]


def peer_hosts(request: Request) -> list[str]:
    """Return the hosts that are the caller's own: where it called from, and where its grant says it is."""
    hosts = []
    proxied = has_forwarding_headers(request.headers)
    if request.remote and not (proxied and is_loopback(request.remote)):  # a proxy here is not the caller
        hosts.append(request.remote)
    device = request.gateway.devices.by_id(request.principal.credential_id)
    if device is not None and device.callback_url:
        try:
            host = urlsplit(device.callback_url).hostname
        except ValueError:
            host = None
        if host:
            hosts.append(host)
    return hosts


def _check(items: list[InboundAttachment], count: int, most: int) -> None:
    """Refuse by what is said of the files, before any of them is asked for."""
    if len(items) > count:
        raise _refused("these", f"are {len(items)} files; {count} may come with a prompt")
    if sum(max(item.size, 0) for item in items) > most:
        raise _refused("they", f"are larger than {most / MIB:g} MiB together")
    for item in items:
        name = _shown(item)
        if not _ID.fullmatch(item.id):
            raise _refused(name, "has no id that can be used")
        if not _TOKEN.fullmatch(item.token):
            raise _refused(name, "has no token that can be used")
        if item.size < 0:
            raise _refused(name, "has no size that can be")
        try:
            path = urlsplit(item.url).path
        except ValueError:
            path = ""
        if path != f"/nodes/peer-files/{item.id}" or "?" in item.url or "#" in item.url:
            raise _refused(name, "is not offered where gateways offer files: /nodes/peer-files/ and its id")


async def _fetch_all(
    http: PeerHttp, hosts: list[str], items: list[InboundAttachment], staging: Staging, room: int
) -> None:
    for item in items:
        try:
            room -= await _fetch(http, hosts, item, staging, room)
        except SuzentError as error:
            if error.code == "attachment_refused":
                raise
            raise _refused(_shown(item), f"can't be fetched: {error.message.rstrip('.')}") from None


async def _fetch(http: PeerHttp, hosts: list[str], item: InboundAttachment, staging: Staging, room: int) -> int:
    from ...peers.http import announced_size

    name = _shown(item)
    async with http.stream("GET", item.url, token=item.token, only_hosts=hosts) as response:
        if response.status_code != 200:
            raise _refused(name, f"is not given out by its sender ({response.status_code})")
        announced = announced_size(response)
        expected = item.size if "size" in item.model_fields_set else None
        if announced is not None:
            if expected is not None and announced != expected:
                raise _refused(name, f"has {announced:,} bytes, not the {expected:,} that were announced")
            if announced > room:
                raise _refused("they", "are larger together than a prompt's files may be")
        own = clean_file_name(item.name, "attachment")
        path, file = await asyncio.to_thread(staging.create, own)
        try:
            size = await _save(response.aiter_raw(), file, name, room, expected)
        finally:
            await asyncio.to_thread(file.close)
    media_type = safe_media_type(item.media_type)
    staging.attachments.append(TurnAttachment(name=own, media_type=media_type, size=size, path=path))
    return size


async def _save(pieces: AsyncIterator[bytes], file: BinaryIO, name: str, room: int, expected: int | None) -> int:
    """Write what comes, a thread's trip for each half megabyte, and return how much it was."""
    size, kept = 0, bytearray()
    async for piece in pieces:
        size += len(piece)
        if expected is not None and size > expected:
            raise _refused(name, f"has more than the {expected:,} bytes that were announced")
        if size > room:
            raise _refused("they", "are larger together than a prompt's files may be")
        kept += piece
        if len(kept) >= _WRITE_BYTES:
            await asyncio.to_thread(file.write, bytes(kept))
            kept.clear()
    await asyncio.to_thread(file.write, bytes(kept))
    if expected is not None and size != expected:
        raise _refused(name, f"has {size:,} bytes, not the {expected:,} that were announced")
    return size


def _shown(item: InboundAttachment) -> str:
    return f"'{clean_text(item.name, 64) or 'attachment'}'"


def _refused(what: str, why: str) -> SuzentError:
    return SuzentError("attachment_refused", f"The prompt's files are refused: {what} {why}.", hint=_HINT)
