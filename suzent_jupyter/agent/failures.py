"""What ends a turn of a model, in words for people: short, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from ..protocol.text import clean_text

if TYPE_CHECKING:
    from .clients import Endpoint

_CHARS = 300
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_KEYS = re.compile(r"\b(?:sk|szt|pk|rk)[-_][A-Za-z0-9_*.-]{6,}|(?<=Bearer )\S+", re.IGNORECASE)
_WHY = {
    400: "it does not accept the request",
    401: "it does not accept the key",
    402: "the account's credit is used up",
    403: "the key may not use this model",
    404: "it does not know the model",
    413: "the conversation is too long for it",
    429: "it is busy or the quota is used up",
}


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return text as one line that shows none of the secrets, nor what looks like one."""
    for secret in secrets:
        text = text.replace(secret, "…")
    return clean_text(_KEYS.sub("…", _USERINFO.sub("", text)), _CHARS)


def turn_error(error: Exception, endpoint: Endpoint, steps: int, tokens: int) -> SuzentError:
    """Return the error that ends a turn."""
    from pydantic_ai import exceptions

    if isinstance(error, SuzentError):
        return error
    name = clean_text(endpoint.model_name, 128)
    if isinstance(error, exceptions.UsageLimitExceeded):
        if "request_limit" in str(error):
            return SuzentError("turn_limit", f"The turn took more than {steps} requests to the model (agent_steps).")
        return SuzentError("turn_limit", f"The turn took more than {tokens:,} tokens of the model (agent_tokens).")
    details: dict[str, Any] = {}
    if isinstance(error, exceptions.ModelHTTPError):
        why = _WHY.get(error.status_code, "its server failed")
        said = without_secrets(_said(error.body), endpoint.secrets)
        message = f"The model '{name}' failed: {why} (HTTP {error.status_code})" + (f": {said}" if said else ".")
        if error.retry_after is not None:
            seconds = max(1, round(error.retry_after))
            message = f"{message.rstrip('.')}. It says to try again in {seconds} s."
            details["retry_after"] = seconds
    elif isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout) or "Timeout" in _kinds(error):
        message = f"The model '{name}' failed: its server fell silent."
    elif isinstance(error, exceptions.ModelConnectionError) or "TransportError" in _kinds(error):
        message = f"The model '{name}' failed: its server can't be reached, or hung up."
    elif isinstance(error, exceptions.ModelAPIError | exceptions.UnexpectedModelBehavior):
        said = without_secrets(error.message, endpoint.secrets)
        message = f"The model '{name}' failed: its answer can't be used: {said}"
    else:
        said = without_secrets(str(error), endpoint.secrets)
        message = f"The model '{name}' failed: {type(error).__name__}" + (f": {said}" if said else ".")
    return SuzentError("model_failed", message, details=details)


def _kinds(error: BaseException) -> str:
    """Return the names of an error's classes and of what caused it."""
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(names) < 64:
        names += [each.__name__ for each in type(cause).__mro__]
        cause = cause.__cause__
    return " ".join(names)


def _said(body: object) -> str:
    """Return the message in an error body of OpenAI's shape, if that is what it is."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        said = inner.get("message") if isinstance(inner, dict) else inner
        return said[:2000] if isinstance(said, str) else ""
    return ""
