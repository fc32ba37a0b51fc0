"""What a gateway is compared with: a bare server in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def bare_server(module: str) -> Iterator[int]:
    """Run a module of this package that prints its port; return that."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.benchmarks.{module}"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
