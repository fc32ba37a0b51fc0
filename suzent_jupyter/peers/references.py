"""References to a peer's files: made into URLs of this gateway, which fetches them with its own token."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

_THERE = "/nodes/peer-files/"
_DEPTH = 64  # answers of gateways are shallow; deeper ones stay as they are


def file_url(peer_id: str, file_id: str) -> str:
    """Return where this gateway hands out a file of a peer."""
    return f"/nodes/peers/{quote(peer_id, safe='')}/files/{quote(file_id, safe='')}"


def with_local_urls(value: Any, peer_id: str, depth: int = _DEPTH) -> Any:
    """Return a peer's answer with each reference to one of its files led through this gateway.

    A reference is an object with ``id`` and the ``url`` ``/nodes/peer-files/{id}``, however deep it stands.
    """
    if depth <= 0:
        return value
    if isinstance(value, list):
        return [with_local_urls(item, peer_id, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    file_id, url = value.get("id"), value.get("url")
    if isinstance(file_id, str) and file_id and url == f"{_THERE}{file_id}":
        return {**value, "url": file_url(peer_id, file_id), "peer_id": peer_id}
    return {key: with_local_urls(item, peer_id, depth - 1) for key, item in value.items()}
