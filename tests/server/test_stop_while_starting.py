"""A server that is stopped while its gateway still starts leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.gateway.store import Store
from suzent_jupyter.server.service import GatewayService, ServiceConfig
from suzent_jupyter.server.single.lock import GatewayLock
from suzent_jupyter.server.tls.certificate import OwnCertificate


def listening() -> set[int]:
    found = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize(
    ("place", "name"), [(Store, "_open_engine"), (OwnCertificate, "ensure"), (GatewayLock, "__init__")]
)
def test_nothing_goes_on_after_the_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    reached, go = threading.Event(), threading.Event()
    original = getattr(place, name)

    def slow(*arguments: Any) -> Any:
        reached.set()
        assert go.wait(20)
        return original(*arguments)

    async def work() -> None:
        before = listening()
        service = GatewayService()
        settings = Settings(display_name="Short-lived", node_discovery_enabled=False)
        config = ServiceConfig(
            data_dir=tmp_path / "data", account="ada", listener_port=0, tls="auto", tls_port=0, settings=settings
        )
        monkeypatch.setattr(place, name, slow)
        starting = asyncio.ensure_future(service.start(config))
        assert await asyncio.to_thread(reached.wait, 20)
        stopping = asyncio.ensure_future(service.stop())
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait_for(asyncio.gather(starting, stopping), 20)
        assert not service.running
        assert listening() <= before
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(work())
    monkeypatch.undo()
    lock = GatewayLock(tmp_path / "data")
    assert lock.take()
    lock.close()


@sync
async def test_one_that_has_run_stops_as_before(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway()
    async with gateway.http() as http:
        assert (await http.get("/nodes")).status_code == 200
    await asyncio.to_thread(gateway.stop)
    assert not gateway.service.running
