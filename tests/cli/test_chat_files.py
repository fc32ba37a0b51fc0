"""Files that go along with a prompt, from a terminal: sent ahead, shown on stderr, stopped by Ctrl-C."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gateways import ThreadedGateway
from support.kept import digest, kept_files
from support.waiting import wait_for

from suzent_jupyter.gateway.artifacts.storage import Draft
from suzent_jupyter.kernel import Gateway
from suzent_jupyter.node import NodeHost, TokenVault
from suzent_jupyter.protocol.agents import Turn

Run = Callable[..., subprocess.CompletedProcess[str]]


def read_files(message: str, turn: Turn) -> str:
    """Tell what came along."""
    each = [f"{a.name} {a.size} {hashlib.sha256(a.path.read_bytes()).hexdigest()}" for a in turn.attachments]
    return f"{message}: {', '.join(each)}"


@pytest.fixture
def lab(gateway: ThreadedGateway, tmp_path: Path) -> Iterator[NodeHost]:
    """A node that answers prompts."""
    vault = TokenVault(tmp_path / "keys", keyring=False)
    host = NodeHost(gateway.url, name="Lab", protocol="multinode", agent=read_files, capabilities=[], vault=vault)
    host.run_in_thread()
    assert host.wait_for("pending", timeout=20) == "pending"
    with Gateway(gateway.url, gateway.token) as operator:
        operator.approve(host.pairing_code or "")
    assert host.wait_for("connected", timeout=20) == "connected"
    yield host
    host.stop()
    host.wait_for("stopped", "refused", timeout=10)


@pytest.mark.usefixtures("lab")
def test_files_go_along(run: Run, tmp_path: Path, gateway: ThreadedGateway) -> None:
    large, small = os.urandom(9_000_000), b"a,b"
    (tmp_path / "large.bin").write_bytes(large)
    (tmp_path / "small.csv").write_bytes(small)
    done = run("chat", "look", "--attach", "large.bin", "-a", "small.csv")
    assert done.stdout == f"look: large.bin 9000000 {digest(large)}, small.csv 3 {digest(small)}\n"
    assert done.stderr.startswith("-> Lab") and len(done.stderr.splitlines()) == 1  # nobody watches a pipe
    assert len(kept_files(gateway)) == 1
    assert "can't be read" in run("chat", "look", "--attach", "none.txt", status=2).stderr


def started(gateway: ThreadedGateway, file: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a chat whose stderr is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "suzent_jupyter.cli", "chat", "look", "--attach", str(file)],
        env={**os.environ, "SUZENT_BASE_URL": gateway.url.replace("://", f"://suzent:{gateway.token}@")},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def read_all(terminal: int) -> str:
    """Return everything that was written to a terminal until its end."""
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:  # its other end is closed
        pass
    os.close(terminal)
    return text.decode()


@pytest.mark.usefixtures("lab")
def test_a_terminal_shows_how_far_it_is(gateway: ThreadedGateway, tmp_path: Path) -> None:
    data = os.urandom(30_000_000)
    (tmp_path / "film.mp4").write_bytes(data)
    process, terminal = started(gateway, tmp_path / "film.mp4")
    shown = read_all(terminal)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and digest(data) in out.decode()
    assert "\rSending film.mp4 [------------------------]   0% of 30.0 MB" in shown
    assert "Sent film.mp4, 30.0 MB in " in shown
    assert shown.index("Sent film.mp4") < shown.index("-> Lab")


@pytest.mark.usefixtures("lab")
def test_ctrl_c_stops_the_sending(gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, let_go = threading.Event(), threading.Event()
    original = Draft.write

    def write(draft: Draft, data: bytes) -> None:
        original(draft, data)
        begun.set()
        let_go.wait(20)

    monkeypatch.setattr(Draft, "write", write)
    with (tmp_path / "film.mp4").open("wb") as file:
        file.truncate(100_000_000)
    process, terminal = started(gateway, tmp_path / "film.mp4")
    try:
        assert begun.wait(60)
        process.send_signal(signal.SIGINT)
        shown = read_all(terminal)
        assert process.wait(30) != 0
        assert "Sending film.mp4: stopped" in shown and "Traceback" not in shown
    finally:
        let_go.set()
        process.kill()
    wait_for(lambda: not kept_files(gateway))
