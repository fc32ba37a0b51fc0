"""Rules as data: what the other side must keep, how it is looked at, and what was seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from websockets.exceptions import ConnectionClosed, WebSocketException

from ...protocol.text import clean_text

Kit = TypeVar("Kit")
Level = Literal["must", "should"]
Status = Literal["kept", "broken", "skipped"]

_PATIENCE = 75.0  # seconds for one rule
_LONG_PATIENCE = 240.0  # seconds for a slow one
_SEEN_CHARS = 300
_TOO_LONG: tuple[Status, str] = ("skipped", "takes long: --slow")


class Broken(Exception):  # noqa: N818 - a finding, not an error
    """The rule is not kept; the text says what was seen."""


class Skipped(Exception):  # noqa: N818
    """The rule can't be looked at here; the text says why."""


class Unreachable(Exception):  # noqa: N818
    """There is nobody to look at."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[Kit]):
    """One rule.

    Attributes
    ----------
    id : str
        Such as ``invoke.deadline``.
    sentence : str
        What the other side does if it keeps the rule.
    section : str
        Where it is written.
    level : str
        ``must`` or ``should``.
    legacy : bool
        Whether it is part of Suzent's own protocol too.
    check : callable
        Looks; returns what was seen, or raises :class:`Broken` or :class:`Skipped`.
    slow : bool
        Whether looking takes more than ten seconds.
    """

    id: str
    sentence: str
    section: str
    level: Level
    legacy: bool
    check: Callable[[Kit], Awaitable[str]]
    slow: bool = False


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What became of one rule: its own facts, ``status``, what was ``seen``, and how long looking took."""

    id: str
    sentence: str
    section: str
    level: Level
    legacy: bool
    status: Status
    seen: str
    seconds: float


class Rulebook(Generic[Kit]):
    """A list of rules that grows by decorated checks."""

    def __init__(self) -> None:
        self._rules: list[Rule[Kit]] = []

    def __iter__(self) -> Iterator[Rule[Kit]]:
        return iter(self._rules)

    def rule(
        self,
        rule_id: str,
        sentence: str,
        section: str = "4",
        *,
        level: Level = "must",
        legacy: bool = False,
        slow: bool = False,
    ) -> Callable[[Callable[[Kit], Awaitable[str]]], Callable[[Kit], Awaitable[str]]]:
        """Add the decorated coroutine function as the check of a rule."""

        def add(check: Callable[[Kit], Awaitable[str]]) -> Callable[[Kit], Awaitable[str]]:
            self._rules.append(Rule(rule_id, sentence, section, level, legacy, check, slow))
            return check

        return add


async def look(
    rules: Iterable[Rule[Kit]],
    kit: Kit,
    *,
    slow: bool = False,
    on_result: Callable[[RuleResult], Any] | None = None,
) -> list[RuleResult]:
    """Look at every rule, one after the other."""
    results = []
    for rule in rules:
        started = time.monotonic()
        skip = rule.slow and not slow
        status, seen = _TOO_LONG if skip else await _look(rule, kit)
        took = round(time.monotonic() - started, 3)
        seen = clean_text(seen, _SEEN_CHARS)
        result = RuleResult(rule.id, rule.sentence, rule.section, rule.level, rule.legacy, status, seen, took)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


async def _look(rule: Rule[Kit], kit: Kit) -> tuple[Status, str]:
    try:
        async with asyncio.timeout(_LONG_PATIENCE if rule.slow else _PATIENCE):
            return "kept", await rule.check(kit)
    except Skipped as reason:
        return "skipped", str(reason)
    except Broken as finding:
        return "broken", str(finding)
    except TimeoutError:
        return "broken", "nothing came in time"
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 1006
        return "broken", f"the connection was closed ({code}) in the middle of it"
    except (OSError, WebSocketException, ValueError, KeyError, TypeError) as error:
        # The other side may answer anything at all; whatever our look stumbles over is a finding.
        return "broken", f"{type(error).__name__}: {error}"


def expect(condition: Any, seen: str) -> None:
    """Raise :class:`Broken` with what was seen unless ``condition`` holds."""
    if not condition:
        raise Broken(seen)
