"""Each limit of the listener, reached: what is too large, too slow or too much is refused in words, or hung up on."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support.calls import error_of, invoke
from support.counted import CountedGateway
from support.device import BareDevice
from support.external import external_address
from support.gateways import JupyterServer, ThreadedGateway
from support.running import sync, until

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.limits import Limits, describe_limits

MakeGateway = Callable[..., ThreadedGateway]
KIB = 1024
FORGED = {"Authorization": "Bearer szt_forged"}


def test_every_number_says_its_unit_and_why() -> None:
    for name, (default, unit, why) in describe_limits().items():
        assert unit in ("s", "bytes", "count", "chars", "share"), name
        assert len(why) > 5, name
        assert default > 0, name


def connect(gateway: Any, text: str = "", host: str = "127.0.0.1") -> socket.socket:
    sock = socket.create_connection((host, gateway.service.port), 10)
    sock.settimeout(20)
    sock.sendall(text.encode())
    return sock


def hung_up(sock: socket.socket) -> bool:
    """Tell whether the other side closes, now or within the socket's timeout; an answer on the way is dropped."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def open_still(sock: socket.socket) -> bool:
    sock.settimeout(0.05)
    return not hung_up(sock)


# -- too large --


@sync
async def test_a_url_has_its_length(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        assert (await http.get("/nodes?" + "x" * 8000)).status_code == 200
        assert error_of(await http.get("/nodes?" + "x" * (8 * KIB))) == (414, "url_too_long")
        assert error_of(await http.get("/" + "x" * (8 * KIB))) == (414, "url_too_long")


@sync
async def test_headers_have_their_size(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        assert (await http.get("/nodes", headers={"X-A": "x" * (31 * KIB)})).status_code == 200
        assert error_of(await http.get("/nodes", headers={"X-A": "x" * (33 * KIB)})) == (431, "headers_too_large")
        many = [("X-A", "x" * KIB)] * 40
        assert error_of(await http.get("/nodes", headers=[*gateway.headers.items(), *many])) == (
            431,
            "headers_too_large",
        )
        # Far too large, and it is not read to its end.
        with pytest.raises(httpx.TransportError):
            await http.get("/nodes", headers={"X-A": "x" * (200 * KIB)})
        assert (await http.get("/nodes")).status_code == 200


def padded(size: int) -> bytes:
    body = {"name": "x", "padding": ""}
    body["padding"] = "x" * (size - len(json.dumps(body)))
    return json.dumps(body).encode()


@sync
async def test_a_body_has_its_size(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, features=[]) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer(lambda command, params: len(str(params)))
        most = Limits().body_bytes
        for size, expected in ((most, 200), (most + 1, 413)):
            assert (await http.post("/nodes/host-token", content=padded(size))).status_code == expected

        async def chunks(size: int) -> Any:
            for start in range(0, size, 64 * KIB):
                yield padded(size)[start : start + 64 * KIB]

        assert (await http.post("/nodes/host-token", content=chunks(most))).status_code == 200
        assert error_of(await http.post("/nodes/host-token", content=chunks(most + 1))) == (413, "too_large")
        answer = await invoke(http, "MyPhone", "echo", {"data": "x" * (24 * KIB * KIB)})
        assert answer.json()["success"] is True
        assert error_of(await invoke(http, "MyPhone", "echo", {"data": "x" * (25 * KIB * KIB)})) == (413, "too_large")
        # Who asks is known first, whatever the size.
        for size in (100, 70 * KIB, 2 * most):
            for headers in ({}, FORGED):
                async with gateway.http(headers=headers) as stranger:
                    answer = await stranger.post("/nodes/host-token", content=padded(size))
                    assert error_of(answer) == (401, "unauthorized")
        # A wrong method with a large body is one.
        assert error_of(await http.post("/audit", content=padded(2 * most))) == (405, "method_not_allowed")


def test_bodies_on_the_jupyter_mount(start_jupyter: Callable[..., JupyterServer]) -> None:
    server = start_jupyter()
    url = f"{server.mount}/nodes/host-token"
    most = Limits().body_bytes

    async def work() -> None:
        async with httpx.AsyncClient(timeout=60) as http:
            for size in (100, 70 * KIB, 2 * most):
                for headers in ({}, FORGED, {"Authorization": "token wrong"}):
                    assert error_of(await http.post(url, content=padded(size), headers=headers)) == (
                        401,
                        "unauthorized",
                    ), (size, headers)
        async with httpx.AsyncClient(timeout=60) as http:
            for headers in (server.headers, server.jupyter_headers):
                assert (await http.post(url, content=padded(most), headers=headers)).status_code == 200
                assert error_of(await http.post(url, content=padded(most + 1), headers=headers)) == (413, "too_large")

    asyncio.run(work())


# -- too slow --


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GET /nodes HTTP/1.1\r\n",
        "GET /nodes HTTP/1.1\r\nHost: x\r\nX-",
        "POST /nodes/host-token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        "POST /nodes/host-token HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
        "POST /nodes/x/invoke HTTP/1.1\r\nHost: x\r\nX-Suzent-Token: szt_forged\r\nContent-Length: 100\r\n\r\n{",
        "POST /nodes/x/invoke HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_a_stranger_has_its_time_for_a_request(make_gateway: MakeGateway, text: str) -> None:
    gateway = make_gateway(limits={"request_timeout": 0.5})
    with closing(connect(gateway, text)) as sock, closing(connect(gateway, text)) as dribbling:
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # a byte now and then buys no time
            while time.monotonic() < began + 20:
                dribbling.sendall(b"x")
                time.sleep(0.02)
        assert hung_up(sock)
        assert time.monotonic() - began > 0.3


def test_a_body_has_its_time_also_of_those_we_know(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"body_timeout": 0.5})
    head = f"POST /nodes/x/invoke HTTP/1.1\r\nHost: x\r\nX-Suzent-Token: {gateway.token}\r\nContent-Length: 100000\r\n"
    with closing(connect(gateway, head + "\r\n{")) as sock:
        assert hung_up(sock)


def test_a_known_connection_may_rest_for_longer_than_a_stranger(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"idle_timeout": 2, "request_timeout": 0.3})
    known = f"GET /nodes HTTP/1.1\r\nHost: x\r\nX-Suzent-Token: {gateway.token}\r\n\r\n"
    with closing(connect(gateway, known)) as sock, closing(connect(gateway, known.replace("szt_", "no_"))) as stranger:
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert hung_up(stranger)
        sock.sendall(known.encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        assert hung_up(sock)
        assert time.monotonic() - began > 1.5


# -- too many --


EXTERNAL = external_address()


def on_lan(make_gateway: MakeGateway, **limits: Any) -> ThreadedGateway:
    if EXTERNAL is None:
        pytest.skip("this machine has no address but loopback")
    settings = Settings(display_name="LAN", node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
    return make_gateway(settings=settings, limits=limits)


def test_connections_of_one_address_the_oldest_makes_room(make_gateway: MakeGateway) -> None:
    gateway = on_lan(make_gateway, connections_per_address=3)
    local = connect(gateway)
    # A header is no address.
    text = "GET / HTTP/1.1\r\nX-Forwarded-For: 203.0.113.{}\r\nX-Real-Ip: 203.0.113.{}\r\n"
    sockets = [connect(gateway, text.replace("{}", str(number)), str(EXTERNAL)) for number in range(5)]
    assert [hung_up(sock) for sock in sockets[:2]] == [True, True]
    assert all(open_still(sock) for sock in (*sockets[2:], local))
    # One that is known counts no longer, and stays.
    known = connect(gateway, host=str(EXTERNAL))
    host_token = make_host_token(gateway)
    known.sendall(f"GET /nodes HTTP/1.1\r\nHost: x\r\nX-Suzent-Token: {host_token}\r\n\r\n".encode())
    assert known.recv(65536).startswith(b"HTTP/1.1 200")
    more = [connect(gateway, host=str(EXTERNAL)) for _ in range(4)]
    assert hung_up(more[0])
    assert open_still(known)
    for sock in (*sockets, *more, local, known):
        sock.close()


def make_host_token(gateway: ThreadedGateway) -> str:
    answer = httpx.post(f"http://127.0.0.1:{gateway.service.port}/nodes/host-token", json={}, headers=gateway.headers)
    return str(answer.json()["token"])


def test_connections_in_all_the_oldest_makes_room(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"connections_unknown": 3})
    sockets = [connect(gateway) for _ in range(5)]
    assert [hung_up(sock) for sock in sockets[:2]] == [True, True]
    assert all(open_still(sock) for sock in sockets[2:])
    assert httpx.get(f"{gateway.url}/nodes", headers=gateway.headers).status_code == 200
    for sock in sockets:
        sock.close()


@sync
async def test_bad_tokens_of_one_address(make_gateway: MakeGateway) -> None:
    gateway = on_lan(make_gateway, bad_tokens_per_address=3, bad_tokens_shared=5)
    token = await asyncio.to_thread(make_host_token, gateway)
    async with httpx.AsyncClient(base_url=gateway.url.replace("127.0.0.1", str(EXTERNAL))) as away:
        codes = [
            (await away.get("/nodes", headers={**FORGED, "X-Forwarded-For": f"203.0.113.{number}"})).status_code
            for number in range(5)
        ]
        assert codes == [401, 401, 401, 429, 429]
        answer = await away.get("/nodes", headers={"X-Suzent-Token": token})
        assert answer.status_code == 200
        assert (await away.get("/nodes")).status_code == 401
    async with gateway.http(headers=FORGED) as local:
        assert [(await local.get("/nodes")).status_code for _ in range(6)] == [401] * 5 + [429]


@sync
async def test_paused_and_missing_tokens_are_no_attempts(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"bad_tokens_shared": 1})
    async with gateway.http() as http:
        made = (await http.post("/nodes/host-token", json={})).json()
        paused = {"status": "paused"}
        await http.post(f"/nodes/devices/{made['device_id']}/status", json=paused)
        for headers in ({"X-Suzent-Token": made["token"]}, {}, {"Authorization": "Bearer other"}):
            async with gateway.http(headers=headers) as other:
                assert [(await other.get("/nodes")).status_code for _ in range(3)] == [401] * 3


@sync
async def test_a_refusal_that_passes_says_when(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"calls_in_flight": 1, "calls_waiting": 1})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        calls = [asyncio.create_task(invoke(http, "MyPhone", timeout=20)) for _ in range(2)]
        await until(lambda: len(gateway.service.gateway.registry.by_id(device.node_id)._waiting) == 1)
        busy = await invoke(http, "MyPhone")
        assert error_of(busy) == (429, "node_busy")
        assert int(busy.headers["Retry-After"]) == busy.json()["retry_after"] >= 1
        unknown = await invoke(http, "nobody")
        assert (unknown.status_code, "Retry-After" in unknown.headers) == (404, False)
        large = await invoke(http, "MyPhone", params={"x": "x" * 2**20})  # the long way
        assert error_of(large)[0] == 413 or int(large.headers["Retry-After"]) >= 1
        gateway.run(
            gateway.service.gateway.configure(gateway.service.kernel_token._principal, {"nodes_enabled": False})
        )
        off = await invoke(http, "MyPhone")
        assert error_of(off) == (503, "nodes_disabled")
        assert "Retry-After" in off.headers
        for call in calls:
            call.cancel()


# -- no file descriptor left --


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[CountedGateway]:
    gateway = CountedGateway(tmp_path)
    yield gateway
    gateway.close()


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of another process are Linux's")
def test_without_file_descriptors_it_waits_and_goes_on(counted: CountedGateway) -> None:
    assert httpx.get(f"{counted.url}/nodes", headers=counted.headers).status_code == 200
    counted.settled(connections=0)
    process = psutil.Process(counted.process.pid)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + 3, before[1]))
    try:
        # Strangers make room.
        strangers = [socket.create_connection(("127.0.0.1", counted.port), 10) for _ in range(10)]
        assert httpx.get(f"{counted.url}/nodes", headers=counted.headers).status_code == 200
        # With nobody to make room, whoever comes waits.
        for sock in strangers:
            sock.close()
        known = [httpx.Client(base_url=counted.url, headers=counted.headers, timeout=20) for _ in range(3)]
        for client in known:
            assert client.get("/nodes").status_code == 200
        late = socket.create_connection(("127.0.0.1", counted.port), 10)
        late.sendall(b"GET /nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        late.settimeout(0.5)
        with pytest.raises(TimeoutError):
            late.recv(100)
        used = process.cpu_times().user
        with pytest.raises(TimeoutError):
            late.recv(100)
        assert process.cpu_times().user - used < 0.4  # it does not spin
        known.pop().close()
        late.settimeout(20)
        assert late.recv(100).startswith(b"HTTP/1.1 401")
        for client in known:
            client.close()
        late.close()
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)
    assert counted.log.read_text().count("Too many open files") == 1
