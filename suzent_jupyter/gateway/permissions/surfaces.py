"""The web surfaces that are open: where people of an account can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..principals import Principal

Tell = Callable[[dict[str, Any]], None]


class Surfaces:
    """Sockets of people. Those that are told by ``permission.*`` frames give a way to send them; others subscribe."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[Principal, Tell | None]] = {}

    def opened(self, link: object, principal: Principal, tell: Tell | None = None) -> None:
        """Count a socket."""
        self._open[link] = (principal, tell)

    def closed(self, link: object) -> None:
        """Count it no longer."""
        self._open.pop(link, None)

    def any(self, account: str) -> bool:
        """Tell whether somebody of an account can be asked."""
        return any(principal.account == account for principal, _ in self._open.values())

    def tell(self, account: str, frame: dict[str, Any]) -> None:
        """Send a frame to those of an account that take frames."""
        for principal, tell in list(self._open.values()):
            if tell is not None and principal.account == account:
                tell(frame)
