"""The command line as people and scripts run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateways import ThreadedGateway
from support.played_suzent import PlayedSuzent

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


@pytest.fixture
def take_control(gateway: ThreadedGateway) -> Callable[[PlayedSuzent], None]:
    """Have the gateway control a server, under the name "Desk"."""

    def take(server: PlayedSuzent) -> None:
        with httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=20) as http:
            asked = http.post("/nodes/control", json={"base_url": server.url, "name": "Desk"}).json()
            server.do("approve", request_id=asked["request_id"])
            query = {"base_url": server.url, "request_id": asked["request_id"], "name": "Desk"}
            assert http.get("/nodes/control-status", params=query).json()["status"] == "approved"

    return take
