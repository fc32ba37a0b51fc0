"""``%suzent memory`` and ``gw.memory`` against a real gateway."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.gateways import ThreadedGateway

from suzent_jupyter.kernel import Gateway
from suzent_jupyter.kernel.completion import candidates
from suzent_jupyter.kernel.errors import KernelError, UsageError

from .conftest import Shell


@pytest.fixture
def gw(gateway: ThreadedGateway) -> Any:
    with Gateway(gateway.url, gateway.token) as made:
        yield made


def id_in(note: str) -> str:
    assert note.startswith("Kept as ") and note.endswith(" (level account).")
    return note.split()[2]


def test_a_frame_has_the_same_types_full_or_empty(gw: Gateway) -> None:
    empty = gw.memory.query("nothing")
    assert len(empty) == 0
    entry = gw.memory.save("The lab's PC is Zeus", tags=["lab", "names"])
    assert entry["created"] is True and gw.memory.save("The lab's PC is Zeus")["created"] is False
    found, everything = gw.memory.query("zeus"), gw.memory.frame
    for frame in (empty, found, everything):
        assert frame.index.name == "memory"
        kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
        assert kinds["created_at"] == "datetime64[us, UTC]" and kinds["level"] == "category"
        assert kinds["score"] == "Float64" and kinds["text"].startswith("string")
    [row] = found.reset_index().to_dict("records")
    assert row["memory"] == entry["memory_id"]
    assert (row["text"], row["tags"], row["level"], row["by"]) == (
        "The lab's PC is Zeus",
        "lab, names",
        "account",
        "kernel",
    )
    assert row["score"] > 0 and everything["score"].isna().all()
    assert abs(row["created_at"] - pd.Timestamp.now(tz="UTC")) < pd.Timedelta(hours=1)


def test_export(gw: Gateway, tmp_path: Path) -> None:
    texts = [f"entry {number}" for number in range(7)] + ["=cmd|' /C calc'!A0", 'with "quotes"\nand 東京']
    for text in texts:
        gw.memory.save(text)
    lines = tmp_path / "all.jsonl"
    assert gw.memory.export(lines) == len(texts)
    assert [json.loads(line)["content"] for line in lines.read_text().splitlines()] == texts[::-1]
    table = tmp_path / "all.CSV"
    assert gw.memory.export(str(table)) == len(texts)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["content"] == texts[-1] and rows[1]["content"] == "'" + texts[-2]
    with pytest.raises(UsageError, match="exists already"):
        gw.memory.export(lines)
    assert len(lines.read_text().splitlines()) == len(texts)
    with pytest.raises(UsageError, match="can't be written"):
        gw.memory.export(tmp_path / "none" / "x.jsonl")
    with pytest.raises(UsageError, match="not a level"):
        gw.memory.export(tmp_path / "x.jsonl", level="world")


def test_forget(gw: Gateway) -> None:
    one, two = (gw.memory.save(text)["memory_id"] for text in ("one", "two"))
    with pytest.raises(KernelError) as caught:
        gw.memory.forget(one, "0" * 13)
    assert caught.value.code == "memory_unknown" and len(gw.memory.records()) == 2
    assert gw.memory.forget(one, two) == 2
    gw.memory.save("three")
    assert gw.memory.forget(everything=True) == 1
    assert gw.memory.records() == []
    with pytest.raises(KernelError) as caught:
        gw.memory.save("x", level="enterprise")
    assert caught.value.code == "no_org"
    with pytest.raises(KernelError) as caught:
        gw.memory.save("x", conversation="never")
    assert caught.value.code == "conversation_unknown"


def test_the_magic(shell: Shell, tmp_path: Path) -> None:
    assert len(shell.run("%suzent memory")) == 0
    first = id_in(shell.run("%suzent memory save Don't forget: the lab's PC is Zeus --tags lab,names"))
    second = id_in(shell.run("%%suzent memory save\nTwo lines,\nof $which {the} second says more\n"))
    assert shell.run("%suzent memory save Don't forget: the lab's PC is Zeus").startswith("Kept already as ")
    assert list(shell.run("%suzent memory").index) == [second, first]
    assert list(shell.run("%suzent memory what is the lab's PC?").index) == [first]
    assert list(shell.run("%suzent memory query lab --level account")["tags"]) == ["lab, names"]
    assert shell.run("%suzent memory second")["text"].iloc[0] == "Two lines,\nof $which {the} second says more"
    file = tmp_path / "kept.jsonl"
    assert shell.run(f"%suzent memory export {file}") == f"2 entries written to {file}."
    assert shell.run(f"%suzent memory forget {first}") == "Forgot 1 entry."
    assert shell.run("%suzent memory forget --all") == "Forgot 1 entry."
    for line, said in (
        ("memory save", "needs TEXT"),
        ("memory forget", "needs ID"),
        (f"memory forget {first} --all", "needs ID"),
        ("memory export", "needs FILE"),
        ("memory save x --level world", "not a level"),
        ("memory forget x --tags a", "no option --tags"),
        ("memory save x --level", "needs a value"),
    ):
        with pytest.raises(UsageError, match=said):
            shell.ip.run_line_magic("suzent", line)
    with pytest.raises(UsageError, match="takes no cell body"):
        shell.ip.run_cell_magic("suzent", "memory forget", "x")


def test_completion(shell: Shell) -> None:
    mirror = shell.ip.suzent_magics.mirror()
    assert candidates(mirror, "memory s")[1] == ["save"]
    assert candidates(mirror, "memory --level e")[1] == ["enterprise"]
    assert candidates(mirror, "memory forget --a")[1] == ["--all"]
    assert "--tags" not in candidates(mirror, "memory forget ")[1]
