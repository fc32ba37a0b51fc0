"""What the README shows works as it stands there."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from support.gateways import ThreadedGateway
from support.waiting import wait_for

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block(word: str) -> str:
    """Return the one code block that holds a word."""
    (found,) = [code for code in CODE if word in code]
    return found


@pytest.fixture
def run_script(tmp_path: Path, gateway: ThreadedGateway) -> Callable[..., subprocess.Popen[str]]:
    def run(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    return run


def test_the_device_in_any_language(
    tmp_path: Path, gateway: ThreadedGateway, run_script: Callable[..., subprocess.Popen[str]]
) -> None:
    script = block("Thermometer")
    assert len(script.strip().splitlines()) <= 26
    (tmp_path / "device.py").write_text(script.replace("ws://127.0.0.1:25314", gateway.url.replace("http", "ws")))
    device = run_script("device.py")
    try:
        assert device.stdout is not None
        code = device.stdout.readline().removeprefix("code: ").strip()

        async def work() -> None:
            await gateway.approve(code)
            async with gateway.http() as http:
                answer = await http.post("/nodes/Thermometer/invoke", json={"command": "temperature.get"})
                assert answer.json() == {"success": True, "result": {"celsius": 21.5}, "error": None}

        asyncio.run(work())
        program = "import sys; sys.stdout.reconfigure(line_buffering=True)\n" + block("import os, requests")
        (tmp_path / "program.py").write_text(program + "\nprint(nodes[0]['display_name'])")
        listed = run_script("program.py").communicate(timeout=30)[0]
        assert listed.strip() == "Thermometer"
    finally:
        device.kill()
        device.communicate()


def test_the_lamp(tmp_path: Path, gateway: ThreadedGateway, run_script: Callable[..., subprocess.Popen[str]]) -> None:
    (tmp_path / "lamp.py").write_text(block("lamp.set"))
    command = re.search(r"jupyter suzent (node host --name Lamp.*)", README)
    assert command is not None
    words = command.group(1).replace("ws://127.0.0.1:25314", gateway.node_url).split()
    lamp = run_script("-m", "suzent_jupyter.cli", *words)
    try:
        pending = f"{gateway.url}/nodes/pending"
        waiting = wait_for(lambda: httpx.get(pending, headers=gateway.headers).json()["pending"])
        code = waiting[0]["pairing_code"]

        async def work() -> None:
            await gateway.approve(code)
            async with gateway.http() as http:
                body = {"command": "lamp.set", "params": {"brightness": "40"}}
                answer = await http.post("/nodes/Lamp/invoke", json=body)
                assert answer.json()["result"] == {"brightness": 40, "color": "warm"}

        asyncio.run(work())
    finally:
        lamp.terminate()
        assert lamp.wait(20) == 0


def test_every_error_code_a_user_can_meet_is_listed() -> None:
    from suzent_jupyter.protocol.errors import ERRORS

    only_between_programs = set(
        "no_route method_not_allowed upgrade_required cancelled bad_answer bad_frame bad_handshake "
        "handshake_timeout internal pairing_denied pairing_expired too_many_pending too_many_sockets "
        "token_shared device_unknown url_too_long headers_too_large".split()
    )
    assert {code for code in ERRORS if f"`{code}`" not in README} <= only_between_programs


def test_the_test_command_is_what_ci_runs() -> None:
    command = re.search(r"^    (python3 -m venv .*pytest.*)$", README, re.MULTILINE)
    assert command is not None
    assert (Path(__file__).parents[1] / ".ci" / "run").read_text().splitlines()[-1] == command.group(1)
