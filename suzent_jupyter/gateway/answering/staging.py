"""Where files that come with a prompt lie while its turn runs: a private directory for each prompt.

Everything here but :meth:`Staging.clear` blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import BinaryIO

from ...protocol.agents import TurnAttachment

_FOLDER = "attachments"
_NAME = re.compile(r"([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{16}")
_live: set[str] = set()
_FOREIGN_SECONDS = 86400.0  # a home may be shared by machines; none runs a turn for a day


class Staging:
    """The files of one prompt.

    Attributes
    ----------
    attachments : list of TurnAttachment
        What is there.
    """

    def __init__(self, folder: Path) -> None:
        self.attachments: list[TurnAttachment] = []
        self._folder = folder

    @classmethod
    def make(cls, data_dir: Path) -> Staging:
        """Make its directory, which this user alone can read."""
        parent = data_dir / _FOLDER
        parent.mkdir(mode=0o700, exist_ok=True)
        if parent.is_symlink():
            raise OSError(f"{_FOLDER} is a link")
        folder = parent / f"{this_machine()}-{os.getpid()}-{secrets.token_hex(8)}"
        _live.add(folder.name)
        folder.mkdir(mode=0o700)
        return cls(folder)

    def create(self, name: str) -> tuple[Path, BinaryIO]:
        """Create a file of a clean name; the number before it keeps equal names apart."""
        path = self._folder / f"{len(self.attachments) + 1}-{name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        return path, os.fdopen(os.open(path, flags, 0o600), "wb")

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _live.discard(self._folder.name)

    async def clear(self) -> None:
        """Remove all of it, off the event loop, also if the turn is cancelled meanwhile."""
        await asyncio.shield(asyncio.to_thread(self.remove))


def remove_leftovers(data_dir: Path) -> None:
    """Remove what gateways left when they were killed."""
    folder = data_dir / _FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        found = _NAME.fullmatch(path.name)
        if found is None or path.is_symlink() or path.name in _live:
            continue
        import psutil

        with contextlib.suppress(OSError):
            number = int(found[2])
            if found[1] == this_machine():
                dead = number == os.getpid() or not psutil.pid_exists(number)
            else:
                dead = path.stat().st_mtime < time.time() - _FOREIGN_SECONDS
            if dead:
                shutil.rmtree(path, ignore_errors=True)


def this_machine() -> str:
    """Return which machine this is, in a few characters that name nobody."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
