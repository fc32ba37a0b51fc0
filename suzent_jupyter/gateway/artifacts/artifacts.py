"""The files one gateway keeps for a while, and the addresses under which they can be fetched."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from ...protocol.artifacts import ArtifactReference, is_reference
from ...protocol.errors import SuzentError
from ...protocol.files import OCTETS, clean_file_name
from ...protocol.limits import MIB
from ...protocol.text import clean_text
from ..clock import time_text
from . import rows
from .addresses import Addresses, load_key, new_key
from .rows import Kept
from .storage import PIECE_BYTES, Draft, Storage
from .sweeping import Sweeping, new_place

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ..gateway import Gateway

_ID_BYTES = 24
_SHARE = 4  # nobody but the gateway's owner takes more than this part of the room
_MEDIA_TYPE_CHARS = 255
_FOLDER = "artifacts"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Artifacts:
    """Keeps files by their content: the same twice of one account is kept once.

    Parameters
    ----------
    gateway : Gateway
        Whose store and limits count.
    url : str
        Where they lie: any fsspec URL; ``""`` for a directory in ``data_dir``.
    """

    def __init__(self, gateway: Gateway, url: str = "") -> None:
        self._gateway = gateway
        self._storage = Storage(url, gateway.data_dir / _FOLDER)
        self._addresses = Addresses(new_key())
        self._sweeping = Sweeping(gateway.store, self._storage, gateway.limits)
        self._arriving: Counter[str] = Counter()  # bytes, by account
        self._finishing: set[asyncio.Task[Any]] = set()

    # -- life --

    def load(self, connection: sa.Connection) -> None:
        """Read the key that signs addresses (on the store's thread)."""
        self._addresses = Addresses(load_key(connection))

    def begin(self) -> None:
        """Sweep from now on; what a gateway that was killed left goes first."""
        self._storage.belongs_to(self._gateway.identity)
        self._sweeping.begin()

    async def stop(self) -> None:
        """Finish what is nearly kept, and take no more."""
        await self._sweeping.stop()
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=2)
        self._storage.close()

    # -- keeping --

    async def keep(
        self, account: str, pieces: AsyncIterator[bytes], *, media_type: str, name: str, size: int | None = None
    ) -> tuple[ArtifactReference, bool]:
        """Keep a file as it comes, never whole in memory; returns its reference, and whether it is new.

        Parameters
        ----------
        account : str
            Whose it is.
        size : int, optional
            What it was announced as.

        Raises
        ------
        SuzentError
            ``too_large``, ``artifact_store_full``, ``artifact_store_failed``; nothing of it is kept then.
        """
        self._check_size(size or 0)
        used, own = await self._make_room(account, size or 0)
        place = new_place()
        arriving = _Arriving(self, account, (used, own), size or 0)
        draft: Draft | None = None
        finishing: asyncio.Task[tuple[Kept, bool]] | None = None
        try:
            with arriving:
                draft = await self._storage.draft(place)
                async for piece in _joined(pieces):
                    arriving.add(len(piece))
                    await self._storage.run(draft.write, piece)
                finishing = asyncio.create_task(self._finish(account, draft, place))
                self._finishing.add(finishing)
                finishing.add_done_callback(self._finishing.discard)
                kept, new = await asyncio.shield(finishing)
        except BaseException:
            if finishing is None and draft is not None:
                self._give_up(draft)
            raise
        return await self._reference(kept, media_type, name), new

    async def _finish(self, account: str, draft: Draft, place: str) -> tuple[Kept, bool]:
        """Take up a file that is all here. Not to be cancelled: then its row and the file might not fit each other."""
        try:
            sha256 = await self._storage.run(draft.finish)
            there = await self._gateway.store.run(partial(rows.find, account=account, sha256=sha256))
            if there is not None and not await self._is_sound(there):
                await self._gateway.store.run(partial(rows.drop, place=there.place))
            new = Kept(account, sha256, _new_id(), place, draft.size, self._end())
            room = self._gateway.limits.artifact_store_bytes
            share = self._share(account)
            kept, needless = await self._gateway.store.run(partial(rows.add, new=new, room=room, share=share))
        except BaseException:
            self._give_up(draft)
            raise
        if needless:
            self._sweeping.remove(needless)
        if kept is None:
            raise self._full(account)
        self._sweeping.expect()
        return kept, kept is new

    async def _is_sound(self, kept: Kept) -> bool:
        return await self._storage.run(self._storage.size, kept.place) == kept.size

    def _give_up(self, draft: Draft) -> None:
        """Drop what came of a file, whoever no longer waits for it."""
        dropping = asyncio.ensure_future(self._storage.run(draft.drop))
        self._finishing.add(dropping)

        def dropped(done: asyncio.Future[None]) -> None:
            self._finishing.discard(dropping)
            if not done.cancelled():
                done.exception()  # the log has it, and what is left is swept

        dropping.add_done_callback(dropped)

    # -- room --

    def _check_size(self, size: int) -> None:
        most = int(self._gateway.limits.artifact_bytes)
        if size > most:
            raise SuzentError("too_large", f"A file may have {most:,} bytes at most (artifact_bytes).")

    async def _make_room(self, account: str, size: int) -> tuple[int, int]:
        """Return how many bytes are kept already, of all and of an account; sweep first where a file would not fit."""
        used, own = await self._used(account)
        if not self._fits(account, used + size, own + size):
            await self._sweeping.sweep()
            used, own = await self._used(account)
            if not self._fits(account, used + size, own + size):
                raise self._full(account)
        return used, own

    async def _used(self, account: str) -> tuple[int, int]:
        return await self._gateway.store.run(
            lambda connection: (rows.total(connection), rows.total(connection, account))
        )

    def _fits(self, account: str, used: int, own: int) -> bool:
        room = self._gateway.limits.artifact_store_bytes
        return used + self._arriving.total() <= room and own + self._arriving[account] <= self._share(account)

    def _share(self, account: str) -> float:
        """Return how much of the room an account may take: no colleague's files keep those of others out."""
        room = self._gateway.limits.artifact_store_bytes
        return room if account == self._gateway.account else room / _SHARE

    def _full(self, account: str) -> SuzentError:
        most, share = self._gateway.limits.artifact_store_bytes, self._share(account)
        whose = "" if share == most else f", of one account {share / MIB:,.0f} MiB"
        return SuzentError("artifact_store_full", f"The gateway keeps {most / MIB:,.0f} MiB of files at most{whose}.")

    # -- references --

    async def find(self, account: str, value: Any) -> Kept | None:
        """Return the file that a reference from a caller names: its account's own, or one whose address is valid.

        ``account`` is ``""`` for callers who may use addresses alone, such as other gateways.
        ``artifact_unknown`` where the address is one of ours and there is no such file for this caller; None for what
        is a reference to somewhere else.
        """
        if not is_reference(value) or not _SHA256.fullmatch(value["sha256"]):
            return None
        artifact_id = self._addresses.read(value["url"])
        wanted = {"artifact_id": artifact_id} if artifact_id else {"account": account, "sha256": value["sha256"]}
        kept = None
        if artifact_id or account:
            kept = await self._gateway.store.run(lambda connection: rows.find(connection, **wanted))
        if kept is not None and kept.sha256 == value["sha256"]:
            return kept
        if value["url"].startswith("/"):
            raise artifact_unknown()
        return None

    async def renew(self, kept: Kept, media_type: str, name: str) -> ArtifactReference:
        """Return a reference that is good for the whole time again; ``artifact_unknown`` if the file is gone."""
        end = self._end()
        if not await self._gateway.store.run(partial(rows.touch, kept=kept, expires_at=end)):
            raise artifact_unknown()
        renewed = Kept(kept.account, kept.sha256, kept.artifact_id, kept.place, kept.size, max(end, kept.expires_at))
        return await self._reference(renewed, media_type, name)

    async def _reference(self, kept: Kept, media_type: str, name: str) -> ArtifactReference:
        url = ""
        if self._storage.signs:
            url = await self._storage.run(self._storage.address, kept.place, kept.expires_at - time.time())
        return ArtifactReference(
            url=url or self._addresses.url(kept.artifact_id, kept.expires_at),
            media_type=clean_text(media_type, _MEDIA_TYPE_CHARS) or OCTETS,
            name=self.clean_name(name),
            size=kept.size,
            sha256=kept.sha256,
            expires_at=time_text(kept.expires_at),
        )

    @staticmethod
    def clean_name(name: str) -> str:
        """Return a name as references carry it: never a path, and ``""`` for none."""
        return clean_file_name(name, "") if name else ""

    def _end(self) -> float:
        return time.time() + self._gateway.limits.artifact_ttl

    # -- giving out --

    async def by_address(self, artifact_id: str, expires: str, signature: str) -> Kept:
        """Return the file of a signed address; ``artifact_unknown`` for one that is wrong or over."""
        if not self._addresses.is_valid(artifact_id, expires, signature):
            raise artifact_unknown()
        return await self._known(artifact_id=artifact_id)

    async def of_account(self, account: str, artifact_id: str) -> Kept:
        """Return a file of an account's own; ``artifact_unknown`` otherwise."""
        return await self._known(account=account, artifact_id=artifact_id)

    async def _known(self, **wanted: str) -> Kept:
        kept = await self._gateway.store.run(lambda connection: rows.find(connection, **wanted))
        if kept is None:
            raise artifact_unknown()
        return kept

    async def open(self, kept: Kept, start: int = 0, size: int | None = None) -> Reading:
        """Return a file's bytes, piece by piece; ``artifact_unknown`` where it is not there any more."""
        file = await self._storage.run(_open, self._storage, kept.place, start)
        return Reading(self._storage, file, kept.size - start if size is None else size)

    async def checked(self, kept: Kept) -> AsyncGenerator[bytes]:
        """Give out all of a file; ``artifact_corrupt`` at its end if it is not what was kept."""
        reading, digest = await self.open(kept), hashlib.sha256()
        try:
            async for piece in reading:
                digest.update(piece)
                yield piece
        finally:
            await reading.aclose()
        if digest.hexdigest() != kept.sha256:
            raise artifact_corrupt()

    async def base64(self, kept: Kept) -> str:
        """Return a file as base64, for a frame; the caller has looked at its size."""
        content = bytearray()
        async for piece in self.checked(kept):
            content += piece
        encoded = await self._storage.run(base64.b64encode, content)
        return encoded.decode("ascii")

    def iterate(self, pieces: Any) -> AsyncIterator[bytes]:
        """Give out what is read or decoded in a thread, piece by piece."""
        return self._storage.iterate(pieces)  # type: ignore[no-any-return]


class Reading:
    """A file that is being given out. It is closed when it is broken off, whatever step is under way."""

    def __init__(self, storage: Storage, file: BinaryIO, size: int) -> None:
        self._storage = storage
        self._file = file
        self._left = size

    def __aiter__(self) -> Reading:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        piece: bytes = await self._storage.run(self._file.read, min(PIECE_BYTES, self._left))
        if not piece:
            raise artifact_corrupt()
        self._left -= len(piece)
        return piece

    async def aclose(self) -> None:
        """Close it."""
        await asyncio.shield(self._storage.run(self._file.close))


class _Arriving:
    """Counts a file while it comes, so that several at once do not take more room together than there is."""

    def __init__(self, artifacts: Artifacts, account: str, used: tuple[int, int], announced: int) -> None:
        self._artifacts = artifacts
        self._account = account
        self._used = used
        self._size = 0
        self._counted = announced

    def __enter__(self) -> None:
        self._artifacts._arriving[self._account] += self._counted

    def __exit__(self, *_: object) -> None:
        arriving = self._artifacts._arriving
        arriving[self._account] -= self._counted
        if not arriving[self._account]:
            del arriving[self._account]

    def add(self, size: int) -> None:
        """Count a piece; ``too_large`` or ``artifact_store_full`` if it is one too many."""
        artifacts = self._artifacts
        self._size += size
        artifacts._check_size(self._size)
        more = max(0, self._size - self._counted)
        self._counted += more
        artifacts._arriving[self._account] += more
        if not artifacts._fits(self._account, *self._used):
            raise artifacts._full(self._account)


async def _joined(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give out larger pieces: each is a trip to a thread."""
    waiting = bytearray()
    async for piece in pieces:
        if not waiting and len(piece) >= PIECE_BYTES:
            yield piece
            continue
        waiting += piece
        if len(waiting) >= PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _open(storage: Storage, place: str, start: int) -> BinaryIO:
    try:
        file = storage.open(place)
    except FileNotFoundError:
        raise artifact_unknown() from None
    try:
        file.seek(start)
    except BaseException:
        file.close()
        raise
    return file


def _new_id() -> str:
    return f"af_{secrets.token_urlsafe(_ID_BYTES)}"


def artifact_unknown() -> SuzentError:
    """Return the one refusal for whatever is wrong with an address: nothing is to be learned from it."""
    return SuzentError("artifact_unknown", "There is no such file, or not any more.")


def artifact_corrupt() -> SuzentError:
    """Return what is said of a file that is not what was kept."""
    return SuzentError("artifact_corrupt", "A kept file is not what was sent: it was changed where it lies.")
