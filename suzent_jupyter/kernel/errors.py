"""Failures as exceptions, one class for each thing a notebook may want to catch."""

# ruff: noqa: N818 - the names say what happened

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ERRORS, SuzentError
from ..protocol.text import clean_lines
from .plain import one_line

if TYPE_CHECKING:
    from .results import Result
    from .turns.answer import Answer


class KernelError(SuzentError):
    """A failure seen from a notebook: the gateway's refusals, and what goes wrong on the way to it.

    Attributes
    ----------
    code : str
        The gateway's code (``protocol.errors.ERRORS``) or one of the notebook side's own: ``no_gateway``,
        ``unreachable``, ``untrusted``, ``connection_lost``, ``capability_failed``, ``usage``, ``content``.
    message, hint : str
        What went wrong, and what to do about it.
    retryable : bool
        Whether the same call may succeed later.
    details : dict
        Further fields, such as ``ids``.
    """

    default_code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
        status: int | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        # SuzentError's own constructor knows only codes of the protocol; a newer gateway may send others.
        Exception.__init__(self, message)
        self.code = code or self.default_code
        spec = ERRORS.get(self.code)
        self.message = clean_lines(message, 2000)
        self.hint = clean_lines(hint if hint is not None else spec.hint if spec else "", 500)
        self.retryable = retryable if retryable is not None else bool(spec and spec.retryable)
        self.status = status if status is not None else spec.status if spec else 0
        self.details = details or {}

    def __str__(self) -> str:
        return self.sentences

    def copy(self) -> KernelError:
        """Return an equal error without a traceback, to raise once more."""
        return copy.copy(self)

    @property
    def line(self) -> str:
        """The whole as one line."""
        return one_line(str(self), 1000)


class NoGateway(KernelError):
    """No gateway was found, or more than one without a way to choose."""

    default_code = "no_gateway"


class Unreachable(KernelError, ConnectionError):
    """The gateway does not answer; nothing was sent."""

    default_code = "unreachable"


class Untrusted(Unreachable):
    """The gateway could not show that it is the right one; nothing was sent to it."""

    default_code = "untrusted"


class ConnectionLost(KernelError, ConnectionError):
    """The connection broke while a call was under way: whether the device carried it out is unknown."""

    default_code = "connection_lost"


class Unauthorized(KernelError, PermissionError):
    """The gateway does not accept the token."""

    default_code = "unauthorized"


class NodeNotFound(KernelError, KeyError):
    """No connected node has this name, id or id prefix."""

    default_code = "node_not_found"


class NodeAmbiguous(KernelError, LookupError):
    """More than one node fits; ``details["ids"]`` lists them."""

    default_code = "node_ambiguous"


class UnknownCommand(KernelError, LookupError):
    """The node has no such command."""

    default_code = "unknown_command"


class InvalidParams(KernelError, ValueError):
    """A parameter does not fit what the command declared, or can't be sent as JSON."""

    default_code = "invalid_params"


class CallTimeout(KernelError, TimeoutError):
    """The device did not answer in time."""

    default_code = "deadline"


class CallCancelled(KernelError):
    """The call was cancelled."""

    default_code = "cancelled"


class NotAllowed(KernelError, PermissionError):
    """Somebody was to allow it first, and said no (``permission_denied``), nothing, or could not be asked."""

    default_code = "permission_denied"


class CapabilityFailed(KernelError):
    """The device ran the command and reported a failure; ``result`` is the whole answer."""

    default_code = "capability_failed"

    def __init__(self, message: str, *, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class TurnFailed(KernelError):
    """A turn on a peer ended in an error, whose ``code`` it has; ``answer`` is what had come by then."""

    default_code = "agent_failed"

    def __init__(self, message: str, *, answer: Answer | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.answer = answer


class PeerUnknown(KernelError, LookupError):
    """No peer has this name, id or id prefix."""

    default_code = "peer_unknown"


class ContentError(KernelError, ValueError):
    """The result does not hold what was asked for, such as an image."""

    default_code = "content"


class UsageError(KernelError, ValueError):
    """A magic or command line was typed wrongly."""

    default_code = "usage"


_CLASSES: dict[str, type[KernelError]] = {
    kind.default_code: kind
    for kind in (
        Unauthorized,
        NodeNotFound,
        NodeAmbiguous,
        UnknownCommand,
        InvalidParams,
        CallTimeout,
        CallCancelled,
        PeerUnknown,
        NotAllowed,
    )
}
_CLASSES |= dict.fromkeys(("permission_needed", "permission_expired"), NotAllowed)
# Where the gateway's own words are meant for agents, which are to do without.
_HINTS = {
    "permission_denied": "`%suzent permissions --history` says who said no; agree with them, then run it again.",
}


def from_body(body: Any, status: int) -> KernelError:
    """Return the exception for an error body ``{error, code, hint, retryable, …}`` of the gateway."""
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        said = body.get("message") or body.get("error") if isinstance(body, dict) else body
        text = f"The gateway answered {status}{': ' + one_line(said) if said else ''}."
        if status in (401, 403):
            return Unauthorized(text, status=status)
        return KernelError(text, status=status, hint="")
    code = body["code"]
    hint, retryable = _HINTS.get(code, body.get("hint")), body.get("retryable")
    return _CLASSES.get(code, KernelError)(
        str(body.get("error") or body.get("message") or code),
        code=code,
        hint=hint if isinstance(hint, str) else None,
        retryable=retryable if isinstance(retryable, bool) else None,
        status=status,
        details={key: value for key, value in body.items() if key not in ("error", "code", "hint", "retryable")},
    )
