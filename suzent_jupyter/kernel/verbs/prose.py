"""Lines that are a prompt with options before or after it: the prompt stays as it was typed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import UsageError
from ..plain import one_line
from . import Context

_VALUE = r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\s'"]\S*))"""
_PLAIN = r"""(?:"[^"]*"|'[^']*'|[^\s'"][^\s'"]*)"""


def prompt_of(context: Context, typed: str) -> str:
    """Return the prompt: the cell's body where there is one, else what was typed on the line.

    Raises
    ------
    UsageError
        It stands in both places.
    """
    if context.body is None:
        return typed
    if typed:
        raise UsageError(
            f"'{one_line(typed, 40)}' is one word too many.", hint="With %% the prompt stands below the line."
        )
    return context.body.strip("\n")


@dataclass
class Prose:
    """A line's prompt, its options with a value, and its flags.

    Attributes
    ----------
    options : dict
        The last value of each.
    every : dict
        All of them, in order.
    """

    text: str = ""
    options: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    every: dict[str, list[str]] = field(default_factory=dict)


def read_prose(line: str, options: tuple[str, ...], flags: tuple[str, ...] = (), *, usage: str) -> Prose:
    """Read ``[--option VALUE] [--flag] PROMPT [--option VALUE] [--flag]``.

    What looks like an option in the middle of the prompt is part of it. A prompt that is quoted as a whole loses its
    quotes.

    Raises
    ------
    UsageError
        An option's value is missing.
    """
    found = Prose()
    names = "|".join(map(re.escape, options)) or r"(?!)"
    one = rf"(?:(?:{names})(?:=|\s+){_PLAIN}|(?:{'|'.join(map(re.escape, flags)) or r'(?!)'}))"
    rest = line.strip()
    front = re.match(rf"(?:{one}(?:\s+|$))+", rest)
    if front:
        _take(found, front[0], names)
        rest = rest[front.end() :]
    back = re.search(rf"(?:(?:^|\s+){one})+$", rest)
    if back:
        _take(found, back[0], names)
        rest = rest[: back.start()]
    bare = re.search(rf"(?:^|\s)({names})=?$", rest) if options else None
    if bare:
        raise UsageError(f"{bare[1]} needs a value.", hint=usage)
    rest = rest.strip()
    if len(rest) > 1 and rest[0] in "'\"" and rest[-1] == rest[0] and rest[0] not in rest[1:-1]:
        rest = rest[1:-1]
    found.text = rest
    return found


def _take(found: Prose, text: str, names: str) -> None:
    for each in re.finditer(rf"(?P<name>{names})(?:=|\s+){_VALUE}(?=\s|$)|(?P<flag>--[\w-]+)(?=\s|$)", text):
        if each["flag"]:
            found.flags.add(each["flag"])
        else:
            value = each["double"] or each["single"] or each["plain"] or ""
            found.options[each["name"]] = value
            found.every.setdefault(each["name"], []).append(value)
