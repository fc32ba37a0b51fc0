"""Services in this process: who is the gateway, who is a guest, and what stays the same when the gateway goes."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until
from support.waiting import wait_for

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.pin import pinned_context
from suzent_jupyter.server.single import lock

MakeGateway = Callable[..., ThreadedGateway]


def is_host(gateway: ThreadedGateway) -> bool:
    return gateway.service.running and gateway.service.guest is None


def nodes(gateway: ThreadedGateway) -> httpx.Response:
    return httpx.get(f"{gateway.url}/nodes", headers=gateway.headers, timeout=20, trust_env=False)


def test_port_and_token_outlive_each_gateway_and_die_with_the_last(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one, two, three = (make_gateway(tmp_path / "data") for _ in range(3))
    assert [is_host(each) for each in (one, two, three)] == [True, False, False]
    assert len({(each.url, each.token) for each in (one, two, three)}) == 1
    one.stop()
    wait_for(lambda: is_host(two) or is_host(three), 5)
    assert nodes(one).status_code == 200  # its address, its token
    heir, other = (two, three) if is_host(two) else (three, two)
    wait_for(lambda: other.service.running, 5)
    assert not is_host(other)
    # A newcomer is a guest like all others.
    four = make_gateway(tmp_path / "data")
    assert (four.url, four.token, is_host(four)) == (one.url, one.token, False)
    heir.stop()
    wait_for(lambda: is_host(other) or is_host(four), 5)
    assert nodes(one).status_code == 200
    other.stop()
    four.stop()
    five = make_gateway(tmp_path / "data")
    assert five.token != one.token
    assert is_host(five)


@sync
async def test_a_device_comes_back_with_its_token(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one = make_gateway(tmp_path / "data")
    two = make_gateway(tmp_path / "data")
    async with BareDevice(one.node_url) as device:
        await one.pair(device)
    import asyncio

    await asyncio.to_thread(one.stop)
    await until(lambda: is_host(two), 5)
    async with BareDevice(one.node_url, device_token=device.token) as again:
        assert (await again.joined())["node_id"] == device.node_id


def test_the_taker_keeps_the_port_and_says_so(
    make_gateway: MakeGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "suzent_jupyter")
    one = make_gateway(tmp_path / "data")
    two = make_gateway(tmp_path / "data", listener_enabled=False, mount_url="http://127.0.0.1:8888/suzent")
    assert two.url == one.url
    one.stop()
    wait_for(lambda: is_host(two), 5)
    assert nodes(one).status_code == 200
    assert any(f"keeps port {one.url.rpartition(':')[2]}" in record.getMessage() for record in caplog.records)


def test_a_stolen_port_is_given_up_in_time(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("suzent_jupyter.server.host._PORT_SECONDS", 0.3)
    one = make_gateway(tmp_path / "data")
    two = make_gateway(tmp_path / "data")
    port = one.service.port
    assert port is not None
    original = one.service._lock.close  # type: ignore[union-attr]

    with socket.socket() as thief:

        def steal() -> None:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(("127.0.0.1", port))
            thief.listen()
            original()

        monkeypatch.setattr(one.service._lock, "close", steal)
        one.stop()
        wait_for(lambda: is_host(two), 5)
        assert two.service.port not in (None, port)
        two.url = f"http://127.0.0.1:{two.service.port}"
        assert nodes(two).status_code == 200
        assert any("taken by another program" in record.getMessage() for record in caplog.records)
        runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"suzent-{os.getpid()}.json"
        assert json.loads(runtime.read_text())["url"] == two.url


def test_without_a_listener_each_server_keeps_its_mount(make_gateway: MakeGateway, tmp_path: Path) -> None:
    mounts = ["http://127.0.0.1:8888/suzent", "http://127.0.0.1:8889/suzent"]
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"suzent-{os.getpid()}.json"
    found = []
    for mount in mounts:
        make_gateway(tmp_path / "data", listener_enabled=False, mount_url=mount)
        found.append(json.loads(runtime.read_text()))
    assert [facts["url"] for facts in found] == mounts
    assert found[0]["token"] == found[1]["token"]


@pytest.mark.parametrize("reason", ["account", "org", "machine", "no locks", "not wanted"])
def test_two_gateways_share_one_database_where_one_can_not_be_the_others_guest(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    one = make_gateway(tmp_path / "data")
    other: dict[str, Any] = {"account": {"account": "bob"}, "org": {"org": "lab"}, "not wanted": {"single": False}}.get(
        reason, {}
    )
    if reason == "machine":
        monkeypatch.setattr("suzent_jupyter.server.service.this_machine", lambda: "elsewhere")
    if reason == "no locks":

        def refuse(handle: int, count: int = 1) -> bool:
            raise lock.NoLockError("Function not implemented")

        monkeypatch.setattr(lock, "_try_lock", refuse)
    two = make_gateway(tmp_path / "data", **other)
    assert is_host(one)
    assert is_host(two)
    assert one.url != two.url
    assert one.token != two.token
    for each in (one, two):
        assert nodes(each).status_code == 200


def test_started_at_the_same_instant_one_is_the_gateway(make_gateway: MakeGateway, tmp_path: Path) -> None:
    made: list[ThreadedGateway] = []
    gate = threading.Barrier(4)

    def start() -> None:
        gate.wait()
        made.append(make_gateway(tmp_path / "data"))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 4
    assert sum(is_host(each) for each in made) == 1
    assert len({(each.url, each.token) for each in made}) == 1


def test_a_newcomer_in_the_gap_leaves_the_place_to_those_who_know_the_token(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_gateway(tmp_path / "data")
    two = make_gateway(tmp_path / "data")
    # Hold the heir back until the newcomer has had many looks.
    take, looks, newcomers = lock.GatewayLock.take, [0], threading.Event()

    def slow(self: lock.GatewayLock) -> bool:
        if self is two.service._lock:
            return newcomers.is_set() and take(self)
        looks[0] += 1
        if looks[0] > 5:
            newcomers.set()
        return take(self)

    monkeypatch.setattr(lock.GatewayLock, "take", slow)
    one.stop()
    three = make_gateway(tmp_path / "data")
    assert looks[0] > 5
    assert (three.url, three.token) == (one.url, one.token)
    wait_for(lambda: is_host(two), 5)
    assert not is_host(three)


def test_a_guest_that_stops_harms_nobody(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one = make_gateway(tmp_path / "data")
    two = make_gateway(tmp_path / "data")
    started = time.monotonic()
    two.stop()
    assert time.monotonic() - started < 3
    assert nodes(one).status_code == 200
    assert not two.service.running


def test_the_tls_port_and_its_key_outlive_the_gateway_too(make_gateway: MakeGateway, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = [Settings(display_name="One", node_discovery_enabled=False) for _ in range(2)]
    one, two = (make_gateway(tmp_path / "data", tls="auto", tls_port=port, settings=each) for each in settings)
    assert (is_host(one), one.service.tls_port, two.service.tls_port) == (True, port, None)
    pin = one.service.pin
    one.stop()
    wait_for(lambda: is_host(two) and two.service.tls_port, 10)
    assert (two.service.tls_port, two.service.pin) == (port, pin)
    answer = httpx.get(
        f"https://127.0.0.1:{port}/nodes", headers=two.headers, verify=pinned_context(pin), trust_env=False
    )
    assert answer.status_code == 200
