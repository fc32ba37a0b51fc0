"""Three Jupyter servers of one user, one gateway: two are killed while devices, kernels and programs are busy."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from support.client import BareClient
from support.gateways import Addresses, JupyterServer
from support.waiting import wait_for

from suzent_jupyter.node import Backoff, NodeHost, TokenVault, capability
from suzent_jupyter.server.single.lock import GatewayLock

TAKEOVER_SECONDS = 5.0


#: What these servers can do without; they start in half the time.
WITHOUT = ("jupyterlab", "notebook", "notebook_shim", "jupyter_lsp", "jupyter_server_terminals")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[JupyterServer]]:
    arguments = [f"--ServerApp.jpserver_extensions={name}=False" for name in WITHOUT]
    with ThreadPoolExecutor() as pool:
        starting = [pool.submit(JupyterServer, tmp_path, *arguments) for _ in range(3)]
    try:
        yield [each.result() for each in starting]
    finally:
        for each in starting:
            if each.exception() is None and each.result().process.poll() is None:
                each.result().stop()


class Device:
    """A real device in a thread of its own; it comes back by itself."""

    def __init__(self, url: str, name: str, vault: Path) -> None:
        @capability("echo")
        def echo(**params: Any) -> dict[str, Any]:
            return params

        self.host = NodeHost(
            url,
            name=name,
            capabilities=[echo],
            vault=TokenVault(vault / name, keyring=False),
            backoff=Backoff(0.2, 1.0),
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self.host.run()), daemon=True)
        self._thread.start()

    def approve(self, mount: str, headers: dict[str, str]) -> None:
        wait_for(lambda: self.host.status == "pending", 20, "a pairing code")
        answer = httpx.post(f"{mount}/nodes/pending/{self.host.pairing_code}/approve", headers=headers, trust_env=False)
        assert answer.status_code == 200, answer.text
        self.connected()

    def connected(self, seconds: float = 20) -> None:
        wait_for(lambda: self.host.status == "connected", seconds, f"{self.host.name}: {self.host.status}")

    def stop(self) -> None:
        self.host.stop()
        self._thread.join(10)


def code_of(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["code"])
    except (ValueError, KeyError):
        return repr(answer.content[:200])


class Caller:
    """A program that calls without a pause, and notes what it got."""

    def __init__(self, url: str, headers: dict[str, str], node: str) -> None:
        self._url, self._headers = f"{url}/nodes/{node}/invoke", headers
        self.answers: list[tuple[float, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        body = {"command": "echo", "params": {"a": 1}}
        while not self._ended.is_set():
            try:
                with httpx.Client(headers=self._headers, timeout=20, trust_env=False) as http:
                    while not self._ended.is_set():
                        answer = http.post(self._url, json=body)
                        told = "ok" if answer.status_code == 200 else f"{answer.status_code} {code_of(answer)}"
                        self.answers.append((time.monotonic(), told))
                        time.sleep(0.05)
            except httpx.TransportError as error:
                self.answers.append((time.monotonic(), type(error).__name__))
                time.sleep(0.05)

    def succeeds_after(self, moment: float) -> bool:
        return any(when > moment and what == "ok" for when, what in self.answers)

    def stop(self) -> set[str]:
        """Return all that it was told."""
        self._ended.set()
        self._thread.join(30)
        return {what for _, what in self.answers}


class Kernel:
    """A real kernel of a server."""

    def __init__(self, server: JupyterServer) -> None:
        http = httpx.Client(headers=server.jupyter_headers, timeout=60, trust_env=False)
        started = http.post(f"{server.root_url}api/kernels", json={"name": "python3"})
        assert started.status_code == 201, started.text
        connection = Path(server.env["JUPYTER_RUNTIME_DIR"]) / f"kernel-{started.json()['id']}.json"
        self._client = BlockingKernelClient(connection_file=str(connection))
        self._client.load_connection_file()
        self._client.start_channels()
        wait_for(self._ready, 60, "a kernel")

    def _ready(self) -> bool:
        try:
            self._client.wait_for_ready(60)
        except RuntimeError:  # on a busy machine a kernel that still starts is taken for dead
            return False
        return True

    def run(self, code: str) -> str:
        """Run code; return what it printed."""
        texts: list[str] = []

        def heard(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                texts.append(message["content"]["text"])

        reply = self._client.execute_interactive(code, output_hook=heard, timeout=60)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(texts).strip()

    def stop(self) -> None:
        self._client.stop_channels()


CONNECT = """
import os, httpx
import suzent_jupyter as sz
gw = sz.connect()
before = os.environ["SUZENT_BASE_URL"]
"""
CALL = """
assert os.environ["SUZENT_BASE_URL"] == before
plain = httpx.post(before + "/nodes/Bench/invoke", json={"command": "echo", "params": {"x": 1}}).json()
print(gw.invoke("Bench", "echo", {"x": 1}).data, plain["result"])
"""
CALLED = "{'x': 1} {'x': 1}"


def host_of(servers: list[JupyterServer], data_dir: Path) -> JupyterServer:
    lock = GatewayLock(data_dir)
    try:
        pid = lock.read_note()["pid"]
    finally:
        lock.close()
    [host] = [server for server in servers if server.process.pid == pid]
    return host


def kill(host: JupyterServer) -> float:
    """Kill the gateway and wait until its port answers again; return when it did."""
    host.kill()
    killed = time.monotonic()

    def answers() -> bool:
        try:
            return httpx.get(f"{host.url}/nodes", headers=host.headers, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    wait_for(answers, TAKEOVER_SECONDS, "another server to take over")
    print(f"taken over after {time.monotonic() - killed:.2f} s")
    return time.monotonic()


def test_killing_the_gateway_twice(servers: list[JupyterServer], tmp_path: Path) -> None:
    data_dir = tmp_path / "data" / "suzent"
    assert len({(server.url, server.token) for server in servers}) == 1
    assert len(list((tmp_path / "runtime").glob("suzent_host_*.json"))) == 1
    assert len(list((tmp_path / "runtime").glob("suzent-*.json"))) == 3
    first = host_of(servers, data_dir)
    guests = [server for server in servers if server is not first]

    devices = [Device(first.url, "Bench", tmp_path), Device(guests[1].mount, "Through", tmp_path)]
    for device in devices:
        device.approve(guests[0].mount, guests[0].jupyter_headers)
    kernels = [Kernel(server) for server in guests]
    for kernel in kernels:
        kernel.run(CONNECT)
        assert kernel.run(CALL) == CALLED
    callers = {
        (server, place): Caller(server.url if place == "listener" else server.mount, headers, "Bench")
        for server in guests
        for place, headers in (("listener", server.headers), ("mount", server.jupyter_headers))
    }
    for caller in callers.values():
        wait_for(lambda caller=caller: caller.answers)  # type: ignore[misc]

    back = kill(first)
    for device in devices:
        device.connected(TAKEOVER_SECONDS)
    for caller in callers.values():
        wait_for(lambda caller=caller: caller.succeeds_after(back), TAKEOVER_SECONDS)  # type: ignore[misc]
    assert [kernel.run(CALL) for kernel in kernels] == [CALLED, CALLED]
    second = host_of(servers, data_dir)
    third = next(server for server in guests if server is not second)
    asyncio.run(changes_through(third))

    told = {key: caller.stop() for key, caller in callers.items() if key[0] is second}
    back = kill(second)
    devices[0].connected(TAKEOVER_SECONDS)
    for key, caller in callers.items():
        if key[0] is third:
            wait_for(lambda caller=caller: caller.succeeds_after(back), TAKEOVER_SECONDS)  # type: ignore[misc]
            told[key] = caller.stop()
    assert kernels[guests.index(third)].run(CALL) == CALLED
    for (_, place), each in told.items():
        # A mount whose server lives is always there, and says when to come again.
        passing = {"ok", "503 stopping", "502 node_disconnected", "404 node_not_found"}
        broken = {"ConnectError", "ReadError", "RemoteProtocolError", "WriteError"} if place == "listener" else set()
        assert each <= passing | broken, (place, each)

    for device in devices:
        device.stop()
    for kernel in kernels:
        kernel.stop()
    assert third.stop() == 0
    assert not (tmp_path / "runtime" / f"suzent-{third.process.pid}.json").exists()
    assert not list((tmp_path / "runtime").glob(f"suzent_host_{third.process.pid}_*.json"))
    free = GatewayLock(data_dir)
    assert free.take()
    free.close()
    assert third.token not in "".join(server.log.read_text() for server in servers)


async def changes_through(server: JupyterServer) -> None:
    """Hear of a device's coming and going over the mount of a guest."""
    mount = Addresses()
    mount.url, mount.token = server.mount, server.jupyter_token
    async with BareClient(mount) as client:
        await client.send(type="subscribe", topics=["nodes"])
        snapshot = await client.change("nodes", "snapshot")
        assert "Bench" in json.dumps(snapshot["item"])
        await client.send(type="invoke", id="1", node="Bench", command="echo", params={"x": 2})
        assert (await client.recv("result"))["result"] == {"x": 2}
