"""The prompts that wait for this account, as the socket reports them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..channel import Channel

Record = dict[str, Any]

_KEPT = 256  # closed prompts; whoever waits for one looks several times a second


class Feed:
    """Those of one gateway; followed from the first :meth:`start` on.

    Attributes
    ----------
    open : dict
        The prompts that wait by id, oldest first; replaced and never changed, so that any thread may read it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._started = False
        self._closed: OrderedDict[str, Record] = OrderedDict()
        self.open: dict[str, Record] = {}

    def start(self) -> None:
        """Subscribe, in the background; does nothing the second time."""
        with self._lock:
            if self._started:
                return
            self._started = True
        self._channel.subscribe("permissions", self._changed)

    def ended(self, prompt_id: str) -> Record:
        """Return how a prompt ended that is not open any more; empty where that was not heard."""
        return self._closed.get(prompt_id, {})

    def _changed(self, _topic: str, kind: str, item: Any) -> None:
        if kind == "snapshot":
            self.open = {str(each["id"]): each for each in item if isinstance(each, dict) and "id" in each}
            return
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            return
        waiting = dict(self.open)
        if kind == "removed":
            self._closed[item["id"]] = item
            while len(self._closed) > _KEPT:
                self._closed.popitem(last=False)
            waiting.pop(item["id"], None)
        else:
            waiting[item["id"]] = item
        self.open = waiting
