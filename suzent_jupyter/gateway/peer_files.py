"""Files of this machine that another gateway may fetch for a while: results of its calls, and what goes with a prompt.

All in memory: a restart ends every offer. An offer is of the very file that was looked at; one that has changed since,
or stands in its place, is not served.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..protocol.errors import SuzentError
from ..protocol.files import clean_file_name, safe_media_type
from ..protocol.limits import Limits
from ..protocol.peers import FileReference
from .clock import now_text
from .principals import Authority, Principal
from .tokens import token_digest

if TYPE_CHECKING:
    from .devices import Departure, Device

_ID_BYTES = 24
_TOKEN_BYTES = 32
_TOKEN_CHARS = 128
_MOST = 256
_MOST_OF_ONE = 64


@dataclass(frozen=True, slots=True)
class FileOnDisk:
    """A regular file as it was when it was looked at."""

    path: Path
    size: int
    changed: int
    place: tuple[int, int]

    @classmethod
    def look(cls, path: Path) -> FileOnDisk:
        """Look at a file, following links. Blocks.

        Raises
        ------
        OSError
            When it can't be read, or is no regular file.
        """
        resolved = path.resolve(strict=True)
        with _open(resolved) as file:
            return cls._of(resolved, os.fstat(file.fileno()))

    def open(self) -> BinaryIO:
        """Open it. Blocks; OSError when it is not the same file any more."""
        file = _open(self.path)
        try:
            if self._of(self.path, os.fstat(file.fileno())) != self:
                raise FileNotFoundError("changed since")
        except BaseException:
            file.close()
            raise
        return file

    @classmethod
    def _of(cls, path: Path, facts: os.stat_result) -> FileOnDisk:
        return cls(path, facts.st_size, facts.st_mtime_ns, (facts.st_dev, facts.st_ino))


@dataclass(slots=True)
class PeerFile:
    """One offer.

    Attributes
    ----------
    file_id : str
        Unguessable.
    account : str
        Whose it is.
    device_id : str
        The grant it was made for; ``""`` for those that have a token of their own.
    due : float
        When it ends, on the monotonic clock.
    digest : bytes, optional
        Of its own token.
    downloads : int, optional
        How often it may still be fetched; None for any number.
    """

    file_id: str
    file: FileOnDisk
    name: str
    media_type: str
    account: str
    device_id: str
    expires_at: str
    due: float
    digest: bytes | None = field(default=None, repr=False)
    downloads: int | None = None

    def reference(self) -> FileReference:
        """Return what the other side is told."""
        return FileReference(
            id=self.file_id,
            url=f"/nodes/peer-files/{self.file_id}",
            name=self.name,
            media_type=self.media_type,
            size=self.file.size,
            expires_at=self.expires_at,
        )


class PeerFiles:
    """The offers of one gateway. Use it on its event loop.

    Parameters
    ----------
    limits : Limits
        ``peer_file_ttl``, ``transfer_ttl`` and ``transfer_downloads``.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._offers: dict[str, PeerFile] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._offers)

    def offer(self, file: FileOnDisk, *, account: str, device_id: str, name: str, media_type: str) -> PeerFile:
        """Let a grant's holder, and the account itself, fetch a file."""
        return self._add(file, account, device_id, name, media_type, self._limits.peer_file_ttl)

    def offer_transfer(self, file: FileOnDisk, *, account: str, name: str, media_type: str) -> tuple[PeerFile, str]:
        """Let whoever has the token returned fetch a file, twice and soon."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        offer = self._add(file, account, "", name, media_type, self._limits.transfer_ttl)
        offer.digest = token_digest(token)
        offer.downloads = int(self._limits.transfer_downloads)
        return offer, token

    def of_token(self, file_id: str, token: str) -> PeerFile | None:
        """Return the offer whose own token this is."""
        offer = self._valid(file_id)
        if offer is None or offer.digest is None or not 0 < len(token) <= _TOKEN_CHARS:
            return None
        return offer if hmac.compare_digest(token_digest(token), offer.digest) else None

    def of_principal(self, file_id: str, principal: Principal) -> PeerFile | None:
        """Return an offer that a caller may fetch: its account's, and of a grant's holder, that grant's alone."""
        offer = self._valid(file_id)
        if offer is None or principal.authority < Authority.AGENT or offer.account != principal.account:
            return None
        if principal.authority is Authority.AGENT and (
            not principal.credential_id or offer.device_id != principal.credential_id
        ):
            return None
        return offer

    def begin_download(self, offer: PeerFile) -> None:
        """Count a download; it counts also if it breaks off. ``file_unknown`` if there was one too many."""
        if self._valid(offer.file_id) is not offer:
            raise file_unknown()
        if offer.downloads is not None:
            offer.downloads -= 1
            if offer.downloads <= 0:
                self.withdraw(offer)

    def withdraw(self, offer: PeerFile) -> None:
        """End an offer; downloads under way go on."""
        self._offers.pop(offer.file_id, None)

    def departed(self, device: Device, how: Departure) -> None:
        """End every offer to the holder of a grant that was revoked; a paused one finds them when it is resumed."""
        if how == "revoked":
            self._drop(lambda offer: offer.device_id == device.device_id)

    def close(self) -> None:
        """End all."""
        self._offers.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, file: FileOnDisk, account: str, device_id: str, name: str, media_type: str, life: float) -> PeerFile:
        self._prune()
        self._make_room((account, device_id))
        offer = PeerFile(
            file_id=f"pf_{secrets.token_urlsafe(_ID_BYTES)}",
            file=file,
            name=clean_file_name(name),
            media_type=safe_media_type(media_type),
            account=account,
            device_id=device_id,
            expires_at=now_text(life),
            due=time.monotonic() + life,
        )
        self._offers[offer.file_id] = offer
        self._arm()
        return offer

    def _make_room(self, holder: tuple[str, str]) -> None:
        """Whoever has the most makes room, so that one peer can't push out the files of others."""
        counts = Counter((offer.account, offer.device_id) for offer in self._offers.values())
        if not holder[1] or counts[holder] < _MOST_OF_ONE:
            if len(self._offers) < _MOST:
                return
            holder = counts.most_common(1)[0][0]
        oldest = next(each for each in self._offers.values() if (each.account, each.device_id) == holder)
        self.withdraw(oldest)

    def _valid(self, file_id: str) -> PeerFile | None:
        offer = self._offers.get(file_id)
        return offer if offer is not None and offer.due > time.monotonic() else None

    def _prune(self) -> None:
        now = time.monotonic()
        self._drop(lambda offer: offer.due <= now)

    def _drop(self, ends: Callable[[PeerFile], bool]) -> None:
        for offer in [offer for offer in self._offers.values() if ends(offer)]:
            self.withdraw(offer)

    def _arm(self) -> None:
        if self._timer is not None or not self._offers:
            return
        first = min(offer.due for offer in self._offers.values())
        delay = max(first - time.monotonic(), 0.0) + 0.01
        self._timer = asyncio.get_running_loop().call_later(delay, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._prune()
        self._arm()


def file_unknown() -> SuzentError:
    """Return the one refusal for whatever is wrong with a file's id or token: nothing is to be learned from it."""
    return SuzentError("file_unknown", "There is no such file for you here, or no longer.")


def _open(path: Path) -> BinaryIO:
    # Without O_NONBLOCK a pipe would hold the thread until somebody writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("no regular file")
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")
