"""Bound for other devices the listener speaks IPv6 too, where there is such a thing, under the same rules."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import httpx
import psutil
import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.discovery.addresses import read_addresses
from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.pin import pinned_context

MakeGateway = Callable[..., ThreadedGateway]


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
OWN = [each.host for each in read_addresses() if ":" in each.host]


def for_others(make_gateway: MakeGateway, **options: Any) -> ThreadedGateway:
    settings = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    return make_gateway(settings=settings, **options)


def take_ipv6(port: int | None) -> bool:
    """Tell whether this port is free over IPv6."""
    try:
        with socket.create_server(("::", port or 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def listed(gateway: ThreadedGateway) -> set[str]:
    async with gateway.http() as http:
        return {each["host"] for each in (await http.get("/nodes/config")).json()["addresses"] if "[" in each["host"]}


@sync
async def test_a_device_joins_and_is_called(make_gateway: MakeGateway) -> None:
    gateway = for_others(make_gateway, tls="auto", tls_port=0)
    port, tls_port = gateway.service.port, gateway.service.tls_port
    async with BareDevice(f"ws://[::1]:{port}/ws/node", "Six") as device:
        await gateway.pair(device)
        device.answer()
        headers = gateway.headers
        async with httpx.AsyncClient(base_url=f"http://[::1]:{port}", headers=headers) as http:
            answer = await invoke(http, device.node_id, "echo", {"a": 1})
            assert answer.json()["result"] == {"a": 1}
            [node] = (await http.get("/nodes")).json()["nodes"]
            assert node["remote"] == "::1"
        context = pinned_context(gateway.service.pin)
        async with httpx.AsyncClient(base_url=f"https://[::1]:{tls_port}", headers=headers, verify=context) as http:
            assert (await http.get("/nodes")).json()["count"] == 1
    assert await listed(gateway) == {f"[{host}]" for host in OWN}


@sync
async def test_bound_to_this_machine_alone_it_does_not(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    assert take_ipv6(gateway.service.port)
    assert await listed(gateway) == set()


@sync
async def test_trusted_loopback(make_gateway: MakeGateway) -> None:
    gateway = for_others(make_gateway, trust_loopback="auto")
    async with httpx.AsyncClient(base_url=f"http://[::1]:{gateway.service.port}") as http:
        assert (await http.get("/nodes")).status_code == 200
        assert error_of(await http.get("/nodes", headers={"Host": "evil.example"})) == (401, "unauthorized")
    for host in OWN[:1]:  # this machine too, but by an address that others may have had
        async with httpx.AsyncClient(base_url=f"http://[{host}]:{gateway.service.port}") as http:
            assert error_of(await http.get("/nodes")) == (401, "unauthorized")
            assert error_of(await http.get("/nodes", headers=gateway.headers)) == (401, "unauthorized")


@pytest.mark.skipif(not OWN, reason="this machine has no IPv6 address others could use")
@sync
async def test_addresses_go_by_the_ports_that_are_really_open(make_gateway: MakeGateway) -> None:
    shut = for_others(make_gateway, tls="auto", tls_port=0, listener_plaintext=False)
    assert {each.laddr.ip for each in listening(shut.service.port)} == {"127.0.0.1"}
    assert await listed(shut) == {f"[{host}]" for host in OWN}
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        half = for_others(make_gateway, tls="auto", tls_port=port)
        assert half.service.tls_port == port
        assert {each.laddr.ip for each in listening(port)} == {"::1", "0.0.0.0"}
        assert await listed(half) == set()  # its links would name the TLS port


def listening(port: int | None) -> list[Any]:
    found = psutil.Process().net_connections("tcp")
    return [each for each in found if each.status == psutil.CONN_LISTEN and each.laddr.port == port]
