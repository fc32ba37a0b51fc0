"""Addresses of kept files: signed, good until a moment that stands in them, and for one file alone."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from ...protocol.artifacts import PATH

if TYPE_CHECKING:
    import sqlalchemy as sa

#: Its row in the settings table; no setting of that name can be read or changed.
_NAME = "artifact_key"
_KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EXPIRES = re.compile(r"[0-9]{1,12}")
_URL_CHARS = 512


class Addresses:
    """Signs and checks addresses (HMAC-SHA256, RFC 2104). Use on the event loop: each takes microseconds.

    Parameters
    ----------
    key : bytes
        The gateway's own; whoever has it can fetch every file.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def url(self, artifact_id: str, expires_at: float) -> str:
        """Return the address of a file, relative to the gateway's root; ``expires_at`` is in Unix seconds."""
        expires = str(math.ceil(expires_at))
        return f"{PATH}{artifact_id}?expires={expires}&signature={self._signature(artifact_id, expires)}"

    def is_valid(self, artifact_id: str, expires: str, signature: str) -> bool:
        """Tell whether an address was signed here, and is good now."""
        if not _ID.fullmatch(artifact_id) or not _EXPIRES.fullmatch(expires):
            return False
        given = signature.encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._signature(artifact_id, expires).encode()):
            return False
        return time.time() < int(expires)

    def read(self, url: str) -> str:
        """Return whose address this is: the id of a file, if it is valid; else ``""``."""
        try:
            parts = urlsplit(url[:_URL_CHARS])
        except ValueError:
            return ""
        if parts.scheme or parts.netloc or not parts.path.startswith(PATH):
            return ""
        query = parse_qs(parts.query)
        expires, signature = query.get("expires", [""])[-1], query.get("signature", [""])[-1]
        artifact_id = parts.path.removeprefix(PATH)
        return artifact_id if self.is_valid(artifact_id, expires, signature) else ""

    def _signature(self, artifact_id: str, expires: str) -> str:
        return hmac.new(self._key, f"{artifact_id}\n{expires}".encode(), hashlib.sha256).hexdigest()


def new_key() -> bytes:
    """Return a key: 32 random bytes."""
    return secrets.token_bytes(_KEY_BYTES)


def load_key(connection: sa.Connection) -> bytes:
    """Return the key that is kept, made on first use (on the store's thread, in a transaction that may write)."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.settings
    kept = connection.execute(sa.select(table.c.value).where(table.c.name == _NAME)).scalar()
    if isinstance(kept, str) and len(kept) == 2 * _KEY_BYTES:
        return bytes.fromhex(kept)
    made = new_key()
    connection.execute(sa.delete(table).where(table.c.name == _NAME))
    connection.execute(sa.insert(table).values(name=_NAME, value=made.hex()))
    return made
