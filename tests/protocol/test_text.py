"""Names and descriptions from devices become one line of printable text."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.text import clean_tags, clean_text


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  My   Phone ", "My Phone"),
        ("a\nb\r\nc\td", "a b c d"),
        ("\x1b[31mred\x1b[0m\x07", "red"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("\u2066a\u2069\u200e\u200f\ufeff", "a"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("x" * 500, "x" * 64),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("e\u0301", "é"),
        ("a\u2028b\u2029c\u0085d", "a b c d"),
        ("a\x00b", "ab"),
        ("\ud800a", "a"),
        ("\ue000a", "a"),
        ("\u200d\u200d", ""),
        ("\u0301", ""),
        ("   ", ""),
        ("", ""),
        (None, ""),
        (5, ""),
        (["a"], ""),
    ],
)
def test_cleaning(raw: Any, clean: str) -> None:
    assert clean_text(raw, 64) == clean


@given(st.text(), st.integers(1, 80))
def test_clean_text_is_short_printable_and_stays_as_it_is(raw: str, limit: int) -> None:
    text = clean_text(raw, limit)
    assert len(text) <= limit
    assert "\n" not in text
    bad = {"Cc", "Cs", "Co", "Zl", "Zp"}
    assert not any(unicodedata.category(char) in bad for char in text)
    assert not any(char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f" for char in text)
    assert clean_text(text, limit) == text


def test_tags_are_cleaned_distinct_and_few() -> None:
    assert clean_tags(["lab", "lab", " lab ", "", 5, None, "x\n"], 32) == ["lab", "x"]
    assert clean_tags([str(number) for number in range(100)], 3) == ["0", "1", "2"]
    assert clean_tags("lab", 3) == []
