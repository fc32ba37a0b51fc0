"""Paths as the machine they are meant for writes them: its separators, and nothing else changed.

Whoever types a path does not know what the other machine runs, so ``data\\raw.csv`` goes to Linux as ``data/raw.csv``.
Drive letters, shares (UNC), URLs, patterns and plain text stay: what is no path for certain is left alone.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path

_CHARS = 4096  # no path is longer; nor is more looked at
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Two letters at least: one is a drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
#: ``\\?\`` and ``\\.\``: Windows takes what follows as it stands, and only with backslashes.
_VERBATIM = re.compile(r"\\\\[?.]\\")
_SHARE = re.compile(r"(\\\\|//)[^\\/\s?.*][^\\/]*[\\/][^\\/]")
_HOME_OR_HERE = re.compile(r"(~[\w.-]*|\.{1,2})[\\/]")
#: What Windows forbids in names; elsewhere it makes a pattern or a sentence.
_FORBIDDEN = re.compile(r'[<>:"|?*]')
# What follows a prefix of a path may be named as oddly as it likes, but for a class that is repeated: \d+, \w{2}.
_CLASSES = re.compile(r"\\[dDwWsSbBAZnrt](?=[+*?{\[\](|)])")
_REGEX = re.compile(
    r"\\[dDwWsSbBAZnrt](?![\w .\\/-])[^\\/]"  # a class with something after it
    r"|\\\.(?!\.?(?:[\\/]|$))|\\[\^$*+?()\[\]{}|]"  # an escaped sign: \., \(
    r"|[\])}][+*?{]|\[[^\]]*\w-\w[^\]]*\]|[\^$]"  # (…)+, [a-z], anchors
)
_ESCAPED_BLANK = re.compile(r"\\[ '\"&;!#`]")  # as in a shell
_SENTENCE = re.compile(r"[,;.!?:] |[.!?…]$")
_WORDS = 5
_SMALL_WORDS = frozenset(
    ["a", "an", "and", "are", "as", "for", "from", "in", "is", "it", "of", "or", "the", "to", "with"]
)


def separator_of(system: str) -> str | None:
    """Return what separates the parts of a path on a platform such as ``windows`` or ``linux``; None if unknown."""
    name = system.casefold()
    if name.startswith("win"):
        return "\\"
    known = ("linux", "darwin", "mac", "ios", "ipados", "android", "freebsd", "openbsd", "netbsd", "unix", "posix")
    return "/" if name.startswith(known) else None


def convert_path(text: str, system: str) -> str:
    """Return a path with the separators of a platform, and anything that is no path as it is.

    Parameters
    ----------
    text : str
        ``C:\\data\\x.csv``, ``\\\\server\\share\\x``, ``~/x``, ``data/x`` …; separators may be mixed.
    system : str
        The platform of the machine it goes to, as that names itself. An unknown one changes nothing.
    """
    target = separator_of(system)
    other = "/" if target == "\\" else "\\"
    if target is None or other not in text or not is_path(text):
        return text
    return text.replace(other, target)


def local_path(text: str, exists: Callable[[Path], bool]) -> Path:
    """Return the file of this machine that a path means, also one that is written as elsewhere; ``~`` is home.

    Parameters
    ----------
    exists : callable
        Tells whether there is such a file: a name may hold what separates names elsewhere.
    """
    converted = convert_path(text, platform.system())
    return Path(text if exists(Path(text)) else converted).expanduser()


def is_path(text: str) -> bool:
    """Tell whether a text with separators in it is a path for certain."""
    if not text or len(text) > _CHARS or text != text.strip() or _CONTROL.search(text) or _VERBATIM.match(text):
        return False
    if (prefix := _DRIVE.match(text) or _HOME_OR_HERE.match(text)) is not None:
        rest = text[prefix.end() - 1 :]
        return not (_FORBIDDEN.search(rest) or _CLASSES.search(rest) or _ESCAPED_BLANK.search(rest))
    if _SCHEME.match(text):
        return False
    if text.startswith(("//", "\\\\")):
        return _SHARE.match(text) is not None and not _FORBIDDEN.search(text)
    if _FORBIDDEN.search(text) or _REGEX.search(text) or _ESCAPED_BLANK.search(text):
        return False
    if text.startswith("\\"):
        # The root of some drive; or a command of TeX, an escape.
        parts = text[1:].split("\\")
        return len(parts) > 1 and all(len(part) > 1 for part in parts) and not _is_sentence(text)
    return text.startswith("/") or not _is_sentence(text)


def _is_sentence(text: str) -> bool:
    words = text.split()
    if len(words) == 1:
        return False
    return len(words) > _WORDS or bool(_SENTENCE.search(text)) or not _SMALL_WORDS.isdisjoint(map(str.casefold, words))
