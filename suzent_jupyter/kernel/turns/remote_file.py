"""Files that stayed on a peer: a result names them, and they are fetched through our gateway when somebody looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..plain import human_bytes, one_line
from ..results import MEDIA_BYTES, Binary

FILE_BYTES = 64 * 1024 * 1024  # a file that is fetched at all

_PATH = re.compile(r"/nodes/peers/(?P<peer>[^/?#]{1,200})/files/(?P<file>[A-Za-z0-9_-]{1,128})")

Fetch = Callable[[str, int], tuple[bytes, str]]


class RemoteFile(Binary):
    """A file on a peer. ``data`` fetches it, once; the peer keeps it for an hour at most.

    Attributes
    ----------
    url : str
        Where our gateway serves it.
    size : int
        Bytes, as the peer claims.
    """

    __slots__ = ("_content", "_fetch", "size", "url")

    def __init__(self, reference: dict[str, Any], fetch: Fetch) -> None:
        size = reference.get("size")
        self.url: str = reference["url"]
        self.media_type = one_line(reference.get("media_type") or "application/octet-stream", 100)
        self.name = one_line(reference.get("name"), 200)
        self.size = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else 0
        self._fetch = fetch
        self._content: bytes | None = None

    @property
    def data(self) -> bytes:  # type: ignore[override]
        """The content.

        Raises
        ------
        KernelError
            The peer does not serve it any more, can't be reached, or it is larger than 64 MiB.
        """
        if self._content is None:
            self._content, _ = self._fetch(self.url, FILE_BYTES)
        return self._content

    @property
    def is_shown(self) -> bool:
        """Whether looking at it may fetch it: an image or sound that claims a bearable size."""
        return self.media_type.partition("/")[0] in ("image", "audio") and self.size <= MEDIA_BYTES

    def facts(self) -> dict[str, Any]:
        """Return what is known without fetching it."""
        return {"name": self.name, "media_type": self.media_type, "bytes": self.size, "url": self.url}

    def __len__(self) -> int:
        return self.size if self._content is None else len(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteFile) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __repr__(self) -> str:
        return f"<{one_line(self.media_type, 60)} {self.name!r} on a peer, {human_bytes(len(self))}>"


def find_files(value: Any, peer_id: str, fetch: Fetch) -> Any:
    """Return JSON with each reference to a file of this very peer turned into a :class:`RemoteFile`.

    A reference to anything else stays data: a peer must not make us fetch from another one.
    """
    if isinstance(value, dict):
        url = value.get("url")
        if isinstance(url, str) and isinstance(value.get("id"), str):
            found = _PATH.fullmatch(url)
            if found and found["peer"] == peer_id and found["file"] == value["id"]:
                return RemoteFile(value, fetch)
        return {key: find_files(item, peer_id, fetch) for key, item in value.items()}
    if isinstance(value, list):
        return [find_files(item, peer_id, fetch) for item in value]
    return value


def list_files(value: Any, peer_id: str, fetch: Fetch) -> list[RemoteFile]:
    """Return the files of this peer that JSON refers to."""
    found: list[RemoteFile] = []
    waiting = [find_files(value, peer_id, fetch)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, RemoteFile):
            found.append(item)
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return found[::-1]
