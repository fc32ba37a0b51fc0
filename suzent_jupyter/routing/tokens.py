"""Text as the terms that are compared: the same cut for what nodes say and for what is asked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from .steps import Steps, whole
from .stopwords import HAN_PARTICLES, STOP_WORDS

READ_CHARS = 16_000
"""Characters of a text that are read: of a longer one its beginning and its end, half of that each."""

TERM_CHARS = 64
"""Longer runs of letters and digits are no words, but hashes and files."""

WORDS_A_STEP = 64

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
    """Return the terms of a text: its words (see :func:`words`) without stop words."""
    return whole(cut(text))


def cut(text: str) -> Steps[list[str]]:
    """Return the terms of a text, in short steps."""
    found = []
    for number, word in enumerate(words(text)):
        if number % WORDS_A_STEP == 0:
            yield
        if word not in STOP_WORDS:
            found.append(word)
    return found


def words(text: str) -> Iterator[str]:
    """Give the words of a text in their order, as often as they occur.

    NFKC and casefolded. Cut at whatever is neither letter nor digit, in camelCase and between letters and digits; such
    a word also stays whole, so that ``PyTorch``, ``macOS`` and ``RTX4090`` are found however they are written. Han,
    Kana and Hangul are taken as overlapping pairs within one script, a single character by itself.
    """
    if len(text) > READ_CHARS:
        half = READ_CHARS // 2
        text = f"{text[:half]} {text[-half:]}"
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    for match in _RUNS.finditer(text):
        run = match[0]
        if match.lastgroup == "pairs":
            for i in range(max(1, len(run) - 1)):
                yield run[i : i + 2]
        elif len(run) <= TERM_CHARS:
            yield run.casefold()
            if run.isdigit() or (run.isalpha() and (run[1:].islower() or run.isupper())):
                continue
            parts = _BORDERS.split(run)
            if len(parts) > 1:
                # A letter that is left alone (the i of iPhone) would match what it has nothing to do with.
                for part in parts:
                    if len(part) > 1 or part.isdigit():
                        yield part.casefold()


def is_pair(term: str) -> bool:
    """Whether a term is a pair (or a single one) of Han, Kana or Hangul characters."""
    return _PAIRED.match(term) is not None
