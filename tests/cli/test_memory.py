"""``jupyter suzent memory`` against a real gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_keep_find_export_forget(run: Run, tmp_path: Path) -> None:
    assert run("memory").stdout == "Nothing is kept.\n"
    said = run("memory", "save", "The", "lab's", "PC", "is", "Zeus", "--tags", "lab,names").stdout
    assert said.startswith("Kept as ") and said.endswith(" (level account).\n")
    memory_id = said.split()[2]
    kept = json.loads(run("memory", "save", "-", "--json", input="from stdin \x1b[31m\n").stdout)
    assert (kept["content"], kept["created"], kept["level"]) == ("from stdin", True, "account")
    header, newest, oldest = run("memory").stdout.splitlines()
    assert header.split()[:3] == ["MEMORY_ID", "LEVEL", "CONTENT"]
    assert newest.startswith(kept["memory_id"]) and oldest.startswith(memory_id) and "lab, names" in oldest
    for words in (["zeus"], ["query", "zeus"], ["what", "is", "the", "lab's", "pc?", "--level", "account"]):
        assert memory_id in run("memory", *words).stdout
        assert kept["memory_id"] not in run("memory", *words).stdout
    assert json.loads(run("memory", "zeus", "--json").stdout)["memories"][0]["score"] > 0
    assert run("memory", "export", "all.jsonl").stdout == "2 entries written to all.jsonl.\n"
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 2
    assert "exists already" in run("memory", "export", "all.jsonl", status=2).stderr
    assert run("memory", "forget", memory_id).stdout == "Forgot 1 entry.\n"
    unknown = run("memory", "forget", memory_id, status=1).stderr
    assert "There is no entry" in unknown and "`jupyter suzent memory`" in unknown
    assert "--all" in run("memory", "forget", status=2).stderr
    assert run("memory", "forget", "--all").stdout == "Forgot 1 entry.\n"
    assert "not a level" in run("memory", "save", "x", "--level", "world", status=2).stderr
    assert "organisation" in run("memory", "save", "x", "--level", "enterprise", status=1).stderr
