"""What the end of a connection means: final, or worth another attempt."""

from __future__ import annotations

from typing import Any

from websockets.exceptions import ConnectionClosed

from ..protocol.errors import CLOSE_PROTOCOL, CLOSE_REFUSED, CLOSE_REPLACED, CLOSE_REVOKED
from ..protocol.text import clean_text

_TEXT = 500
_REPLACED = "another process connected as this device and took its place"


class Refused(Exception):  # noqa: N818 - an end, not an error of ours
    """The gateway does not want this device; trying again would not change that."""


class Revoked(Refused):
    """The operator took the approval back."""


class Lost(Exception):  # noqa: N818
    """The connection ended in a way that trying again may mend."""


def verdict(closed: ConnectionClosed) -> Refused | Lost:
    """Return what the end of a connection means."""
    code = closed.rcvd.code if closed.rcvd else 1006
    reason = clean_text(closed.rcvd.reason, _TEXT) if closed.rcvd else ""
    match code:
        case _ if code == CLOSE_REVOKED:
            return Revoked(reason or "this device was revoked; run it again to ask for a new approval")
        case _ if code == CLOSE_REPLACED:
            return Refused(_REPLACED)
        case _ if code == CLOSE_REFUSED:
            return Refused(reason or "the gateway refused this device")
        case _ if code == CLOSE_PROTOCOL:
            return Refused(f"the gateway speaks another protocol ({reason or 'closed with 1002'})")
    if closed.rcvd is None and closed.sent is not None:
        return Lost(f"closed by this side with {closed.sent.code} {clean_text(closed.sent.reason, _TEXT)}".strip())
    return Lost(f"the connection was closed ({code}{f' {reason}' if reason else ''})")


def refusal(frame: dict[str, Any]) -> Refused | Lost:
    """Return what an ``error`` frame means."""
    message = text_of(frame, "message") or "the gateway refused this device"
    if frame.get("retryable") is True:
        return Lost(message)
    if frame.get("code") == "replaced":
        return Refused(_REPLACED)
    text = f"{message} {text_of(frame, 'hint')}".strip()
    return Revoked(text) if frame.get("code") == "revoked" else Refused(text)


def text_of(frame: dict[str, Any], field: str, limit: int = _TEXT) -> str:
    """Return a field of a frame as text for people; ``""`` where it is none."""
    return clean_text(frame.get(field), limit)
