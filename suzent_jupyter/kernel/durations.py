"""Spans of time as people type them."""

from __future__ import annotations

import re

from .errors import UsageError
from .plain import one_line

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_duration(text: str) -> float:
    """Return ``30m``, ``12h``, ``7d``, ``2w`` or a number of seconds as seconds.

    Raises
    ------
    UsageError
        It is none of these, or nothing.
    """
    found = _FORM.fullmatch(text.strip().casefold())
    value = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < value < 1e10:
        raise UsageError(f"'{one_line(text, 40)}' is not a span of time.", hint="Such as 30m, 12h, 7d, or seconds.")
    return value
