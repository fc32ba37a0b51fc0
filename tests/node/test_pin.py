"""A device and its gateway's key: right, wrong, remembered, vouched for by an authority, and never unchecked."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.running import sync, until
from support.tls import make_authority, make_certificate, recorder

from suzent_jupyter.node import Backoff, NodeHost, TokenVault
from suzent_jupyter.node.pin import Trust, origin
from suzent_jupyter.protocol.pin import pin_of

MakeGateway = Callable[..., ThreadedGateway]


@pytest.fixture
def vault(tmp_path: Path) -> TokenVault:
    return TokenVault(tmp_path / "vault", keyring=False)


def echo(x: int = 0) -> int:
    return x


@asynccontextmanager
async def device(url: str, vault: TokenVault, **options: Any) -> AsyncIterator[NodeHost]:
    from suzent_jupyter.node import capability

    host = NodeHost(
        url, name="Bench 3", capabilities=[capability("echo")(echo)], vault=vault,
        backoff=Backoff(0.02, 0.05, floor=0.01), **options
    )  # fmt: skip
    running = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        host.stop()
        await asyncio.wait_for(running, 10)


async def ended(url: str, vault: TokenVault, *, status: str = "refused", **options: Any) -> str:
    """Run a device until it has this status, and return what it says."""
    async with device(url, vault, **options) as host:
        await until(lambda: host.status == status, what=f"{status}, not {host.status}: {host.last_error}")
        assert host.last_error
        assert "\n" not in host.last_error
        return host.last_error


def link_of(gateway: ThreadedGateway, **facts: str) -> str:
    facts = {"join": "ticket", "pin": gateway.service.pin, "id": "gw-1", **facts}
    return f"https://127.0.0.1:{gateway.service.tls_port}/node#" + "&".join(f"{k}={v}" for k, v in facts.items() if v)


def socket_of(gateway: ThreadedGateway) -> str:
    return f"wss://127.0.0.1:{gateway.service.tls_port}/ws/node"


@sync
async def test_a_pairing_link_pins_the_key_for_good(make_gateway: MakeGateway, vault: TokenVault) -> None:
    gateway = make_gateway(tls="auto", tls_port=0)
    async with device(link_of(gateway), vault) as host:
        assert host.url == socket_of(gateway)
        assert host.gateway_id == "gw-1"
        assert host.connect_message().ticket == "ticket"
        await until(lambda: host.status == "pending")
        assert vault.get(f"pin:{origin(host.url)}") == gateway.service.pin
        await gateway.approve(host.pairing_code or "")
        await until(lambda: host.status == "connected")
        assert host.connect_message().ticket is None  # it has its token
    # The address alone is enough now, and the pin is still checked.
    async with device(socket_of(gateway), vault) as host:
        await until(lambda: host.status == "connected")
    key = f"pin:{origin(socket_of(gateway))}"
    vault.set(key, "A" * 43)
    said = await ended(socket_of(gateway), vault)
    assert "shows another key than the one it was paired with" in said
    assert "new pairing link" in said
    # Opening the new link accepts the new key.
    async with device(link_of(gateway), vault) as host:
        await until(lambda: host.status == "connected")
    assert vault.get(key) == gateway.service.pin


@sync
async def test_the_token_never_reaches_another_key(tmp_path: Path, vault: TokenVault) -> None:
    right, wrong = make_certificate(tmp_path, "right"), make_certificate(tmp_path, "wrong")
    async with recorder(wrong) as other:
        url = f"wss://127.0.0.1:{other.port}/ws/node"
        vault.set(f"node:{url}:Bench 3", "szt_device_token")
        link = f"https://127.0.0.1:{other.port}/node#join=ticket&pin={right.pin}"
        assert "another key" in await ended(link, vault)
        assert "another key" in await ended(url, vault, pin=right.pin)
        assert vault.get(f"pin:{origin(url)}") is None  # never proved, so never remembered
        assert "no authority known here" in await ended(url, vault)
        vault.set(f"pin:{origin(url)}", right.pin)
        assert "another key" in await ended(url, vault)
        assert vault.get(f"pin:{origin(url)}") == right.pin
        assert other.said == b""
        # The recorder does hear what is sent to it: a device that expects its key sends it everything.
        async with device(url, vault, pin=wrong.pin):
            await until(lambda: b"GET /ws/node" in other.said)


@sync
async def test_a_self_signed_certificate_needs_the_link(make_gateway: MakeGateway, vault: TokenVault) -> None:
    gateway = make_gateway(tls="auto", tls_port=0)
    said = await ended(socket_of(gateway), vault)
    assert "no authority known here vouches for" in said
    assert "Use its pairing link" in said


@sync
async def test_authorities_are_asked_where_there_is_no_pin(
    make_gateway: MakeGateway, tmp_path: Path, vault: TokenVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = make_authority(tmp_path)
    gateway = make_gateway(tls_port=0, **make_certificate(tmp_path, signed_by=authority).files())
    assert "no authority" in await ended(socket_of(gateway), vault)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    vault.set(f"pin:{origin(socket_of(gateway))}", "A" * 43)
    assert "another key" in await ended(socket_of(gateway), vault)  # a pin is not outvoted by an authority
    # A link without a pin says that authorities vouch from now on.
    for address in (link_of(gateway), socket_of(gateway)):
        async with device(address, vault) as host:
            await until(lambda host=host: host.status == "pending")  # type: ignore[misc]
    assert vault.get(f"pin:{origin(socket_of(gateway))}") is None


@pytest.mark.parametrize(
    ("made", "status", "told"),
    [
        ({"days": (-9, -2)}, "reconnecting", "has expired"),
        ({"days": (2, 9)}, "reconnecting", "is not valid yet"),
        ({"sans": ["elsewhere.example"]}, "refused", "made out to another name"),
    ],
)
@sync
async def test_each_flaw_has_its_own_line(
    tmp_path: Path, vault: TokenVault, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], status: str, told: str
) -> None:
    authority = make_authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with recorder(make_certificate(tmp_path, signed_by=authority, **made)) as other:
        assert told in await ended(f"wss://127.0.0.1:{other.port}", vault, status=status)
        assert other.said == b""


@sync
async def test_the_wrong_port_is_told(make_gateway: MakeGateway, vault: TokenVault) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    gateway = make_gateway(tls="auto", tls_port=0)
    plain = f"ws://127.0.0.1:{gateway.service.tls_port}"
    said = await ended(plain, vault, status="reconnecting")
    assert "TLS" in said
    assert "use wss://" in said
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await ended(f"wss://127.0.0.1:{port}", vault, status="reconnecting")
        assert "does not speak TLS there" in said
        assert "25315" in said


@sync
async def test_an_unreadable_vault_weakens_nothing(make_gateway: MakeGateway, vault: TokenVault) -> None:
    gateway = make_gateway(tls="auto", tls_port=0)
    vault.set("x", "y")
    (vault.directory / "vault.bin").write_bytes(b"damaged")
    assert "no authority known here" in await ended(socket_of(gateway), vault)


@pytest.mark.parametrize("way", ["option", "environment"])
@sync
async def test_the_command_line_takes_a_link(make_gateway: MakeGateway, tmp_path: Path, way: str) -> None:
    gateway = make_gateway(tls="auto", tls_port=0)
    command = [sys.executable, "-m", "suzent_jupyter.cli", "node", "host", "--json", "--name", "Far"]
    env = {**os.environ, "SUZENT_DATA_DIR": str(tmp_path / "vault")}
    if way == "option":
        command += ["--url", link_of(gateway)]
    else:
        env["SUZENT_BASE_URL"] = link_of(gateway)
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
        assert [line["status"] for line in lines] == ["connecting", "pending"]
        assert lines[0]["url"] == socket_of(gateway)
        assert "ticket" not in str(lines)
    finally:
        process.terminate()
        await process.wait()


def test_what_is_no_pin_or_no_tls_is_an_error(vault: TokenVault) -> None:
    good = pin_text()
    with pytest.raises(ValueError, match="copy the whole"):
        NodeHost("wss://127.0.0.1", pin="x", vault=vault)
    with pytest.raises(ValueError, match="goes with TLS"):
        NodeHost("ws://127.0.0.1", pin=good, vault=vault)
    with pytest.raises(ValueError, match="goes with TLS"):
        NodeHost(f"http://127.0.0.1/node#pin={good}", vault=vault)
    with pytest.raises(ValueError, match="damaged"):
        NodeHost("https://127.0.0.1/node#pin=abc", vault=vault)
    with pytest.raises(ValueError, match="different keys"):
        NodeHost(f"https://127.0.0.1/node#pin={good}", pin="B" * 43, vault=vault)
    host = NodeHost("http://127.0.0.1:8888/suzent/node#join=t", vault=vault)
    assert host.url == "ws://127.0.0.1:8888/suzent/ws/node"
    assert host.connect_message().ticket == "t"


def pin_text() -> str:
    return "A" * 43


def test_one_server_has_one_pin() -> None:
    same = ["https://Box.local", "wss://box.local:443/ws/node", "https://box.local/user/ada/suzent?x#y"]
    assert {origin(each) for each in same} == {"https://box.local:443"}
    assert origin("wss://[fd77::1]:25315/ws/node") == "https://[fd77::1]:25315"


def test_the_trust_works_for_blocking_and_asynchronous_clients(
    make_gateway: MakeGateway, vault: TokenVault, tmp_path: Path
) -> None:
    import httpx

    gateway = make_gateway(tls="auto", tls_port=0)
    url = f"https://127.0.0.1:{gateway.service.tls_port}"
    right, wrong = Trust(url, gateway.service.pin, vault), Trust(url, "A" * 43, vault)

    async def status(trust: Trust) -> int:
        async with httpx.AsyncClient(verify=trust.context() or True) as http:
            return (await http.get(f"{url}/nodes", headers=gateway.headers)).status_code

    def status_now(trust: Trust) -> int:
        return httpx.get(f"{url}/nodes", headers=gateway.headers, verify=trust.context() or True).status_code

    assert asyncio.run(status(right)) == status_now(right) == 200
    with pytest.raises(httpx.ConnectError):
        asyncio.run(status(wrong))
    with pytest.raises(httpx.ConnectError):
        status_now(wrong)
    with socket.create_connection(("127.0.0.1", gateway.service.tls_port or 0)) as raw:
        context = right.context()
        assert context is not None
        with context.wrap_socket(raw, server_hostname="x") as wrapped:
            assert pin_of(wrapped.getpeercert(True) or b"") == gateway.service.pin
    assert Trust("ws://127.0.0.1", None, vault).context() is None
