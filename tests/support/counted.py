"""A gateway in a process of its own that tells what it holds: memory, connections, sockets, tasks."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .gateways import Addresses, jupyter_dirs
from .waiting import wait_for

ROOT = Path(__file__).parents[2]


class CountedGateway(Addresses):
    """See ``tests/benchmarks/gateway.py``: one-word commands in, JSON lines out."""

    def __init__(self, root: Path, **limits: float) -> None:
        self.log = root / "gateway.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.benchmarks.gateway", str(root / "gateway"), json.dumps(limits)],
                cwd=ROOT,
                env={**os.environ, **jupyter_dirs(root)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        facts = self._answer()
        self.port, self.token = facts["port"], facts["token"]
        self.url = f"http://127.0.0.1:{self.port}"

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)

    def ask(self, command: str) -> Any:
        """Send a command and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def counts(self) -> dict[str, int]:
        return dict(self.ask("counts"))

    def settled(self, **like: int) -> dict[str, int]:
        """Wait until counts are as given, and return all of them."""
        last: dict[str, int] = {}

        def same() -> bool:
            last.update(self.counts())
            return all(last[name] <= count for name, count in like.items())

        try:
            wait_for(same, 20)
        except AssertionError:
            raise AssertionError(f"{last} does not become {like}") from None
        return last

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(20)


@contextlib.contextmanager
def many_files(wanted: int = 12_000) -> Iterator[None]:
    """Let this process, and those it starts, have many sockets open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
