"""Joining another gateway from a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable

from support.gateways import ThreadedGateway


def test_connect_list_and_disconnect(gateway: ThreadedGateway, make_gateway: Callable[..., ThreadedGateway]) -> None:
    lab = make_gateway(account="bob")

    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "suzent_jupyter.cli", "node", *arguments],
            env={**os.environ, "SUZENT_BASE_URL": gateway.url.replace("://", f"://suzent:{gateway.token}@")},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stdout or done.stderr

    assert "No gateway has been joined" in run("connections")
    shown = run("connect", lab.url, "--name", "Desk")
    [listed] = json.loads(run("connections", "--json"))["connections"]
    code = listed["pairing_code"]
    assert f"jupyter suzent node approve {code}" in shown and "jupyter suzent node connections" in shown
    assert (listed["status"], listed["display_name"]) == ("pending", "Desk")
    assert code in run("connections")
    asyncio.run(lab.approve(code))
    again = json.loads(run("connect", lab.node_url, "--json"))
    assert again["success"] and again["status"] in ("pending", "connected")
    assert json.loads(run("disconnect", lab.url, "--json"))["success"] is True
    assert "can't be reached" in run("connect", "127.0.0.1:9", status=1)
