"""A turn's events come through a guest as they happen, and nobody there reads on for a caller who has hung up."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.gateways import JupyterServer, Process, jupyter_dirs
from support.running import sync, until
from support.turns import Reader, kinds, text_of

_SCRIPT = """
import sys
from support.noting_agent import install
from suzent_jupyter.server.standalone import StandaloneGateway

install(sys.argv[2])
StandaloneGateway.launch_instance(argv=sys.argv[3:])
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Process]:
    command = ["-c", _SCRIPT, "gateway", str(tmp_path / "notes"), "--port=0", "--StandaloneGateway.heartbeat=0.1"]
    path = os.pathsep.join(filter(None, sys.path))
    process = Process(command, {**jupyter_dirs(tmp_path), "PYTHONPATH": path}, tmp_path)
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log.read_text()


@pytest.fixture
def guest(tmp_path: Path, host: Process) -> Iterator[JupyterServer]:
    server = JupyterServer(tmp_path)
    assert server.url == host.url
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


def door_connections(host: Process, guest: JupyterServer) -> int:
    """Return how many connections the gateway has from guests."""
    [facts] = Path(guest.env["JUPYTER_RUNTIME_DIR"]).glob(f"suzent_host_{host.process.pid}_*.json")
    port = json.loads(facts.read_text())["door_port"]
    connections = psutil.Process(host.process.pid).net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in connections)


@sync
async def test_events_come_as_they_happen(host: Process, guest: JupyterServer, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with guest.http() as http:
        http.base_url = guest.mount
        idle = door_connections(host, guest)
        async with Reader(http, "/chat", {"message": f"wait {gate}"}) as reader:
            run_id = (await reader.next("RUN_STARTED"))["runId"]
            assert (await reader.next("TEXT_MESSAGE_CONTENT"))["delta"] == "waiting "
            rest = asyncio.create_task(reader.rest())
            await until(lambda: reader.comments >= 3)
            assert door_connections(host, guest) > idle
            rest.cancel()
            await asyncio.wait([rest])
        await until(lambda: door_connections(host, guest) <= idle)
        # The turn went on without its reader.
        resumed = Reader(http, "/chat", {}, headers={**guest.headers, "Last-Event-ID": f"{run_id}:2"})
        async with resumed as again:
            assert (await again.next())["type"] == "TEXT_MESSAGE_END"
            gate.touch()
            events = await again.rest()
        assert text_of(events) == f"did wait {gate}"
        assert kinds(events)[-1] == "RUN_FINISHED"
