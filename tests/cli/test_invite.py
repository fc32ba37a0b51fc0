"""``jupyter suzent invite``: link and QR code in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from support import qr
from support.device import BareDevice
from support.external import external_address
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.pairing_link import PairingLink


def run(gateway: ThreadedGateway, *arguments: str, **options: Any) -> str:
    url = gateway.url.replace("://", f"://suzent:{gateway.token}@")
    done = subprocess.run(
        [sys.executable, "-m", "suzent_jupyter.cli", *arguments],
        env={**os.environ, "SUZENT_BASE_URL": url, **options.pop("env", {})}, capture_output=True, text=True,
        encoding="utf-8", timeout=60, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@sync
async def test_on_this_machine_alone(gateway: ThreadedGateway) -> None:
    answer = json.loads(run(gateway, "invite", "Bench 3", "--json"))
    assert answer["name"] == "Bench 3"
    async with BareDevice(gateway.node_url, "Pi", ticket=answer["ticket"]) as device:
        await device.code()
        heading, row = run(gateway, "node", "pending").splitlines()
        assert "Bench 3" in row
        assert "INVITED" in heading
    text = run(gateway, "invite")
    assert "█" not in text
    assert PairingLink.parse(text.splitlines()[0]).socket_url == gateway.node_url
    assert "jupyter suzent config set node_lan_bind true" in text
    assert "%suzent" not in text
    assert "address: This machine" in run(gateway, "config", "get")


@pytest.fixture
def open_gateway(make_gateway: Any) -> ThreadedGateway:
    if external_address() is None:
        pytest.skip("this machine has no address but loopback")
    made: ThreadedGateway = make_gateway(settings=Settings(node_lan_bind=True))
    return made


def test_the_code_says_the_link(open_gateway: ThreadedGateway) -> None:
    lines = run(open_gateway, "invite", env={"PYTHONIOENCODING": "utf-8"}).splitlines()
    link = next(line for line in lines if line.startswith("http"))
    code = lines[: lines.index(link)]
    modules = qr.expected(link)
    assert qr.modules_of_terminal(code)[: len(modules)] == modules
    lines = run(open_gateway, "invite", env={"PYTHONIOENCODING": "ascii"}).splitlines()
    link = next(line for line in lines if line.startswith("http"))
    plain = [[line[column : column + 2] != "##" for column in range(0, 2 * len(modules), 2)] for line in lines]
    assert plain[: len(modules)] == qr.expected(link)


def test_on_a_terminal_both_colours_are_said(open_gateway: ThreadedGateway) -> None:
    url = open_gateway.url.replace("://", f"://suzent:{open_gateway.token}@")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "suzent_jupyter.cli", "invite"], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "SUZENT_BASE_URL": url, "PYTHONIOENCODING": "utf-8", "COLUMNS": "400"},
    ) as process:  # fmt: skip
        os.close(theirs)
        output = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            output += part
        assert process.wait(60) == 0
    os.close(ours)
    lines = [line.removesuffix("\r") for line in output.decode().split("\n")]
    code = [
        line.removeprefix("\x1b[97;40m").removesuffix("\x1b[0m") for line in lines if line.startswith("\x1b[97;40m")
    ]
    link = next(line for line in lines if line.startswith("http"))
    modules = qr.expected(link)
    assert qr.modules_of_terminal(code)[: len(modules)] == modules
