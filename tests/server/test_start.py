"""While the store is still loading nobody's token is known: callers are told to wait, not that they are nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.gateways import ThreadedGateway

from suzent_jupyter.gateway.store import Store


def test_no_answer_is_given_from_an_empty_store(
    make_gateway: Callable[..., ThreadedGateway], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    first = make_gateway(tmp_path / "data", listener_port=0)

    async def token() -> str:
        async with first.http() as http:
            return str((await http.post("/nodes/host-token", json={})).json()["token"])

    mine = asyncio.run(token())
    first.stop()

    go, opening = threading.Event(), threading.Event()
    original = Store._open_engine

    def slow(self: Store, sa: Any) -> Any:
        opening.set()
        go.wait(20)
        return original(self, sa)

    monkeypatch.setattr(Store, "_open_engine", slow)
    made: list[ThreadedGateway] = []
    starting = threading.Thread(target=lambda: made.append(make_gateway(tmp_path / "data")))
    services: list[Any] = []
    before = ThreadedGateway.run

    def run(self: ThreadedGateway, *arguments: Any) -> Any:
        services.append(self)
        return before(self, *arguments)

    monkeypatch.setattr(ThreadedGateway, "run", run)
    starting.start()
    assert opening.wait(20)
    [gateway] = services
    try:
        # Either it waits until it knows, or it says that it is starting.
        with httpx.Client(headers={"Authorization": f"Bearer {mine}"}, timeout=0.5) as http:
            try:
                answer = http.get(f"http://127.0.0.1:{gateway.service.port}/nodes/devices")
            except httpx.TimeoutException:
                return
            assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    finally:
        go.set()
        starting.join(20)
