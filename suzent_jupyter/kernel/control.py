"""Asking another gateway for control: the code in large, what to do over there, and what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .plain import one_line
from .show import code_bundle, code_text
from .values import quote, typed_code

if TYPE_CHECKING:
    from .peering import Peering

Record = dict[str, Any]
POLL = 1.0  # s; our gateway asks the other one by itself, this only looks


class ControlRequest:
    """A request for control of another gateway; as the last expression of a cell it says what to do.

    Our gateway goes on asking how it stands, also after this object is gone.

    Attributes
    ----------
    status : str
        ``pending``, ``approved``, ``denied`` or ``expired``.
    base_url : str
        Whom we asked.
    code : str
        What the other operator compares and approves; ``""`` where that gateway shows none.
    """

    def __init__(self, gateway: Peering, answer: Record, name: str | None = None) -> None:
        self._gateway = gateway
        self._name = name
        self._request_id = str(answer.get("request_id") or "")
        self._peer_id = ""
        self.base_url = one_line(answer.get("base_url"), 400)
        self.code = one_line(answer.get("code"), 64)
        self.expires_at = one_line(answer.get("expires_at"), 40)
        self.status = ""
        self._take(answer)

    def _take(self, answer: Record) -> None:
        self.status = one_line(answer.get("status"), 40) or "pending"
        self._peer_id = str(answer.get("peer_id") or self._peer_id)

    @property
    def is_over(self) -> bool:
        """Whether it was decided, or is too old."""
        return self.status != "pending"

    @property
    def peer(self) -> Record | None:
        """The peer's record once it was approved, None before."""
        if self.status != "approved":
            return None
        return self._gateway.peer(self._peer_id or self.base_url)

    def refresh(self) -> ControlRequest:
        """Look how it stands, and return this request."""
        if not self.is_over:
            query: Record = {"base_url": self.base_url, "request_id": self._request_id, "name": self._name}
            self._take(self._gateway.get("/nodes/control-status", **query))
        return self

    def wait(self, timeout: float | None = None) -> ControlRequest:
        """Wait until it is decided, at most ``timeout`` seconds, and return this request, decided or not."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.refresh().is_over:
            left = POLL if end is None else end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(POLL, left))
        return self

    def _says(self) -> tuple[str, str, list[str]]:
        """Return a sentence, the code or ``""``, and what to do."""
        there = self.base_url or "the other gateway"
        name = quote(one_line(self._name, 64)) if self._name else "PEER"
        match self.status:
            case "pending":
                if self.code:
                    typed = typed_code(self.code)
                    how = f"%suzent approve {typed}  or  jupyter suzent control approve {typed}."
                else:
                    how = "in Suzent under Settings → Devices, or with whatever that gateway offers."
                until = f" It waits until {self.expires_at[11:16]} UTC." if self.expires_at[11:16] else ""
                return (
                    f"Asked {there} for control: its operator must approve this request.",
                    self.code,
                    [f"Approve it there:  {how}", f"%suzent peers shows when it is approved.{until}"],
                )
            case "approved":
                return f"{there} may be driven from here.", "", [f"Next: %suzent trigger {name} How are you?"]
            case "denied":
                return f"{there} denied control.", "", ["Ask its operator before you ask again."]
            case "expired":
                return f"Nobody decided at {there} in time.", "", [f"%suzent control {there} asks again."]
        return f"{there} answered: {self.status}.", "", ["%suzent peers shows how it stands."]

    def __repr__(self) -> str:
        return code_text(*self._says())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Record:
        return code_bundle(*self._says())


def looks_like_address(text: str) -> bool:
    """Tell an address or link from the name of a peer, which may be one that the peer itself chose."""
    host, _, port = text.rpartition(":")
    return "://" in text or (bool(host) and port.isdigit()) or ("." in text and " " not in text.strip())
