"""A client's address comes from headers only where the server was told that a proxy sets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import websockets
from support.calls import error_of
from support.external import external_address
from support.gateways import Addresses, JupyterServer, ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.server.auth import client_address

EXTERNAL = external_address()
FORGED = {"X-Forwarded-For": "203.0.113.7", "X-Real-Ip": "203.0.113.7", "Forwarded": "for=203.0.113.7"}


async def knock(stack: AsyncExitStack, url: str, headers: dict[str, str], name: str = "Phone") -> dict[str, Any]:
    """Connect a device that stays; return what it is told first."""
    ws = await stack.enter_async_context(websockets.connect(url, additional_headers=headers))
    hello = {"type": "connect", "display_name": name, "capabilities": [{"name": "echo"}], "features": []}
    await ws.send(json.dumps(hello))
    told: dict[str, Any] = json.loads(await ws.recv())
    return told


async def remotes(gateway: Addresses) -> set[str]:
    async with gateway.http() as http:
        return {entry["remote"] for entry in (await http.get("/nodes/pending")).json()["pending"]}


async def approved_from(gateway: Addresses, code: str) -> str:
    """Approve and return the address the audit trail names."""
    await gateway.approve(code)
    async with gateway.http() as http:
        entries = (await http.get("/audit")).json()["entries"]
        return str(next(entry["detail"]["remote"] for entry in entries if entry["action"] == "device.approve"))


@pytest.mark.parametrize("trust", [False, True])
def test_on_the_jupyter_mount(start_jupyter: Callable[..., JupyterServer], trust: bool) -> None:
    server = start_jupyter(
        f"--ServerApp.trust_xheaders={trust}",
        "--SuzentApp.pending_per_address=2",
        "--SuzentApp.bad_tokens_per_address=2",
        "--SuzentApp.trust_loopback=auto",
    )
    url = server.mount.replace("http", "ws", 1) + "/ws/node"
    address = "203.0.113.7" if trust else "127.0.0.1"

    async def work() -> None:
        async with AsyncExitStack() as stack:
            told = [await knock(stack, url, FORGED) for _ in range(3)]
            assert await remotes(server) == {address}
            # Loopback, where many may stand behind a proxy nobody told us of, is counted in all alone.
            assert [each["type"] for each in told] == ["pending", "pending", "error" if trust else "pending"]
            if trust:
                assert told[2]["code"] == "too_many_pending"
                # The last entry is the proxy's own word; what stands before it came from the client.
                chain = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
                assert (await knock(stack, url, chain))["code"] == "too_many_pending"
                assert (await knock(stack, url, {"X-Forwarded-For": "203.0.113.8"}))["type"] == "pending"
                assert (await knock(stack, url, {"X-Forwarded-For": "nonsense"}))["type"] == "pending"
                assert await remotes(server) == {address, "203.0.113.8", "127.0.0.1"}
            assert await approved_from(server, told[0]["pairing_code"]) == address
        async with httpx.AsyncClient(base_url=server.mount) as http:
            bad = {"X-Suzent-Token": "szt_forged"}
            codes = [(await http.get("/nodes", headers={**bad, **FORGED})).status_code for _ in range(3)]
            assert codes == [401, 401, 429 if trust else 401]
            assert (await http.get("/nodes", headers={**bad, "X-Real-Ip": "203.0.113.9"})).status_code == 401
            # Whatever they say, they come through a proxy: no kernel does, and no local program.
            for base in (server.mount, server.url):
                for name in FORGED:
                    for value in ("127.0.0.1", "for=127.0.0.1", "203.0.113.7"):
                        for headers in (server.headers, {}):
                            answer = await http.get(f"{base}/nodes", headers={**headers, name: value})
                            assert error_of(answer) == (401, "unauthorized"), (base, name, value)

    asyncio.run(work())


@sync
async def test_the_listener_believes_no_header(make_gateway: Callable[..., ThreadedGateway]) -> None:
    if EXTERNAL is None:
        pytest.skip("this machine has no address but loopback")
    settings = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    gateway = make_gateway(settings=settings, limits={"pending_per_address": 2})
    away = gateway.node_url.replace("127.0.0.1", EXTERNAL)
    async with AsyncExitStack() as stack:
        told = [await knock(stack, away, {"X-Forwarded-For": f"203.0.113.{number}"}) for number in range(3)]
        assert [each["type"] for each in told] == ["pending", "pending", "error"]
        assert told[2]["code"] == "too_many_pending"
        local = [await knock(stack, gateway.node_url, FORGED) for _ in range(3)]
        assert {each["type"] for each in local} == {"pending"}
        assert await remotes(gateway) == {EXTERNAL, "127.0.0.1"}
        assert await approved_from(gateway, told[0]["pairing_code"]) == EXTERNAL


@pytest.mark.parametrize(
    ("peer", "remote", "expected"),
    [
        (("192.0.2.7", 1), "192.0.2.7", ("192.0.2.7", False)),
        (("127.0.0.1", 1), "127.0.0.1", ("127.0.0.1", True)),
        (("127.0.0.1", 1), "203.0.113.7", ("203.0.113.7", False)),
        (("::1", 1, 0, 0), "::1", ("::1", True)),
        ("", "0.0.0.0", ("", True)),
        ("", "203.0.113.7", ("203.0.113.7", False)),
    ],
)
def test_whose_address_it_is(peer: Any, remote: str, expected: tuple[str, bool]) -> None:
    from types import SimpleNamespace

    connection = SimpleNamespace(context=SimpleNamespace(address=peer))
    assert client_address(SimpleNamespace(connection=connection, remote_ip=remote)) == expected  # type: ignore[arg-type]
