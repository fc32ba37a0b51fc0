"""Tier 1: what a language model is asked, and what of its answer counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """What to send to the model: a system text, a user text (JSON) and the JSON schema of the answer."""

    system: str
    user: str
    schema: dict[str, Any]


Ask = Callable[[Question], Awaitable[str]]
"""Sends a question and returns the model's answer, the JSON text as it came. The router sees to the timeout."""


class AskFailedError(Exception):
    """What an :data:`Ask` raises where the model gives no answer. Its text is shown to people: no secrets."""
