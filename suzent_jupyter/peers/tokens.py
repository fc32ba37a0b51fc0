"""The tokens that peers gave us: in the operating system's keyring or an encrypted file, never in the database."""

from __future__ import annotations

import asyncio
import logging

from ..node import TokenVault, VaultError
from ..protocol.errors import SuzentError

log = logging.getLogger(__name__)

_LONGEST = 512


def checked_token(token: object) -> str | None:
    """Return a token that can be sent in a header; None for anything else."""
    if not isinstance(token, str) or not 0 < len(token) <= _LONGEST:
        return None
    return token if token.isascii() and token.isprintable() and " " not in token else None


class PeerTokens:
    """They are read from the vault once and kept in memory.

    Parameters
    ----------
    vault : TokenVault
        Its methods block, so they are called in threads.
    """

    def __init__(self, vault: TokenVault) -> None:
        self._vault = vault
        self._known: dict[str, str] = {}

    async def get(self, peer_id: str) -> str | None:
        """Return the token of a peer; None where there is none, or none that can be read, as the log says then."""
        if peer_id not in self._known:
            try:
                found = await asyncio.to_thread(self._vault.get, _key(peer_id))
            except VaultError as error:
                log.warning("The tokens that peers gave us can't be read: %s", error)
                return None
            if found is None:
                return None
            self._known.setdefault(peer_id, found)
        return self._known[peer_id]

    async def set(self, peer_id: str, token: str) -> None:
        """Keep a token; ``store_failed`` where that fails."""
        try:
            await asyncio.to_thread(self._vault.set, _key(peer_id), token)
        except VaultError as error:
            raise SuzentError("store_failed", f"The token a peer gave us can't be kept: {error}") from None
        self._known[peer_id] = token

    async def forget(self, peer_id: str) -> None:
        """Forget a token; where the vault can't be written, the log says so: the peer itself is gone already."""
        self._known.pop(peer_id, None)
        try:
            await asyncio.to_thread(self._vault.delete, _key(peer_id))
        except VaultError as error:
            log.warning("A token that a peer gave us can't be deleted: %s", error)


def _key(peer_id: str) -> str:
    return f"peer:{peer_id}"
