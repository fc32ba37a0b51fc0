"""What the routes of kept files do: take one as it comes, and send one."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ..gateway.artifacts.artifacts import Reading, artifact_unknown
from ..gateway.audit import Row
from ..protocol.artifacts import ArtifactResponse
from ..protocol.errors import SuzentError
from ..protocol.files import OCTETS
from .auth import has_browser_headers, presented
from .request import Request
from .stream import BrokenOffError, Stream

if TYPE_CHECKING:
    from ..gateway.artifacts.rows import Kept

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")


async def serve_artifact(request: Request) -> Stream:
    """Send a file to whoever has its address, until that expires, and to the account whose it is.

    One range of bytes may be asked for (RFC 9110 section 14). Whatever is wrong is the same refusal.
    """
    await request.gateway.ready.wait()
    kept = await _wanted(request)
    start, size, is_part = _range(request, kept)
    reading = await request.gateway.artifacts.open(kept, start, size)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": "attachment",  # what it holds is for programs, never for a page of this origin
        "ETag": f'"{kept.sha256}"',
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(kept.sha256)).decode()}:",  # RFC 9530
        "Accept-Ranges": "bytes",
    }
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{start + size - 1}/{kept.size}"
    return Stream(_Pieces(reading), OCTETS, headers, status=206 if is_part else 200)


async def _wanted(request: Request) -> Kept:
    artifacts, artifact_id, sender = request.gateway.artifacts, request.path["id"], request.sender
    if "signature" in request.query:
        expires, signature = request.query.get("expires", ""), request.query["signature"]
        kept = await artifacts.by_address(artifact_id, expires, signature)
        if sender is not None:
            sender.take_note()  # a file may take longer than strangers get
        return kept
    from_a_page = has_browser_headers(request.headers)
    found = presented(request.headers)
    token = next((token for token, is_password in found if token and not (is_password and from_a_page)), "")
    if sender is None or not token:
        raise artifact_unknown()
    try:
        principal = await sender.principal_of(token)
    except SuzentError as error:
        if error.code == "too_many_attempts":
            raise
        raise artifact_unknown() from None
    if principal.authority < principal.authority.FULL:
        raise artifact_unknown()
    return await artifacts.of_account(principal.account, artifact_id)


def _range(request: Request, kept: Kept) -> tuple[int, int, bool]:
    """Return where to begin, how many bytes to send, and whether that is a part; one that makes no sense is all."""
    asked = _RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    condition = request.headers.get("If-Range", "")
    if asked is None or asked[0] == "bytes=-" or (condition and condition != f'"{kept.sha256}"'):
        return 0, kept.size, False
    if not asked[1]:
        size = min(int(asked[2]), kept.size)
        return (kept.size - size, size, True) if size else (0, kept.size, False)
    start = int(asked[1])
    last = min(int(asked[2]) if asked[2] else kept.size, kept.size - 1)
    return (start, last - start + 1, True) if start <= last else (0, kept.size, False)


async def keep_artifact(request: Request) -> ArtifactResponse:
    """Keep the body; ``?name=`` and the content type say what it is."""
    announced = request.headers.get("Content-Length", "")
    reference, created = await request.gateway.artifacts.keep(
        request.principal.account,
        request.pieces if request.pieces is not None else _one(request.body),
        media_type=request.headers.get("Content-Type", ""),
        name=request.query.get("name", ""),
        size=int(announced) if announced.isdigit() else None,
    )
    row = Row(request.principal.account, request.principal.actor, "artifact.keep")
    row.detail = {"name": reference.name, "size": reference.size, "sha256": reference.sha256, "created": created}
    request.gateway.audit.record(row)
    return ArtifactResponse(artifact=reference, created=created)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _Pieces:
    """A kept file as an answer; one that can't be completed breaks off."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._reading)
        except SuzentError as error:
            raise BrokenOffError(error.message) from None

    async def aclose(self) -> None:
        """Close the file."""
        await self._reading.aclose()
