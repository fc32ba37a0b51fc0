"""A file of a call as a capability sees it: what is said of it, and where it lies here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..protocol.limits import MIB

#: Of a file, what is taken into memory where a parameter is ``bytes``.
MEMORY_BYTES = 64 * MIB


class LocalFile(dict[str, Any]):
    """A reference's or part's own fields, and ``path``: it lies there until the call is over."""

    @property
    def file(self) -> Path:
        """Where it lies."""
        return Path(self["path"])

    def read(self) -> bytes:
        """Return its content; ``ValueError`` where that is too much for memory. Blocks."""
        size = self.file.stat().st_size
        if size > MEMORY_BYTES:
            raise ValueError(
                f"is a file of {size:,} bytes, more than is taken into memory; it must be declared as Path"
            )
        return self.file.read_bytes()
