"""The kernels' token is good on this machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import websockets
from support.calls import error_of
from support.device import BareDevice
from support.external import external_address
from support.gateways import ThreadedGateway
from support.running import sync
from tornado.httputil import HTTPHeaders

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.server.auth import is_loopback, principal_of_token

FORWARDING = ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-IP"]
EXTERNAL = external_address()


@pytest.mark.parametrize("name", FORWARDING)
@sync
async def test_behind_a_proxy_it_is_refused(gateway: ThreadedGateway, name: str) -> None:
    headers = {**gateway.headers, name: "127.0.0.1"}
    async with httpx.AsyncClient() as http:
        assert error_of(await http.get(f"{gateway.url}/nodes", headers=headers)) == (401, "unauthorized")
        host = (await http.post(f"{gateway.url}/nodes/host-token", json={}, headers=gateway.headers)).json()
        headers["Authorization"] = f"Bearer {host['token']}"
        assert (await http.get(f"{gateway.url}/nodes", headers=headers)).status_code == 200
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(gateway.client_url, additional_headers={**gateway.headers, name: "127.0.0.1"}):
            pass
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("name", FORWARDING[:2])
@sync
async def test_behind_a_proxy_it_approves_no_device(gateway: ThreadedGateway, name: str) -> None:
    async with websockets.connect(gateway.node_url, additional_headers={name: "203.0.113.7"}) as ws:
        await ws.send(f'{{"type":"connect","display_name":"X","device_token":"{gateway.token}"}}')
        assert '"pending"' in str(await ws.recv())


@pytest.fixture
def lan_gateway(make_gateway: Callable[..., ThreadedGateway]) -> ThreadedGateway:
    """A gateway bound for other devices, reached by an address of this machine that is not loopback."""
    if EXTERNAL is None:
        pytest.skip("this machine has no address but loopback")
    settings = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    gateway = make_gateway(settings=settings, trust_loopback="auto")
    gateway.url = gateway.url.replace("127.0.0.1", EXTERNAL)
    return gateway


@sync
async def test_from_another_machine_it_is_refused(lan_gateway: ThreadedGateway) -> None:
    gateway = lan_gateway
    async with httpx.AsyncClient() as http:
        assert error_of(await http.get(f"{gateway.url}/nodes", headers=gateway.headers)) == (401, "unauthorized")
        # Nor is anyone trusted from there.
        assert error_of(await http.get(f"{gateway.url}/nodes")) == (401, "unauthorized")
        assert error_of(await http.get(f"{gateway.url}/nodes", headers={"Host": "127.0.0.1"})) == (401, "unauthorized")
        local = gateway.url.replace(str(EXTERNAL), "127.0.0.1")
        host = (await http.post(f"{local}/nodes/host-token", json={}, headers=gateway.headers)).json()["token"]
        answer = await http.get(f"{gateway.url}/nodes", headers={"Authorization": f"Bearer {host}"})
        assert answer.status_code == 200
        config = (await http.get(f"{local}/nodes/config", headers=gateway.headers)).json()
        assert config["binding_active"] is True
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(gateway.client_url, additional_headers=gateway.headers):
            pass
    assert refused.value.response.status_code == 401


@sync
async def test_from_another_machine_it_approves_no_device(lan_gateway: ThreadedGateway) -> None:
    async with BareDevice(lan_gateway.node_url, device_token=lan_gateway.token) as device:
        assert (await device.recv())["type"] == "pending"


@sync
async def test_limits_per_address_hold_for_other_machines(
    make_gateway: Callable[..., ThreadedGateway],
) -> None:
    if EXTERNAL is None:
        pytest.skip("this machine has no address but loopback")
    settings = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    gateway = make_gateway(settings=settings, limits={"pending_per_address": 2, "sockets_per_address": 4})
    away = gateway.node_url.replace("127.0.0.1", EXTERNAL)
    devices = [BareDevice(away, f"D{number}") for number in range(2)]
    for device in devices:
        await device.__aenter__()
        await device.code()
    async with BareDevice(away, "Third", features=[]) as third:
        assert (await third.recv("error"))["code"] == "too_many_pending"
    idle = [await websockets.connect(away) for _ in range(2)]
    async with websockets.connect(away) as fifth:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            async with asyncio.timeout(10):
                await fifth.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013
    # Loopback, where many devices share one address, is counted in all alone.
    async with BareDevice(gateway.node_url, "Local") as local:
        await local.code()
    # An approved device is never counted out.
    await gateway.approve(str((await gateway_codes(gateway))["D0"]))
    await devices[0].joined()
    for each in (*devices, *idle):
        await (each.__aexit__() if isinstance(each, BareDevice) else each.close())
    async with BareDevice(away, "Later", device_token=devices[0].token) as later:
        await later.joined()


async def gateway_codes(gateway: ThreadedGateway) -> dict[str, str]:
    async with gateway.http() as http:
        pending = (await http.get("/nodes/pending")).json()["pending"]
        return {each["display_name"]: each["pairing_code"] for each in pending}


def request(address: Any, **headers: str) -> Any:
    return SimpleNamespace(
        connection=SimpleNamespace(context=SimpleNamespace(address=address)), headers=HTTPHeaders(headers)
    )


@pytest.mark.parametrize("address", [("192.0.2.7", 1), ("::ffff:192.0.2.7", 1, 0, 0), ("fe80::1%eth0", 1, 0, 0)])
def test_no_address_but_loopback_will_do(gateway: ThreadedGateway, address: Any) -> None:
    with pytest.raises(SuzentError) as refused:
        principal_of_token(gateway.service, request(address), gateway.token)
    assert refused.value.code == "unauthorized"
    assert "host-token" in refused.value.hint


@pytest.mark.parametrize("address", [("127.0.0.1", 1), ("::1", 1, 0, 0), ("::ffff:127.0.0.1", 1, 0, 0), "", None])
def test_loopback_and_unix_sockets_will(gateway: ThreadedGateway, address: Any) -> None:
    assert principal_of_token(gateway.service, request(address), gateway.token).actor == "kernel"


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False), ("x", False)],
)
def test_what_loopback_is(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
