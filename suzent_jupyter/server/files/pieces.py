"""Files as answers in pieces: from this machine's disk, and from a peer.

Both are classes rather than generators, since a caller may be gone before the first piece, and what is open must be
closed then too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from ...protocol.errors import SuzentError
from ...protocol.limits import KIB, MIB, Limits
from ...protocol.sse import SILENT_BEATS
from ..stream import BrokenOffError

if TYPE_CHECKING:
    import httpx

    from ...peers.http import PeerHttp

_READ_BYTES = 256 * KIB


class DiskPieces:
    """An open file of which exactly ``size`` bytes are sent; each piece is read in a thread."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def __aiter__(self) -> DiskPieces:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        piece = await asyncio.to_thread(self._file.read, min(_READ_BYTES, self._left))
        if not piece:
            raise BrokenOffError("the file became shorter")
        self._left -= len(piece)
        return piece

    async def aclose(self) -> None:
        """Close the file, in a thread: a read may be under way in another."""
        await asyncio.to_thread(self._file.close)


class PeerPieces:
    """A file that a peer sends. Make it with :meth:`open`.

    Attributes
    ----------
    headers : mapping
        The peer's, not to be trusted.
    size : int or None
        What it announced.
    """

    def __init__(self, stack: contextlib.AsyncExitStack, response: httpx.Response, size: int | None, limits: Limits):
        self.headers: Mapping[str, str] = response.headers
        self.size = size
        self._stack = stack
        self._pieces: AsyncIterator[bytes] = response.aiter_raw()
        self._left = int(limits.attachment_bytes) if size is None else size
        self._silence = limits.heartbeat * SILENT_BEATS

    @classmethod
    async def open(cls, http: PeerHttp, url: str, token: str, name: str, limits: Limits) -> PeerPieces:
        """Ask for a file.

        Raises
        ------
        SuzentError
            ``file_unknown``, ``peer_revoked``, ``peer_refused``, ``peer_unreachable``, ``bad_peer_answer``, or
            ``too_large``.
        """
        from ...peers.answers import refusal_of
        from ...peers.http import announced_size

        stack = contextlib.AsyncExitStack()
        try:
            response = await stack.enter_async_context(http.stream("GET", url, token=token))
            if response.status_code != 200:
                if response.status_code == 404:
                    raise SuzentError("file_unknown", f"{name} does not have that file for us, or no longer.")
                raise await refusal_of(response, url, name, limits)
            size = announced_size(response)
            if size is not None and size > limits.attachment_bytes:
                most = f"{limits.attachment_bytes / MIB:g} MiB"
                raise SuzentError("too_large", f"{name}'s file has {size:,} bytes; {most} are the most.")
            return cls(stack, response, size, limits)
        except BaseException:
            await stack.aclose()
            raise

    def __aiter__(self) -> PeerPieces:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                piece = await anext(self._pieces, b"")
        except Exception as error:
            raise BrokenOffError("the peer broke off") from error
        if not piece:
            if self.size is not None and self._left:
                raise BrokenOffError("the peer sent less than it announced")
            raise StopAsyncIteration
        self._left -= len(piece)
        if self._left < 0:
            raise BrokenOffError("the peer sent too much")
        return piece

    async def aclose(self) -> None:
        """Hang up."""
        await self._stack.aclose()
