"""The TLS port: the same gateway as the plain one, with the same rules, and never in the way of the rest."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.running import sync
from support.tls import make_authority, make_certificate
from support.waiting import wait_for

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.pin import pin_of, pinned_context
from suzent_jupyter.server.tls.certificate import OwnCertificate

MakeGateway = Callable[..., ThreadedGateway]


@pytest.fixture
def secure(make_gateway: MakeGateway) -> ThreadedGateway:
    return make_gateway(tls="auto", tls_port=0, trust_loopback="auto")


def url_of(gateway: ThreadedGateway) -> str:
    return f"https://127.0.0.1:{gateway.service.tls_port}"


def shown(port: int | None) -> bytes:
    """Return the certificate that a new handshake gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port or 0), 10) as raw, context.wrap_socket(raw) as wrapped:
        return wrapped.getpeercert(True) or b""


@sync
async def test_the_routes_and_rules_are_those_of_the_plain_port(secure: ThreadedGateway) -> None:
    context = pinned_context(secure.service.pin)
    assert secure.service.tls_port not in (None, secure.service.port)
    async with httpx.AsyncClient(base_url=url_of(secure), verify=context) as http:
        assert (await http.get("/nodes", headers=secure.headers)).json()["count"] == 0
        # Trusted loopback goes by the socket, as it does without TLS.
        assert (await http.get("/nodes")).status_code == 200
        for name, value in (("Host", "evil.example"), ("Origin", "https://evil.example"), ("X-Forwarded-For", "::1")):
            assert error_of(await http.get("/nodes", headers={name: value})) == (401, "unauthorized")
        forwarded = {**secure.headers, "X-Forwarded-For": "10.0.0.9"}
        assert error_of(await http.get("/nodes", headers=forwarded)) == (401, "unauthorized")
        assert error_of(await http.get("/nodes", headers={"Authorization": "Bearer szt_forged"}))[0] == 401
        assert error_of(await http.get("/api/kernels", headers=secure.headers)) == (404, "no_route")
    client = url_of(secure).replace("https", "wss") + "/ws/client"
    async with websockets.connect(client, ssl=context, additional_headers=secure.headers) as ws:
        assert '"hello"' in str(await ws.recv())
    with pytest.raises(websockets.InvalidStatus):
        async with websockets.connect(client, ssl=context, origin="https://evil.example"):  # type: ignore[arg-type]
            pass


def test_old_tls_is_refused(secure: ThreadedGateway) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", secure.service.tls_port or 0)) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw)


def test_the_pin_outlives_the_server_and_the_certificate(make_gateway: MakeGateway, tmp_path: Path) -> None:
    first = make_gateway(tmp_path / "data", tls="auto", tls_port=0)
    before, pin = shown(first.service.tls_port), first.service.pin
    assert pin_of(before) == pin
    # While it runs: a new name renews the certificate, and connections that are open stay.
    context = pinned_context(pin)
    assert first.service.tls is not None
    with httpx.Client(base_url=url_of(first), verify=context, headers=first.headers) as http:
        assert http.get("/nodes").status_code == 200
        first.run(first.service.tls.add_names("mybox.tail1234.ts.net"))
        assert http.get("/nodes").status_code == 200
    after = shown(first.service.tls_port)
    assert after != before
    assert pin_of(after) == pin == first.service.pin
    first.stop()
    again = make_gateway(tmp_path / "data", tls="auto", tls_port=0)
    assert again.service.pin == pin


def test_a_running_server_renews_by_itself(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = {"certificate_check": 0.02}
    loops = set()
    original = OwnCertificate.ensure

    def ensure(self: OwnCertificate) -> bool:
        loops.add(threading.current_thread())
        return original(self)

    monkeypatch.setattr(OwnCertificate, "ensure", ensure)
    made = make_certificate(tmp_path)
    operator = make_gateway(tmp_path / "one", tls_port=0, limits=often, **made.files())
    own = make_gateway(tmp_path / "two", tls="auto", tls_port=0, limits=often)
    assert shown(operator.service.tls_port) == made.der
    (tmp_path / "gateway.pem").write_text("half a certifi")  # caught while it is being written: the old one stays
    assert shown(operator.service.tls_port) == made.der
    renewed = make_certificate(tmp_path, key=made.key)
    wait_for(lambda: shown(operator.service.tls_port) == renewed.der)
    before = shown(own.service.tls_port)
    (tmp_path / "two" / "tls.crt").unlink()
    wait_for(lambda: shown(own.service.tls_port) != before)
    assert pin_of(shown(own.service.tls_port)) == own.service.pin
    assert loops
    assert own._thread not in loops  # never on the event loop


@sync
async def test_the_operators_certificate_is_verified_by_its_authority(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = make_authority(tmp_path)
    made = make_certificate(tmp_path, signed_by=authority)
    gateway = make_gateway(tls_port=0, **made.files())
    assert gateway.service.pin == ""  # nobody should pin a key that may change
    url = f"{url_of(gateway)}/nodes"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, headers=gateway.headers, verify=ssl.create_default_context())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert httpx.get(url, headers=gateway.headers, verify=ssl.create_default_context()).status_code == 200


@pytest.mark.parametrize("broken", ["certfile", "keyfile", "both"])
@sync
async def test_a_broken_certificate_costs_only_tls(
    make_gateway: MakeGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    caplog.set_level(logging.INFO, "suzent_jupyter")
    files = make_certificate(tmp_path).files()
    if broken == "both":
        files = {"certfile": str(tmp_path / "nowhere"), "keyfile": files["keyfile"]}
    else:
        del files[broken]
    gateway = make_gateway(tls_port=0, **files)
    assert gateway.service.tls_port is None
    assert gateway.service.pin == ""
    async with gateway.http() as http:
        assert (await http.get("/nodes")).status_code == 200
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage().startswith("TLS is off: ")
    assert gateway.service.tls is not None
    assert gateway.service.tls.problem == line.getMessage()
    assert "\n" not in line.getMessage()
    assert line.exc_info is None


def test_a_taken_port(make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "suzent_jupyter")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        here = make_gateway(tls="auto", tls_port=port)
        assert here.service.tls_port not in (None, port)  # on this machine alone the next free one does
        caplog.clear()
        lan = make_gateway(tls="auto", tls_port=port, settings=Settings(node_lan_bind=True))
        assert lan.service.port
        assert lan.service.tls_port is None
        [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert f"can't listen on port {port}" in line
        assert "SuzentApp.tls_port" in line


def listens_on(port: int | None) -> set[str]:
    """Return the local addresses a port of this process is bound to."""
    import psutil

    found = psutil.Process().net_connections("tcp4")
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN and each.laddr.port == port}


def test_the_plain_port_can_be_closed_to_the_network(
    make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    open_ = make_gateway(tls="auto", tls_port=0, settings=Settings(node_lan_bind=True))
    assert listens_on(open_.service.port) == listens_on(open_.service.tls_port) == {"0.0.0.0"}
    assert "without encryption" in caplog.text
    caplog.clear()
    shut = make_gateway(tls="auto", tls_port=0, settings=Settings(node_lan_bind=True), listener_plaintext=False)
    assert listens_on(shut.service.port) == {"127.0.0.1"}
    assert listens_on(shut.service.tls_port) == {"0.0.0.0"}
    assert shut.service.host.bound.for_others
    assert httpx.get(f"{shut.url}/nodes", headers=shut.headers).status_code == 200  # kernels use it
    assert caplog.text == ""
    none = make_gateway(settings=Settings(node_lan_bind=True), listener_plaintext=False)
    assert not none.service.host.bound.for_others
    assert "No other device can join" in caplog.text
    local = make_gateway(tls="auto", tls_port=0)
    assert listens_on(local.service.tls_port) == {"127.0.0.1"}


@sync
async def test_stop_closes_the_tls_port_too(secure: ThreadedGateway) -> None:
    port = secure.service.tls_port
    context = pinned_context(secure.service.pin)
    url = f"wss://127.0.0.1:{port}/ws/client"
    async with websockets.connect(url, ssl=context, additional_headers=secure.headers) as ws:
        await ws.recv()
        await asyncio.to_thread(secure.stop)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await asyncio.wait_for(ws.recv(), 10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
    assert secure.service.tls_port is None
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port or 0), 2).close()


@sync
async def test_large_results_pass(secure: ThreadedGateway) -> None:
    context, image = pinned_context(secure.service.pin), "x" * 5_000_000
    async with websockets.connect(f"{url_of(secure).replace('https', 'wss')}/ws/node", ssl=context) as ws:
        await ws.send(json.dumps({"type": "connect", "display_name": "Far", "capabilities": [{"name": "snap"}]}))
        await secure.approve(json.loads(await ws.recv())["pairing_code"])
        assert json.loads(await ws.recv())["type"] == "connected"
        async with httpx.AsyncClient(base_url=url_of(secure), verify=context, headers=secure.headers) as http:
            asked = asyncio.create_task(http.post("/nodes/Far/invoke", json={"command": "snap", "params": {}}))
            call = json.loads(await ws.recv())
            result = {"type": "result", "request_id": call["request_id"], "success": True, "result": image}
            await ws.send(json.dumps(result))
            assert (await asked).json()["result"] == image


@sync
async def test_noise_on_the_tls_port_harms_nobody(secure: ThreadedGateway) -> None:
    quiet: list[Any] = []
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(500), bytes(2000)):
        reader, writer = await asyncio.open_connection("127.0.0.1", secure.service.tls_port)
        writer.write(noise)
        quiet.append((reader, writer))
    async with httpx.AsyncClient(verify=pinned_context(secure.service.pin)) as http:
        assert (await http.get(f"{url_of(secure)}/nodes", headers=secure.headers)).status_code == 200
    for _, writer in quiet:
        writer.close()


def test_a_process_takes_it_from_the_command_line(start_process: Callable[..., Any], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = start_process("--tls", f"--SuzentApp.tls_port={port}")
    wait_for(lambda: "Devices join over TLS" in process.log.read_text(), what=process.log.read_text())
    certificate = shown(port)
    [file] = tmp_path.rglob("tls.crt")
    assert certificate == ssl.PEM_cert_to_DER_cert(file.read_text())


def test_half_open_handshakes_have_their_time_and_count_with_the_plain_ports(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(tls="auto", tls_port=0, limits={"request_timeout": 3.0, "connections_unknown": 3})

    def knock(port: int | None, said: bytes) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", port or 0), 10)
        sock.sendall(said)
        return sock

    hello = b"\x16\x03\x01\x02\x00\x01"  # the first bytes of a ClientHello, and no more
    plain = knock(gateway.service.port, b"GET /")
    began = [knock(gateway.service.tls_port, said) for said in (b"", hello, hello)]
    started = time.monotonic()
    assert plain.recv(1) == b""  # the oldest made room, whichever port it came to
    assert time.monotonic() - started < 2
    for sock in began:
        assert sock.recv(1) == b""
    assert 2 < time.monotonic() - started < 9
    assert httpx.get(f"{url_of(gateway)}/nodes", headers=gateway.headers, verify=False).status_code == 200
    for sock in (plain, *began):
        sock.close()
