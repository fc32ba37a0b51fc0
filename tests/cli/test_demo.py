"""The demo as a person runs it: checked without a browser, and ended by Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from support.waiting import wait_for

DEMO = [sys.executable, "-m", "suzent_jupyter.cli", "demo"]


def runs(process: psutil.Process) -> bool:
    """Tell whether a process does anything: who is left an orphan may never be reaped here."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.timeout(240)
def test_check_does_it_all_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = subprocess.run([*DEMO, "--check"], cwd=tmp_path, capture_output=True, text=True, timeout=220)
    assert run.returncode == 0, run.stdout + run.stderr
    steps = [line.split()[0] for line in run.stdout.splitlines()]
    assert steps == ["gateway", *["approve"] * 2, *["describe"] * 2, *["invoke"] * 5, "notebook", "All"]
    assert "camera.snap: PNG of 640 by 480 pixels" in run.stdout
    assert "120 rows of time, temperature, humidity" in run.stdout
    assert "szt_" not in run.stdout + run.stderr
    assert list(Path(os.environ["JUPYTER_RUNTIME_DIR"]).glob("suzent-*.json")) == []


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_every_process(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--no-browser", "--port=0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert demo.stdout is not None
    text = ""
    while "Ctrl-C" not in text:
        line = demo.stdout.readline()
        assert line, f"ended early: {text}"
        text += line
    url = re.search(r"http://\S+", text)
    assert url is not None
    assert httpx.get(url.group(0), follow_redirects=True).status_code == 200
    children = psutil.Process(demo.pid).children(recursive=True)
    assert len(children) >= 3
    demo.send_signal(number)
    assert demo.wait(30) == (-number if number == signal.SIGKILL else 0)
    wait_for(lambda: not any(map(runs, children)), 30, what="every process to end")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_while_it_starts_ends_every_process(tmp_path: Path, name: str) -> None:
    (tmp_path / "a place").mkdir()
    demo = subprocess.Popen(
        [*DEMO, "--no-browser", "--port=0", "--dir", "my demo"], cwd=tmp_path / "a place", start_new_session=True
    )
    children: list[psutil.Process] = []
    wait_for(lambda: children.extend(psutil.Process(demo.pid).children(recursive=True)) or children)
    demo.send_signal(getattr(signal, name))
    assert demo.wait(30) == 0
    wait_for(lambda: not any(map(runs, children)), what="every process to end")


@pytest.mark.timeout(240)
def test_a_relative_directory_with_blanks_is_used_and_kept(tmp_path: Path) -> None:
    run = subprocess.run([*DEMO, "--check", "--dir", "my demo"], cwd=tmp_path, capture_output=True, timeout=220)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "my demo" / "notebooks" / "01_quickstart.ipynb").exists()


def test_the_guide_is_found() -> None:
    from suzent_jupyter.cli.demo.run import find_notebooks

    assert (find_notebooks() / "01_quickstart.ipynb").exists()
