"""What a peer answered, read with suspicion: an object, or an error whose words are cleaned."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ERRORS, SuzentError
from ..protocol.limits import KIB, Limits
from ..protocol.text import clean_text
from ..protocol.wire import decode, is_shallow
from .http import Answer, place

if TYPE_CHECKING:
    import httpx

REFUSAL_BYTES = 64 * KIB  # of an answer that is no success
_WORDS = 300
_DEPTH = 100
_NOT_FOUND = re.compile(r"not\s+found", re.IGNORECASE)
#: What a peer may say in a code of ours: of a call, its nodes and its agent, never of this gateway or its callers.
_PASSED_ON = frozenset(
    (
        "invalid_params", "invalid_timeout", "too_large", "node_ambiguous", "unknown_command", "pending_reapproval",
        "paused", "node_busy", "node_disconnected", "bad_answer", "deadline", "nodes_disabled", "no_agent",
        "agent_failed", "agent_gone", "model_failed", "conversation_busy", "nothing_running", "run_unknown",
        "run_expired", "file_unknown", "attachment_refused", "too_many_requests",
        "too_many_turns",
    )
)  # fmt: skip

_OPERATOR = "Ask that machine's operator."
#: What our own hints say is for the operator of the gateway that refuses.
_HINTS = {
    "unknown_command": "`jupyter suzent peer capabilities PEER` lists what its devices can do.",
    **dict.fromkeys(("pending_reapproval", "paused", "nodes_disabled", "no_agent"), _OPERATOR),
}


def object_of(url: str, answer: Answer) -> dict[str, Any]:
    """Return the JSON object a peer answered with.

    Raises
    ------
    SuzentError
        ``bad_peer_answer`` for anything else, or as :func:`refusal` for a status of 400 and more.
    """
    if answer.status >= 400:
        raise refusal(url, answer.status, answer.content)
    found = _parsed(answer.content)
    if not isinstance(found, dict):
        what = "a web page" if answer.content.lstrip()[:1] == b"<" else "no JSON object"
        raise SuzentError(
            "bad_peer_answer",
            f"What answers at {place(url)} is no gateway: it sent {what}.",
            hint="Check the address and port; behind Jupyter it ends in /suzent.",
        )
    return found


def refusal(url: str, status: int, content: bytes, name: str = "") -> SuzentError:
    """Return the error that a peer's status and body stand for.

    Parameters
    ----------
    url : str
        What was asked.
    name : str
        How the peer is called, instead of its address.
    """
    who = name or place(url)
    body = _parsed(content)
    body = body if isinstance(body, dict) else {}
    words = _words(body)
    code = body.get("code")
    if status == 401:
        return SuzentError("peer_revoked", f"{who} does not accept our token any more: it was revoked or paused there.")
    if status == 403 and words:
        return SuzentError("peer_refused", f"{who} refuses: {words}")
    if isinstance(code, str) and code in _PASSED_ON:
        details: dict[str, Any] = {}
        after = body.get("retry_after")
        if isinstance(after, int) and not isinstance(after, bool) and 0 < after <= 3600:
            details["retry_after"] = after
        return SuzentError(code, f"{who} says: {words or ERRORS[code].hint}", hint=_HINTS.get(code), details=details)
    if words:
        return SuzentError("peer_refused", f"{who} says: {words}", hint=clean_text(body.get("hint"), _WORDS) or None)
    if status in (502, 503, 504):
        return SuzentError("peer_unreachable", f"{who} does not answer now ({status}).")
    if status >= 500:
        return SuzentError(
            "bad_peer_answer", f"{who} failed over this request ({status}).", hint="The log of that gateway says why."
        )
    return SuzentError(
        "bad_peer_answer",
        f"What answers at {who} is no gateway: it answered {status}.",
        hint="Check the address and port; behind Jupyter it ends in /suzent.",
    )


async def refusal_of(response: httpx.Response, url: str, name: str, limits: Limits) -> SuzentError:
    """Return the same of an answer that comes as a stream; a body that is too long, or does not end, says nothing."""
    import httpx

    content = b""
    with contextlib.suppress(TimeoutError, httpx.TransportError, httpx.StreamError):
        async with asyncio.timeout(limits.peer_timeout):
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > REFUSAL_BYTES:
                    break
    return refusal(url, response.status_code, content, name)


def without_not_found(words: str) -> str:
    """Return what a peer says without two words: Suzent's CLI takes them for a node of ours, and looks for a peer."""
    return _NOT_FOUND.sub("unknown", words)


def _words(body: dict[str, Any]) -> str:
    """Return what the peer says."""
    for key in ("error", "message", "detail"):  # ours and Suzent's, an action's, FastAPI's
        if words := clean_text(body.get(key), _WORDS):
            return without_not_found(words)
    return ""


def _parsed(content: bytes) -> Any:
    try:
        found = decode(content)
    except SuzentError:
        return None
    # What is nested deeper can be read, just, but not be passed on.
    return found if is_shallow(found, _DEPTH) else None
