"""What changed, told to whoever subscribed. Nothing is built when nobody listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .principals import Principal

Listener = Callable[[str, Any], None]


class Changes:
    """Listeners by topic; each hears only what its principal may see."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[Listener, Principal]] = {}

    def subscribe(self, topic: str, listener: Listener, principal: Principal) -> None:
        """Call ``listener(kind, item)`` at each change of ``topic``."""
        self._listeners.setdefault(topic, {})[listener] = principal

    def unsubscribe(self, topic: str, listener: Listener) -> None:
        """Stop that."""
        self._listeners.get(topic, {}).pop(listener, None)

    def publish(
        self, topic: str, kind: str, item: Callable[[], Any] | Any, may_see: Callable[[Principal], bool]
    ) -> None:
        """Tell every listener that may see it.

        Parameters
        ----------
        topic, kind : str
            As in :class:`~suzent_jupyter.protocol.client.Change`.
        item : Any or callable
            The item, or what makes it when somebody listens.
        may_see : callable
            Principal → bool.
        """
        listeners = [listener for listener, principal in self._listeners.get(topic, {}).items() if may_see(principal)]
        if listeners:
            built = item() if callable(item) else item
            for listener in listeners:
                listener(kind, built)
