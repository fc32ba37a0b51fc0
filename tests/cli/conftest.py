"""The command line as people and scripts run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(gateway: ThreadedGateway, tmp_path: Path) -> Run:
    """Run ``jupyter suzent …`` with the gateway in the environment; both outputs are pipes."""

    def start(*arguments: str, status: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SUZENT_BASE_URL": gateway.url.replace("://", f"://suzent:{gateway.token}@")}
        environment |= options.pop("env", {})
        done = subprocess.run(
            [sys.executable, "-m", "suzent_jupyter.cli", *arguments],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, **options,
        )  # fmt: skip
        assert done.returncode == status, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
        if status:
            assert len(done.stderr.strip().splitlines()) == 1 or status == 2
        return done

    return start
