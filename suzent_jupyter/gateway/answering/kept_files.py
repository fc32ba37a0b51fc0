"""Files of a turn that are too large for its frame: kept before it is sent, where its node knows references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.agents import Turn
from ...protocol.artifacts import ArtifactReference
from ...protocol.errors import SuzentError
from ..artifacts.call_files import takes_references
from ..artifacts.storage import PIECE_BYTES

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession


async def keep_attachments(
    gateway: Gateway, account: str, session: NodeSession, turn: Turn
) -> dict[Path, ArtifactReference]:
    """Keep a turn's large files, and return what goes in place of each; all the others go inside.

    Raises
    ------
    SuzentError
        ``artifact_store_full``, ``artifact_store_failed`` or ``node_disconnected``. Nothing may be sent then.
    """
    kept: dict[Path, ArtifactReference] = {}
    if not takes_references(session):
        return kept
    for each in turn.attachments:
        if each.size <= gateway.limits.hoist_bytes:
            continue
        pieces = gateway.artifacts.iterate(_read(each.path))
        kept[each.path], _ = await gateway.artifacts.keep(
            account, pieces, media_type=each.media_type, name=each.name, size=each.size
        )
        if not session.alive:
            raise SuzentError("node_disconnected", f"{session.display_name} disconnected.")
    return kept


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
