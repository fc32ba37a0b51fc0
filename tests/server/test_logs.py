"""What the gateway says: one form for every line, in the log of the application that runs it."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.device import BareDevice
from support.gateways import Process
from support.running import sync, until
from traitlets.config import Application

from suzent_jupyter.server.logs import PACKAGE, join_log, leave_log

LINE = re.compile(r"\[[DIWEC] \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\w+)\] (.*)")


def messages(process: Process, source: str) -> list[str]:
    """Return what a source said; every line that speaks of devices, ports or gateways must have Jupyter's form."""
    lines = process.log.read_text().splitlines()
    ours = [line for line in lines if re.search(r"[Dd]evice |Port \d|The gateway", line)]
    found = [LINE.fullmatch(line) for line in ours]
    assert all(found), ours
    return [match[2] for match in found if match is not None and match[1] == source]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def visit(process: Process) -> tuple[str, str]:
    """Pair a device, leave, and return its code and id."""
    async with BareDevice(process.node_url, "Pho\x1b[31mne\nE 2026] forged") as device:
        code = await device.code()
        await process.approve(code)
        await device.joined()
    return code, device.node_id


@pytest.mark.parametrize("kind", ["alone", "jupyter"])
@sync
async def test_every_line_has_the_form_of_jupyters(
    start_process: Callable[..., Process], start_jupyter: Callable[..., Any], taken: int, kind: str
) -> None:
    process = start_process(port=taken) if kind == "alone" else start_jupyter()
    code, node_id = await visit(process)
    name = "'Phone E 2026] forged'"
    await until(lambda: "disconnected" in process.log.read_text())
    said = messages(process, "suzent_jupyter")
    if kind == "alone":
        assert said[0].startswith(f"Port {taken} is taken; the gateway listens on port ")
        assert any("Ctrl-C" in line for line in messages(process, "StandaloneGateway"))
    assert [line for line in said if name in line] == [
        f"Device {name} at 127.0.0.1 waits for approval with the code {code}",
        f"Device {name} ({node_id}) at 127.0.0.1 connected",
        f"Device {name} ({node_id}) at 127.0.0.1 disconnected",
    ]


def test_the_level_is_the_applications_and_all_is_put_back() -> None:
    logger, application, other = logging.getLogger(PACKAGE), Application(log_level="ERROR"), Application()
    join_log(application)
    assert (logger.parent, logger.level) == (application.log, logging.ERROR)
    other.log = logging.getLogger("other")
    leave_log(other)
    assert logger.parent is application.log
    leave_log(application)
    assert (logger.parent, logger.level) == (logging.getLogger(), logging.NOTSET)
