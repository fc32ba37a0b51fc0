"""What is shown of parameters: nothing that would run can stand where it is not seen."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from suzent_jupyter.gateway.permissions.summary import clean_summary, freeze

DANGER = "rm -rf /home"
FILLER = "x" * 3000


def shown(params: Any) -> str:
    return freeze("run", "", json.dumps(params).encode()).summary.params


@pytest.mark.parametrize(
    "line",
    [
        f"data:,; {DANGER}; # {FILLER}",
        f"data:text/plain,; {DANGER}; # {FILLER}",
        f"data:text/plain;base64,{DANGER}; # {FILLER}",
        f"data:;base64,AAAA\n{DANGER}\n{FILLER}",
        f"data:; {DANGER};base64,{FILLER}",
        f"data:text/plain;base64,{'A' * 4096}; {DANGER}",
    ],
)
def test_only_what_is_nothing_but_a_file_is_taken_out(line: str) -> None:
    assert DANGER in shown({"line": line})
    assert DANGER in shown({"args": {"media_type": "text/plain", "base64": line}})
    assert DANGER in clean_summary({"params": {"line": line}}, "shell").params


def test_a_file_is_still_shown_as_one() -> None:
    content = base64.b64encode(b"y" * 4001).decode()
    frozen = freeze("run", "", json.dumps({"icon": f"data:image/png;charset=x;base64,{content}"}).encode())
    assert frozen.summary.files == [{"name": "", "media_type": "image/png", "size": 4001}]
    assert json.loads(frozen.summary.params) == {"icon": "data:image/png;charset=x;base64,… a file of 4,001 bytes …"}


@pytest.mark.parametrize("count", [8, 20, 100])
def test_many_long_values_do_not_push_out_what_comes_after(count: int) -> None:
    params = {**{f"name {n}": FILLER for n in range(count)}, "line": DANGER}
    text = shown(params)
    assert len(text) < 17_000 and "left out" in text
    assert json.loads(text)["line"] == DANGER and len(json.loads(text)) == count + 1
    assert DANGER in clean_summary({"params": params}, "shell").params


def test_the_end_is_shown_where_nothing_fits() -> None:
    params = {"many": ["y" * 30] * 10_000, "line": DANGER}
    assert shown(params).endswith(f'"line": "{DANGER}"}}') and "left out" in shown(params)
    assert clean_summary({"params": "y" * 100_000 + DANGER}, "shell").params.endswith(DANGER)


def test_names_that_differ_where_they_are_cut_are_shown_all() -> None:
    text = shown({"a" * 2500 + "1" + "b" * 500: DANGER, "a" * 2500 + "2" + "b" * 500: "ls"})
    assert DANGER in text and "ls" in text


@pytest.mark.parametrize(
    "blank", ["\u2800", "\u3164", "\u115f", "\uffa0", "\u034f", "\ufe0f", "\U0001d173", "\U000f0000"]
)
def test_what_looks_like_nothing_is_shown_by_its_number(blank: str) -> None:
    assert blank not in shown({"line": f"ls{blank}"}) and "\\u" in shown({"line": f"ls{blank}"})
