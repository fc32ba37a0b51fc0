"""The gateway's lists as the socket reports them, for completion: always at hand, never fetched."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .channel import Channel

_FIRST_LOOK = 0.5  # s

_KEYS = {
    "nodes": "node_id",
    "pending": "pairing_code",
    "devices": "device_id",
    "connections": "gateway_url",
    "peers": "peer_id",
    "grants": "request_id",
    "conversations": "conversation_id",
    "permissions": "id",
}


class Mirror:
    """Copies of the lists in ``_KEYS`` that follow every change once :meth:`start` was called."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._started = self._looked = False
        self._items: dict[str, dict[str, dict[str, Any]]] = {topic: {} for topic in _KEYS}
        self._ready = {topic: threading.Event() for topic in _KEYS}

    def start(self) -> None:
        """Subscribe, in the background; does nothing the second time."""
        with self._lock:
            if self._started:
                return
            self._started = True
        for topic in _KEYS:
            self._channel.subscribe(topic, self._changed)

    def look(self) -> None:
        """Subscribe if need be; the first time, give the lists a moment to arrive."""
        self.start()
        if not self._looked:
            self._looked = True
            end = time.monotonic() + _FIRST_LOOK
            for topic in _KEYS:
                self.wait(topic, max(0.0, end - time.monotonic()))

    def items(self, topic: str) -> list[dict[str, Any]]:
        """Return the list as last heard; empty before the first snapshot."""
        return list(self._items[topic].values())

    @property
    def is_live(self) -> bool:
        """Whether changes arrive right now."""
        return self._channel.connected

    def wait(self, topic: str, seconds: float) -> bool:
        """Wait until the first snapshot of ``topic`` has arrived; return whether it has."""
        return self._ready[topic].wait(seconds)

    def _changed(self, topic: str, kind: str, item: Any) -> None:
        key = _KEYS[topic]
        if kind == "snapshot":
            self._items[topic] = {str(entry[key]): entry for entry in item if isinstance(entry, dict) and key in entry}
            self._ready[topic].set()
            return
        identity = str(item.get(key)) if isinstance(item, dict) else str(item)
        items = dict(self._items[topic])  # readers on other threads keep the old one
        if kind == "removed":
            items.pop(identity, None)
        elif isinstance(item, dict):
            items[identity] = item
        self._items[topic] = items
