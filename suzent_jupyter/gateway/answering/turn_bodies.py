"""A turn as JSON that fits into one frame: files inside, the oldest messages left out if need be."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...protocol.agents import Turn, TurnAttachment
from ...protocol.artifacts import ArtifactReference
from ...protocol.text import clean_text
from ...protocol.wire import encode

_SPARE_BYTES = 64 * 1024  # of a frame, for what is neither history nor file


def turn_body(
    turn: Turn, attachment_bytes: float, kept: Mapping[Path, ArtifactReference] | None = None
) -> dict[str, Any]:
    """Return a turn's fields, with as much of its files as may be sent along; the note says what was left out.

    ``kept`` holds the references that go in place of files. Reads from disk.
    """
    files, left_out = _inlined(turn.attachments, int(attachment_bytes), kept or {})
    body: dict[str, Any] = turn.model_dump(mode="json", exclude={"attachments"})
    body["attachments"] = files
    if left_out:
        body["note"] = f"{turn.note}\nLeft out, since too large to be sent along: {', '.join(left_out)}.".strip()
    return body


def shorten(body: dict[str, Any], room: float) -> dict[str, Any]:
    """Return a turn's fields without the oldest messages that would make it larger than ``room`` bytes."""
    history = list(body["history"])
    spare = room - len(encode({**body, "history": []})) - _SPARE_BYTES
    sizes = [len(encode(message)) + 1 for message in history]
    while history and sum(sizes) > spare:
        history.pop(0)
        sizes.pop(0)
    return {**body, "history": history}


def _inlined(
    attachments: list[TurnAttachment], room: int, kept: Mapping[Path, ArtifactReference]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return files as they go over the wire, and what had to be left out. Reads from disk."""
    files: list[dict[str, Any]] = []
    left_out = []
    for each in attachments:
        if each.path in kept:
            files.append(kept[each.path].model_dump())
            continue
        try:
            data = each.path.read_bytes() if each.path.stat().st_size <= room else None
        except OSError:
            data = None
        if data is None:
            left_out.append(f"{clean_text(each.name, 128)} ({each.size:,} bytes)")
            continue
        room -= len(data)
        content = base64.b64encode(data).decode("ascii")
        files.append({"name": each.name, "media_type": each.media_type, "base64": content})
    return files, left_out
