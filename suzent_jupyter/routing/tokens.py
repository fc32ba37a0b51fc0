"""Text as the terms that are compared: the same cut for what nodes say and for what is asked."""

from __future__ import annotations

import re
import unicodedata

from .stopwords import HAN_PARTICLES, STOP_WORDS

READ_CHARS = 16_000
"""Characters of a text that are read: of a longer one its beginning and its end, half of that each."""

TERM_CHARS = 64
"""Longer runs of letters and digits are no words, but hashes and files."""

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af"
# Marks that are parts of words though Python's \w leaves them out: accents that stayed apart, Hebrew and Arabic vowels,
# and the vowel signs of the Indic scripts, Thai and Lao (their blocks without the full stops U+0964 and U+0965).
_MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0e3a\u0e40-\u0eff"

# Each script of its own: Kana between Han are particles and endings, which would blur every pair they got into.
_RUNS = re.compile(
    f"(?P<pairs>(?:(?![{HAN_PARTICLES}])[{_HAN}])+|[{_HIRAGANA}]+|[{_KATAKANA}]+|[{_HANGUL}]+)"
    f"|(?P<word>(?:(?![{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}])(?:[^\\W_]|[{_MARKS}]))+)"
)
_PAIRED = re.compile(f"[{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}]")
# cameraSnap | HTTPServer | gpu2 | 4K
_BORDERS = re.compile(
    "(?<=[^\\W\\d_])(?=\\d)|(?<=\\d)(?=[^\\W\\d_])"
    "|(?<=[a-zß-öø-ÿа-я])(?=[A-ZÀ-ÖØ-ÞА-Я])|(?<=[A-ZÀ-ÖØ-ÞА-Я])(?=[A-ZÀ-ÖØ-ÞА-Я][a-zß-öø-ÿа-я])"
)


def terms(text: str) -> list[str]:
    """Return the terms of a text (see :func:`words`) without stop words."""
    return [word for word in words(text) if word not in STOP_WORDS]


def words(text: str) -> list[str]:
    """Return the words of a text in their order, as often as they occur.

    NFKC and casefolded. Cut at whatever is neither letter nor digit, in camelCase and between letters and digits; such
    a word also stays whole, so that ``PyTorch``, ``macOS`` and ``RTX4090`` are found however they are written. Han,
    Kana and Hangul are taken as overlapping pairs within one script, a single character by itself.
    """
    if len(text) > READ_CHARS:
        half = READ_CHARS // 2
        text = f"{text[:half]} {text[-half:]}"
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = []
    for match in _RUNS.finditer(text):
        run = match[0]
        if match.lastgroup == "pairs":
            found += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
        elif len(run) <= TERM_CHARS:
            found.append(run.casefold())
            if run.isdigit() or (run.isalpha() and (run[1:].islower() or run.isupper())):
                continue
            parts = _BORDERS.split(run)
            if len(parts) > 1:
                # A letter that is left alone (the i of iPhone) would match what it has nothing to do with.
                found += [part.casefold() for part in parts if len(part) > 1 or part.isdigit()]
    return found


def is_pair(term: str) -> bool:
    """Whether a term is a pair (or a single one) of Han, Kana or Hangul characters."""
    return _PAIRED.match(term) is not None
