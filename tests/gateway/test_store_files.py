"""The store's files: readable by their owner alone, without a token in clear; and shared by several servers."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

MakeGateway = Callable[..., ThreadedGateway]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
@pytest.mark.parametrize("directory_mode", [None, 0o755, 0o777])
def test_modes(make_gateway: MakeGateway, tmp_path: Path, directory_mode: int | None) -> None:
    data = tmp_path / "data"
    if directory_mode is not None:
        data.mkdir()
        data.chmod(directory_mode)
        (data / "suzent.db").touch(0o644)
    gateway = make_gateway(data)

    async def work() -> None:
        async with BareDevice(gateway.node_url) as device:
            await gateway.pair(device)

    asyncio.run(work())
    assert data.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir()}
    assert modes["suzent.db"] == 0o600
    assert set(modes.values()) == {0o600}


@sync
async def test_no_token_stands_in_the_files(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        host = (await http.post("/nodes/host-token", json={"name": "script"})).json()["token"]
        await http.get("/audit")  # all is written
        [listed, second] = (await http.get("/nodes/devices")).json()["devices"]
        assert listed["token_hint"] == f"{device.token[:10]}…{device.token[-4:]}"
        assert second["token_hint"] == f"{host[:10]}…{host[-4:]}"
    data = gateway.config.data_dir
    for token in (device.token, host, gateway.token):
        for path in data.iterdir():
            assert token.encode() not in path.read_bytes(), path
            assert token[10:-4].encode() not in path.read_bytes(), path


@sync
async def test_what_one_server_does_takes_effect_in_the_other(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one, two = make_gateway(tmp_path / "shared", single=False), make_gateway(tmp_path / "shared", single=False)
    async with one.http() as http, two.http() as other:
        async with BareDevice(one.node_url) as device:
            await one.pair(device)
        host = (await http.post("/nodes/host-token", json={})).json()
        # A token approved there is good here.
        async with BareDevice(two.node_url, device_token=device.token) as there:
            async with asyncio.timeout(2):
                while (await other.get("/nodes/devices")).json()["count"] < 2:
                    await asyncio.sleep(0.02)
        async with (
            BareDevice(two.node_url, device_token=device.token) as there,
            BareClient(two, host["token"]) as client,
        ):
            assert (await there.joined())["node_id"] == device.node_id
            there.answer()
            assert (await invoke(other, "MyPhone")).status_code == 200

            await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "paused"})
            async with asyncio.timeout(2):
                while (answer := await invoke(other, "MyPhone")).status_code == 200:
                    await asyncio.sleep(0.02)
            assert error_of(answer) == (409, "paused")
            await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "active"})
            async with asyncio.timeout(2):
                while (await invoke(other, "MyPhone")).status_code != 200:
                    await asyncio.sleep(0.02)

            for device_id in (device.node_id, host["device_id"]):
                assert (await http.post(f"/nodes/devices/{device_id}/revoke")).status_code == 200
            await asyncio.gather(*there._tasks, return_exceptions=True)  # its socket is closed
            assert (await there.closed(2))[0] == 4003
            assert (await client.closed(2))[0] == 4003
            assert (await other.get("/nodes/devices")).json()["count"] == 0
            async with two.http(headers={"Authorization": f"Bearer {host['token']}"}) as revoked:
                assert error_of(await revoked.get("/nodes")) == (401, "unauthorized")


@sync
async def test_pairing_one_installation_with_two_servers_of_one_store_leaves_one_device(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    one, two = make_gateway(tmp_path / "shared", single=False), make_gateway(tmp_path / "shared", single=False)
    async with (
        BareDevice(one.node_url, node_identity="laptop-1") as first,
        BareDevice(two.node_url, node_identity="laptop-1") as second,
    ):
        codes = [await first.code(), await second.code()]
        await asyncio.gather(one.approve(codes[0]), two.approve(codes[1]))
    with sqlite3.connect(tmp_path / "shared" / "suzent.db") as connection:
        assert connection.execute("SELECT count(*) FROM devices").fetchone() == (1,)


@sync
async def test_a_request_during_the_stop_is_answered(make_gateway: MakeGateway, tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path / "data")
    hub = gateway.service.gateway

    async def stop_and_ask() -> str:
        await hub.stop()
        try:
            await asyncio.wait_for(hub.store.run(lambda connection: None), 5)
        except Exception as error:
            return str(getattr(error, "code", error))
        return "done"

    assert await asyncio.to_thread(gateway.run, stop_and_ask()) == "stopping"


@sync
async def test_a_job_given_up_fails_no_other(gateway: ThreadedGateway) -> None:
    hub = gateway.service.gateway

    async def work() -> list[str]:
        import threading

        go, done = threading.Event(), []
        blocking = hub.store.run(lambda connection: go.wait(20))
        given_up = hub.store.run(lambda connection: done.append("given up"))
        given_up.cancel()

        def refuse(_: object) -> None:
            raise ValueError("this one fails")

        failing = hub.store.run(refuse)
        failing.cancel()
        good = hub.store.run(lambda connection: done.append("good"))
        go.set()
        await blocking
        await good
        return done

    assert (await asyncio.to_thread(gateway.run, work()))[-1] == "good"
