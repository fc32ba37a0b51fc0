"""What a docstring says about a function and its parameters, in NumPy, Google or Sphinx style."""

from __future__ import annotations

import inspect
import re

_UNDERLINE = re.compile(r"-{3,}\s*")
_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
_NUMPY_NAMES = re.compile(r"\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph as one line, and parameter name → description."""
    lines = inspect.cleandoc(text or "").splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _GOOGLE.fullmatch(line) or _SPHINX.match(line):
            break
        summary.append(line.strip())
    return " ".join(summary), _numpy(lines) or _google(lines) or _sphinx(lines)


def _numpy(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    starts = [at for at, line in enumerate(lines[:-1]) if line == "Parameters" and _UNDERLINE.fullmatch(lines[at + 1])]
    for at, line in enumerate(lines[starts[0] + 2 :] if starts else [], starts[0] + 2 if starts else 0):
        if line[:1].isspace():
            current.append(line.strip())
        elif at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]):
            break
        elif _NUMPY_NAMES.fullmatch(names := line.split(":")[0].strip()):
            current = []
            found |= dict.fromkeys((name.strip(" *") for name in names.split(",")), current)
    return _joined(found)


def _google(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    inside, indent = False, 0
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not inside or (line.strip() and depth == 0):
            inside, indent = bool(_GOOGLE.fullmatch(line)), 0
            continue
        indent = indent or depth
        entry = _GOOGLE_ENTRY.match(line.strip())
        if entry and depth == indent:
            found[entry[1]] = [entry[2]]
        elif found and line.strip():
            next(reversed(found.values())).append(line.strip())
    return _joined(found)


def _sphinx(lines: list[str]) -> dict[str, str]:
    return {entry[1]: entry[2].strip() for line in lines if (entry := _SPHINX.match(line.strip()))}


def _joined(found: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(filter(None, parts)) for name, parts in found.items() if any(parts)}
