"""The files one gateway keeps for a while, and the addresses under which they can be fetched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ...protocol.artifacts import ArtifactReference

if TYPE_CHECKING:
    from ..gateway import Gateway


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
        self._url = url

    async def keep(
        self, account: str, pieces: AsyncIterator[bytes], *, media_type: str, name: str
    ) -> tuple[ArtifactReference, bool]:
        """Keep a file as it comes, never whole in memory; returns its reference, and whether it is new.

        Raises
        ------
        SuzentError
            ``too_large``, ``artifact_store_full``, ``artifact_store_failed``; nothing of it is kept then.
        """
        raise NotImplementedError

    async def open(
        self, artifact_id: str, expires: str, signature: str
    ) -> tuple[ArtifactReference, AsyncIterator[bytes]]:
        """Return a file by its signed address; ``artifact_unknown`` for one that is wrong or over."""
        raise NotImplementedError
