"""The mount of a server whose gateway is in another: as on the gateway's own, and the detour gives nobody anything."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import websockets
from support.authority import EXPECTED, READABLE, ask, wanted
from support.calls import error_of, invoke, store_loaded
from support.client import BareClient
from support.device import BareDevice
from support.gateways import Addresses, JupyterServer, Process, gateway_process
from support.keyed import KeyedNode, multinode_url
from support.running import sync

from ..test_jupyter_auth import cookies_and_origins

CHOOSY = """
from jupyter_server.auth import Authorizer

class Choosy(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource == "suzent" and (action == "read" or "X-Look" not in handler.request.headers)
"""


class Mount(Addresses):
    """A mount as its Jupyter user reaches it, or the bearer of a token."""

    def __init__(self, server: JupyterServer, token: str | None = None) -> None:
        self.url = server.mount
        self.token = token or server.jupyter_token


class Pair:
    """A gateway, and a Jupyter server that is its guest."""

    def __init__(self, root: Path) -> None:
        root.joinpath("choosy.py").write_text(CHOOSY)
        self.host: Process = gateway_process(root, "--StandaloneGateway.trust_loopback=auto")
        try:
            self.server = JupyterServer(
                root,
                "--ServerApp.authorizer_class=choosy.Choosy",
                "--ServerApp.trust_xheaders=True",
                base_url="/user/a@b/",
                PYTHONPATH=os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
            )
        except BaseException:
            self.host.stop()
            raise
        self.mount = Mount(self.server)

    def secret(self) -> tuple[int, str]:
        """Return port and secret of the door."""
        runtime = Path(self.server.env["JUPYTER_RUNTIME_DIR"])
        [path] = runtime.glob(f"suzent_host_{self.host.process.pid}_*.json")
        assert path.stat().st_mode & 0o777 == 0o600
        facts = json.loads(path.read_text())
        return facts["door_port"], facts["secret"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    asyncio.run(store_loaded(made.host))
    yield made
    assert made.server.stop() == 0
    assert made.host.stop() == 0
    log = made.server.log.read_text() + made.host.log.read_text()
    assert "Traceback" not in log, log
    assert made.host.token not in log


async def paired(pair: Pair, name: str, through: Addresses | None = None, **hello: Any) -> BareDevice:
    """Return a connected device; it joins at the guest's mount."""
    device = BareDevice((through or pair.mount).node_url, name, **hello)
    await device.__aenter__()
    await pair.host.pair(device)
    return device


def test_kernels_and_terminals_of_the_guest_find_the_gateway(pair: Pair) -> None:
    assert (pair.server.url, pair.server.token) == (pair.host.url, pair.host.token)
    assert pair.server.mount != pair.host.url


@sync
async def test_calls_of_any_size_and_their_errors(pair: Pair) -> None:
    device = await paired(pair, "Any size", features=["cancel"])
    device.answer()
    async with pair.mount.http() as http:
        assert (await invoke(http, "Any size", params={"a": "ü"})).json()["result"] == {"a": "ü"}
        large = {"data": "x" * (20 * 2**20)}
        assert (await invoke(http, "Any size", params=large)).json()["result"] == large
        assert error_of(await invoke(http, "Any size", params={"data": "x" * (26 * 2**20)})) == (413, "too_large")
        assert error_of(await invoke(http, "Nobody")) == (404, "node_not_found")
        assert error_of(await http.post("/nodes/pending/ZZZZZZ/approve")) == (404, "code_unknown")
        assert error_of(await http.delete("/nodes")) == (405, "method_not_allowed")
        assert (await http.get("/nowhere")).status_code == 404
        node = (await http.get(f"/nodes/{device.node_id}")).json()
        assert node["display_name"] == "Any size"

        async def pieces() -> AsyncIterator[bytes]:
            for piece in (b'{"command":"echo",', b'"params":{"in":"pieces"}}'):
                yield piece

        answer = await http.post("/nodes/Any size/invoke", content=pieces())
        assert answer.json()["result"] == {"in": "pieces"}
    # The gateway pings the device itself, through the guest.
    async with pair.host.http() as http:
        async with asyncio.timeout(10):
            while (await http.get(f"/nodes/{device.node_id}")).json()["latency_ms"] is None:
                await asyncio.sleep(0.05)
    await device.__aexit__()


@sync
async def test_who_hangs_up_cancels_the_call(pair: Pair) -> None:
    device = await paired(pair, "Slow", features=["cancel"])
    async with pair.mount.http() as http:
        call = asyncio.create_task(invoke(http, "Slow"))
        frame = await device.recv("invoke")
        call.cancel()
        assert (await device.recv("cancel"))["request_id"] == frame["request_id"]
    await device.__aexit__()


@sync
async def test_a_client_socket_and_its_close_code(pair: Pair) -> None:
    async with pair.mount.http() as http:
        made = (await http.post("/nodes/host-token", json={"name": "script"})).json()
    async with BareClient(Mount(pair.server, made["token"])) as client:
        await client.send(type="subscribe", topics=["nodes", "pending"])
        assert (await client.change("pending", "snapshot"))["item"] is not None
        waiting = BareDevice(pair.mount.node_url, "Watched")
        await waiting.__aenter__()
        code = await waiting.code()
        assert (await client.change("pending", "added"))["item"]["pairing_code"] == code
        async with pair.mount.http() as http:
            assert (await http.post(f"/nodes/pending/{code}/approve")).status_code == 200
        await waiting.joined()
        waiting.answer()
        assert (await client.change("nodes", "added"))["item"]["display_name"] == "Watched"
        await client.send(type="invoke", id=1, node="Watched", command="echo", params={"x": "y" * 2**19})
        assert (await client.recv("result"))["result"] == {"x": "y" * 2**19}
        async with pair.mount.http() as http:
            await http.post(f"/nodes/devices/{waiting.node_id}/revoke")
            await asyncio.gather(*waiting._tasks, return_exceptions=True)  # its socket is closed
            assert (await waiting.closed())[0] == 4003
            await http.post(f"/nodes/devices/{made['device_id']}/revoke")
        code, reason = await client.closed()
        assert (code, bool(reason)) == (4003, True)
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with BareClient(Mount(pair.server, made["token"])):
            pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body)["code"] == "unauthorized"


@sync
async def test_everyone_reaches_what_they_reach_on_the_gateways_own_mount(pair: Pair) -> None:
    server = pair.server
    callers: list[tuple[str, dict[str, str], str | None]] = [
        ("nobody: never trusted here", {}, None),
        ("forged", {"Authorization": "Bearer szt_forged"}, None),
        ("kernel", server.headers, "full"),
        ("jupyter user", server.jupyter_headers, "full"),
        ("not a jupyter user", {"Authorization": "token wrong"}, None),
    ]
    for name, headers, authority in callers:
        async with httpx.AsyncClient() as http:
            for (method, path), least in EXPECTED.items():
                got = await ask(http, server.mount, method, path, headers)
                assert got == wanted(authority, least), (name, method, path)
    async with httpx.AsyncClient() as http:
        for method, path in EXPECTED:
            got = await ask(http, server.mount, method, path, {**server.jupyter_headers, "X-Look": "only"})
            assert got == (200 if (method, path) in READABLE else 403), (method, path)
    await cookies_and_origins(server)


@sync
async def test_behind_a_proxy_nobody_is_local(pair: Pair) -> None:
    away = {"X-Forwarded-For": "203.0.113.7"}
    async with httpx.AsyncClient(headers={**pair.server.headers, **away}) as http:
        assert error_of(await http.get(f"{pair.mount.url}/nodes")) == (401, "unauthorized")
    async with websockets.connect(pair.mount.node_url, additional_headers=away) as ws:
        await ws.send(json.dumps({"type": "connect", "display_name": "Far", "device_token": pair.host.token}))
        assert json.loads(await ws.recv())["type"] == "pending"
        async with pair.mount.http() as http:
            pending = (await http.get("/nodes/pending")).json()["pending"]
            code = next(entry["pairing_code"] for entry in pending if entry["display_name"] == "Far")
            assert (await http.post(f"/nodes/pending/{code}/approve")).status_code == 200
            # Whoever looks sees the client's address, not the guest's.
            [node] = [node for node in (await http.get("/nodes")).json()["nodes"] if node["display_name"] == "Far"]
            assert node["remote"] == "203.0.113.7"
    # Without a proxy the kernels' token still vouches for a device of this machine.
    async with BareDevice(pair.mount.node_url, "Near", device_token=pair.host.token) as near:
        await near.joined()


@sync
async def test_the_door_opens_to_the_secret_alone(pair: Pair) -> None:
    port, secret = pair.secret()
    facts = {
        "peer": "127.0.0.1",
        "remote": "127.0.0.1",
        "scheme": "http",
        "root": "/suzent",
        "may_write": True,
        "account": "ada",
        "org": "",
    }
    caller = json.dumps({"kind": "user", **facts})
    door = f"http://127.0.0.1:{port}"
    names = ("X-Suzent-Guest", "X-Suzent-Caller")
    async with httpx.AsyncClient() as http:
        for headers in (
            {},
            {names[1]: caller},
            {names[0]: "wrong", names[1]: caller},
            {names[0]: secret},
            {names[0]: secret, names[1]: "{}"},
            {names[0]: secret, names[1]: json.dumps({"kind": "root", **facts})},
            pair.host.headers,
        ):
            for path in ("/nodes", "/nodes/host-token", "/guest"):
                if path == "/guest" and names[0] in headers and headers[names[0]] == secret:
                    continue
                answer = await http.get(f"{door}{path}", headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), headers
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(f"ws://127.0.0.1:{port}/ws/client", additional_headers={names[1]: caller}):
                pass
        assert refused.value.response.status_code == 401
        # Nowhere else is anybody believed for it, nor at the mount for what it says about the caller.
        believed = {names[0]: secret, names[1]: caller}
        assert error_of(await http.get(f"{pair.host.url}/nodes", headers={**believed, "Cookie": "a=b"})) == (
            401,
            "unauthorized",
        )
        assert error_of(await http.get(f"{pair.mount.url}/nodes", headers=believed)) == (401, "unauthorized")
        nobody = {"X-Suzent-Caller": caller, "X-Forwarded-For": "203.0.113.7", **pair.server.headers}
        assert (await http.get(f"{pair.mount.url}/nodes", headers=nobody)).status_code == 401
        whole = await http.get(f"{door}/nodes", headers=believed)
        assert whole.status_code == 200


@sync
async def test_what_travels_on(pair: Pair) -> None:
    # A header named by Connection is of one hop; a body that breaks off reaches nobody.
    port = httpx.URL(pair.mount.url).port
    path = httpx.URL(pair.mount.url).raw_path.decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {path}/nodes HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close, X-Suzent-Token\r\n"
        f"X-Suzent-Token: {pair.host.token}\r\n\r\n".encode()
    )
    assert b"401" in await reader.readline()
    writer.close()
    async with pair.host.http() as http:
        before = (await http.get("/nodes/devices")).json()["count"]
        with socket.create_connection(("127.0.0.1", port or 0)) as broken:
            broken.sendall(
                f"POST {path}/nodes/host-token HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 100\r\n"
                f"X-Suzent-Token: {pair.host.token}\r\n\r\n{{".encode()
            )
        assert (await http.get("/nodes/devices")).json()["count"] == before


async def raw(url: str, target: str, *lines: str) -> tuple[int, str]:
    """Send a request whose target no client tidies up; return status and body."""
    at = httpx.URL(url)
    reader, writer = await asyncio.open_connection(at.host, at.port)
    head = [f"GET {target} HTTP/1.1", f"Host: {at.host}:{at.port}", *lines]
    writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
    status = int((await reader.readline()).split()[1])
    length = 0
    while line := (await reader.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = (await reader.readexactly(length)).decode()
    writer.close()
    return status, body


@sync
async def test_the_gateway_does_not_join_itself_by_its_guests_mount(pair: Pair) -> None:
    async with pair.host.http() as http:
        answer = await http.post("/nodes/connect", json={"gateway_url": pair.mount.node_url})
        assert error_of(answer) == (409, "own_gateway")
        assert (await http.get("/nodes/connections")).json()["count"] == 0
        # A ticket of its own makes no difference.
        invited = (await http.post("/nodes/invite", json={})).json()
        link = f"{pair.mount.url}/node#join={invited['ticket']}&id={invited['gateway_id']}"
        assert error_of(await http.post("/nodes/connect", json={"gateway_url": link})) == (409, "own_gateway")
        assert (await http.get("/nodes/connections")).json()["count"] == 0


@sync
async def test_the_page_of_the_guest_speaks_to_the_guest_alone(pair: Pair) -> None:
    at = httpx.URL(pair.mount.url)
    async with httpx.AsyncClient() as http:
        page = await http.get(f"{pair.mount.url}/node")
        assert page.status_code == 200
        [policy] = page.headers.get_list("content-security-policy")
        place = f"{at.host}:{at.port}{quote(at.path, safe='/')}/ws/node"
        assert f"connect-src ws://{place} wss://{place};" in policy
        assert "frame-ancestors 'none'" in policy and "report-uri" not in policy
        assert page.headers["x-frame-options"] == "DENY" and page.headers["cache-control"] == "no-store"
        # Jupyter's own rule for host names holds for it.
        assert (await http.get(f"{pair.mount.url}/node", headers={"Host": "evil.example"})).status_code == 403


@sync
async def test_a_path_travels_as_it_came(pair: Pair) -> None:
    root = httpx.URL(pair.mount.url).raw_path.decode()
    token = f"X-Suzent-Token: {pair.host.token}"
    for path in ("/nodes/..", "/nodes/.", "/nodes/%2e%2e", "/nodes/a%2Fb", "/nodes/\xe9", "/nodes/x?y=..#z"):
        there = await raw(pair.host.url, path.replace("\xe9", "%E9"), token)
        assert there[0] in (400, 404), (path, there)
        assert await raw(pair.mount.url, root + path, token) == there, path


@sync
async def test_nobody_makes_a_proxy_unseen(pair: Pair) -> None:
    """By listing its headers as those of one hop."""
    root = httpx.URL(pair.mount.url).raw_path.decode()
    token, away = f"X-Suzent-Token: {pair.host.token}", "x-forwarded-for: 203.0.113.7"
    assert (await raw(pair.mount.url, f"{root}/nodes", token))[0] == 200
    status, body = await raw(pair.mount.url, f"{root}/nodes", token, away, "Connection: close, X-Forwarded-For")
    assert (status, json.loads(body)["code"]) == (401, "unauthorized")


def test_a_second_gateway_alone_says_where_the_first_is(pair: Pair, tmp_path: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "suzent_jupyter.cli", "gateway", "--port=0"]
    done = subprocess.run(command, env=pair.host.env, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1
    assert f"runs already at {pair.host.url} (process {pair.host.process.pid})" in done.stderr
    assert "Traceback" not in done.stderr


@sync
async def test_people_and_keys_reach_the_gateway_of_many_nodes(pair: Pair) -> None:
    url = multinode_url(pair.mount)
    for headers, answer in (
        (pair.server.jupyter_headers, "hello-ok"),
        (pair.server.headers, "hello-ok"),
        ({}, "error"),
        ({"Authorization": "token wrong"}, "error"),
    ):
        person = KeyedNode(url)
        person.headers = headers
        await person.open()
        await person.send({"type": "connect", "role": "web"})
        assert (await person.recv())["type"] == answer, headers
        await person.ws.close()
    async with KeyedNode(url, "Keyed") as node:
        await pair.host.approve(await node.code())
        await node.joined()
