"""Two machines on one network: they find each other, and the cable between them carries nothing of Jupyter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.gateways import jupyter_dirs
from support.netns import TwoHosts, two_hosts, unavailable
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

#: Advertises as Suzent does: three keys, text values, one IPv4 address, the machine's own host name.
SUZENT = """
import signal, socket, sys
from zeroconf import ServiceInfo, Zeroconf
name, address, port = sys.argv[1:]
info = ServiceInfo(
    "_suzent-node._tcp.local.", name.replace(".", "-") + "._suzent-node._tcp.local.",
    addresses=[socket.inet_aton(address)], port=int(port),
    properties={"display_name": name, "auth_mode": "approve", "path": "/ws/node"},
    server=socket.gethostname() + ".local.",
)
zeroconf = Zeroconf()
zeroconf.register_service(info)
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
zeroconf.unregister_service(info)
zeroconf.close()
"""

#: Browses as Suzent does, and prints each service that comes and goes.
WATCH = """
import json, socket
from zeroconf import ServiceBrowser, Zeroconf

class Listener:
    def add_service(self, zeroconf, kind, name):
        info = zeroconf.get_service_info(kind, name, timeout=3000)
        if info is not None and info.addresses:
            text = {key.decode(): value.decode() for key, value in info.properties.items()}
            address = socket.inet_ntoa(info.addresses[0])
            print(json.dumps(["add", text["display_name"], address, info.port, text]), flush=True)
    update_service = add_service
    def remove_service(self, zeroconf, kind, name):
        print(json.dumps(["remove", name]), flush=True)

zeroconf = Zeroconf()
browser = ServiceBrowser(zeroconf, "_suzent-node._tcp.local.", Listener())
input()
zeroconf.close()
"""

#: A device that knows nothing but the protocol.
DEVICE = """
import asyncio, json, sys, websockets

async def main(url):
    async with websockets.connect(url) as ws:
        await ws.send(json.dumps({"type": "connect", "display_name": "Far phone", "platform": "test",
                                  "capabilities": [{"name": "echo"}]}))
        print(json.loads(await ws.recv())["pairing_code"], flush=True)
        async for text in ws:
            frame = json.loads(text)
            if frame["type"] == "invoke":
                await ws.send(json.dumps({"type": "result", "request_id": frame["request_id"], "success": True,
                                          "result": frame["params"], "error": None}))

asyncio.run(main(sys.argv[1]))
"""

#: Prints status and body of what each path answers.
GET = """
import http.client, json, sys
for path in sys.argv[3:]:
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    print(json.dumps([path, answer.status, answer.read().decode("utf-8", "replace")]))
"""


@dataclass
class Server:
    """A server in one of the hosts, and how to command it there."""

    hosts: TwoHosts
    where: str
    root: Path
    process: subprocess.Popen[Any]
    runtime: dict[str, Any]

    def cli(self, *words: str) -> Any:
        """Run a verb of ``jupyter suzent`` in the same host and return its JSON."""
        script = "import sys; from suzent_jupyter.cli import main; sys.argv[0] = 'jupyter-suzent'; main()"
        options = ["--json", "--url", self.runtime["url"], "--token", self.runtime["token"]]
        env = {**os.environ, **jupyter_dirs(self.root)}
        return json.loads(self.hosts.python(self.where, script, *words, *options, env=env))

    def finds(self, name: str) -> dict[str, Any] | None:
        lan = self.cli("node", "discover", "--timeout=1.5")["lan"]
        return next((each for each in lan if each["name"] == name), None)


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with two_hosts() as made:
        yield made


@pytest.fixture(scope="module")
def start(hosts: TwoHosts, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Server]:
    def run(where: str, name: str, *command: str) -> Server:
        root = tmp_path_factory.mktemp(where)
        env = {**os.environ, **jupyter_dirs(root), "PATH": f"{root}{os.pathsep}{os.environ['PATH']}"}
        for key in ("SUZENT_BASE_URL", "SUZENT_TOKEN"):
            env.pop(key, None)
        log = root / "log"
        with log.open("wb") as output:
            process = hosts.run(
                where, [sys.executable, "-m", *command, f"--SuzentApp.display_name={name}"],
                env=env, cwd=root, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        path = root / "runtime" / f"suzent-{process.pid}.json"

        def written() -> bool:
            assert process.poll() is None, log.read_text()
            return path.exists()

        wait_for(written, 60, f"{path}\n{log.read_text()}")
        return Server(hosts, where, root, process, json.loads(path.read_text()))

    return run


@pytest.fixture(scope="module")
def alone(start: Callable[..., Server]) -> Server:
    """In host a: the gateway alone."""
    return start("a", "Ada.s lab 🧪", "suzent_jupyter.cli", "gateway", "--lan")


@pytest.fixture(scope="module")
def jupyter(start: Callable[..., Server]) -> Server:
    """In host b: a Jupyter server, its gateway bound for other devices."""
    return start(
        "b", "Bob", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=8888",
        "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=jt", "--SuzentApp.node_lan_bind=True",
    )  # fmt: skip


def line(process: subprocess.Popen[Any]) -> str:
    assert process.stdout is not None
    return str(process.stdout.readline()).strip()


def test_they_find_each_other(hosts: TwoHosts, alone: Server, jupyter: Server) -> None:
    seen = wait_for(lambda: jupyter.finds("Ada.s lab 🧪"), 40)
    assert seen == {
        "name": "Ada.s lab 🧪", "host": hosts.a.ipv4, "port": 25314, "auth_mode": "approve", "source": "lan",
        "gateway_url": f"ws://{hosts.a.ipv4}:25314/ws/node", "reachable": True, "tls_port": None,
    }  # fmt: skip
    other = wait_for(lambda: alone.finds("Bob"), 40)
    assert (other["host"], other["reachable"]) == (hosts.b.ipv4, True)
    assert alone.finds("Ada.s lab 🧪") is None, "never itself"


def test_a_device_joins_over_the_cable(hosts: TwoHosts, alone: Server) -> None:
    url = f"ws://{hosts.a.ipv4}:25314/ws/node"
    device = hosts.run("b", [sys.executable, "-c", DEVICE, url], stdout=subprocess.PIPE, text=True)
    code = line(device)
    [waiting] = alone.cli("node", "pending")["pending"]
    assert (waiting["pairing_code"], waiting["remote"]) == (code, hosts.b.ipv4)
    alone.cli("node", "approve", code)
    answer = alone.cli("node", "invoke", "Far phone", "echo", "text=over the cable")
    assert answer["result"] == {"text": "over the cable"}
    device.kill()


def test_nothing_of_jupyter_answers_on_the_listener(hosts: TwoHosts, jupyter: Server) -> None:
    paths = [
        "/", "/api", "/api/status", "/api/kernels", "/api/contents", "/lab", "/tree", "/static/base/style.css",
        "/login", "/files/x", "/terminals/1", "/suzent/nodes", "/metrics", "/api/kernels/x/channels",
    ]  # fmt: skip
    for path, status, body in map(json.loads, hosts.python("a", GET, hosts.b.ipv4, "25314", *paths).splitlines()):
        assert (status, json.loads(body)["code"]) == (404, "no_route"), path
    [listed] = hosts.python("a", GET, hosts.b.ipv4, "25314", "/nodes").splitlines()
    assert json.loads(listed)[1] == 401
    script = "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], 8888)) == 0)"
    hosts.python("a", script, hosts.b.ipv4)


def test_suzent_is_found_and_its_goodbye_is_heard(hosts: TwoHosts, alone: Server) -> None:
    name = "Real Suzent"
    suzent = hosts.run(
        "b", [sys.executable, "-c", SUZENT, name, hosts.b.ipv4, "25999"], stdout=subprocess.PIPE, text=True
    )
    assert line(suzent) == "ready"
    seen = wait_for(lambda: alone.finds(name), 30)
    assert seen == {
        "name": name, "host": hosts.b.ipv4, "port": 25999, "auth_mode": "approve", "source": "lan",
        "gateway_url": f"ws://{hosts.b.ipv4}:25999/ws/node", "reachable": False, "tls_port": None,
    }  # fmt: skip
    hosts.stop(suzent)
    wait_for(lambda: alone.finds(name) is None, 30)


def test_suzent_finds_us_and_hears_when_we_go(hosts: TwoHosts, alone: Server, jupyter: Server) -> None:
    watch = hosts.run("b", [sys.executable, "-c", WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    text = {"auth_mode": "approve", "path": "/ws/node"}
    added = {}
    while {"Ada.s lab 🧪", "Bob"} - set(added):
        kind, name, *rest = json.loads(line(watch))
        assert kind == "add"
        added[name] = rest
    assert added["Ada.s lab 🧪"] == [hosts.a.ipv4, 25314, {"display_name": "Ada.s lab 🧪", **text}]
    assert added["Bob"] == [hosts.b.ipv4, 25314, {"display_name": "Bob", **text}]

    def gone(name: str) -> None:
        while json.loads(line(watch))[:2] != ["remove", f"{name}._suzent-node._tcp.local."]:
            pass

    jupyter.cli("config", "set", "node_discovery_enabled", "false")
    gone("Bob")
    assert jupyter.cli("node", "discover")["problems"][0].startswith("Discovery is switched off")
    started = time.monotonic()
    assert hosts.stop(alone.process) == 0
    assert time.monotonic() - started < 5
    gone("Ada-s lab 🧪")


def test_a_flood_of_services_is_bounded(hosts: TwoHosts) -> None:
    flood = """
import asyncio, sys
from zeroconf import ServiceInfo
from zeroconf.asyncio import AsyncZeroconf

async def main(address):
    kind = "_suzent-node._tcp.local."
    zeroconf = AsyncZeroconf()
    for n in range(100):
        info = ServiceInfo(kind, f"flood{n}.{kind}", parsed_addresses=[address], port=1, server=f"f{n}.local.")
        zeroconf.zeroconf.registry.async_add(info)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""
    process = hosts.run("a", [sys.executable, "-c", flood, hosts.a.ipv4], stdout=subprocess.PIPE, text=True)
    assert line(process) == "ready"
    look = "import asyncio; from suzent_jupyter.discovery.browser import browse; print(len(asyncio.run(browse(2.5))))"
    assert int(hosts.python("b", look)) == 64
    process.kill()


def test_over_ipv6_alone(hosts: TwoHosts) -> None:
    speak = """
import asyncio, sys
from zeroconf import IPVersion, ServiceInfo
from zeroconf.asyncio import AsyncZeroconf

async def main(address):
    kind = "_suzent-node._tcp.local."
    zeroconf = AsyncZeroconf(ip_version=IPVersion.V6Only)
    info = ServiceInfo(kind, f"Six.{kind}", parsed_addresses=[address, "fe80::1"], port=1, server="six.local.")
    zeroconf.zeroconf.registry.async_add(info)
    await zeroconf.zeroconf.async_wait_for_start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""
    process = hosts.run("a", [sys.executable, "-c", speak, hosts.a.ipv6], stdout=subprocess.PIPE, text=True)
    assert line(process) == "ready"
    look = (
        "import asyncio; from suzent_jupyter.discovery.browser import browse\n"
        "print(*[each.hosts for each in asyncio.run(browse(2.5)) if each.name == 'Six'])"
    )
    assert hosts.python("b", look).strip() == str((hosts.a.ipv6,))
    process.kill()
