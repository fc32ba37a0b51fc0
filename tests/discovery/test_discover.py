"""``GET /nodes/discover``, and what a notebook and a terminal make of it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.running import sync
from support.tailscale import install, install_status, machine, status

from suzent_jupyter.discovery import discover
from suzent_jupyter.discovery.browser import Found
from suzent_jupyter.discovery.discover import not_in_lan
from suzent_jupyter.discovery.probe import Prober
from suzent_jupyter.discovery.tailscale import Machine
from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.kernel import Gateway
from suzent_jupyter.kernel.errors import KernelError

LAN = {"name", "host", "port", "auth_mode", "gateway_url", "source", "reachable"}
TAILSCALE = {"name", "host", "port", "tailscale_ip", "dns_name", "gateway_url", "source", "reachable"}


@pytest.fixture
def tailnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return install_status(
        tmp_path, monkeypatch, status(machine("GPUbox", "100.64.0.7"), machine("Lab-PC", "100.64.0.8"))
    )


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def lan(monkeypatch: pytest.MonkeyPatch, open_port: int) -> list[float]:
    """A LAN with one gateway that answers and one that does not; returns how long each search lasted."""
    browsed: list[float] = []

    async def browse(seconds: float, interfaces: Any) -> list[Found]:
        browsed.append(seconds)
        await asyncio.sleep(min(seconds, 0.3))
        return [
            Found("Lab-PC", ("127.0.0.2", "127.0.0.1"), open_port, "approve", 25315, "lab.local."),
            Found("Nowhere", ("fd12::1",), 1, server="nowhere.local."),
        ]

    real = Prober._ask

    async def ask(self: Prober, host: str, port: int) -> bool:
        return host.startswith("127.") and await real(self, host, port)  # nothing beyond this machine is asked

    monkeypatch.setattr(Prober, "_ask", ask)
    monkeypatch.setattr(discover, "browse", browse)
    return browsed


@sync
async def test_annex_a(gateway: ThreadedGateway, tailnet: Path, lan: list[float], open_port: int) -> None:
    async with gateway.http() as http:
        answer = await http.get("/nodes/discover?timeout=0.3")
        assert answer.status_code == 200
        body = answer.json()
    assert set(body) == {"lan", "tailscale", "problems"}
    answering, silent = body["lan"]
    assert set(answering) >= LAN
    assert answering == {
        "name": "Lab-PC", "host": "127.0.0.1", "port": open_port, "auth_mode": "approve", "source": "lan",
        "gateway_url": f"ws://127.0.0.1:{open_port}/ws/node", "reachable": True, "tls_port": 25315,
    }  # fmt: skip
    assert (silent["gateway_url"], silent["reachable"]) == ("ws://[fd12::1]:1/ws/node", False)
    [peer] = body["tailscale"]  # Lab-PC stands in lan only
    assert set(peer) >= TAILSCALE
    assert peer == {
        "name": "GPUbox", "host": "100.64.0.7", "port": 25314, "tailscale_ip": "100.64.0.7",
        "dns_name": "gpubox.tail1234.ts.net", "source": "tailscale",
        "gateway_url": "ws://100.64.0.7:25314/ws/node", "reachable": False,
    }  # fmt: skip
    assert body["problems"] == []


@sync
async def test_those_who_ask_together_share_one_search(
    gateway: ThreadedGateway, tailnet: Path, lan: list[float]
) -> None:
    async with gateway.http() as http:
        answers = await asyncio.gather(*(http.get("/nodes/discover") for _ in range(8)))
        assert {each.text for each in answers} == {answers[0].text}
        assert lan == [3.0]
        assert (tailnet / "calls").read_text().count("status") == 1
        await http.get("/nodes/discover?timeout=600")
        assert lan == [3.0, 10.0]


@sync
async def test_a_machine_that_answers_in_both_is_known_by_its_address(
    gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lan: list[float]
) -> None:
    """Tailscale learns the address from the very packets that ask whether something answers."""
    folder = install(tmp_path, monkeypatch, 'cd "$(dirname "$0")" && cat status.json && cp later.json status.json')

    async def ask(self: Prober, host: str, port: int) -> bool:
        return host == "100.64.0.8"

    monkeypatch.setattr(Prober, "_ask", ask)
    (folder / "status.json").write_text(json.dumps(status(machine("Lab-PC", "100.64.0.8"))))
    later = machine("Lab-PC", "100.64.0.8", CurAddr="127.0.0.1:41641")
    (folder / "later.json").write_text(json.dumps(status(later)))
    async with gateway.http() as http:
        body = (await http.get("/nodes/discover?timeout=0.3")).json()
    assert ([each["name"] for each in body["lan"]], body["tailscale"]) == (["Lab-PC", "Nowhere"], [])
    assert (folder / "calls").read_text().count("status") == 2


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "x", "", "1e999", "\u0663"])
@sync
async def test_odd_timeouts_are_refused(gateway: ThreadedGateway, lan: list[float], timeout: str) -> None:
    async with gateway.http() as http:
        answer = await http.get("/nodes/discover", params={"timeout": timeout})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert lan == []


@sync
async def test_switched_off_it_neither_looks_nor_asks(
    gateway: ThreadedGateway, tailnet: Path, lan: list[float]
) -> None:
    async with gateway.http() as http:
        await http.post("/nodes/config", json={"node_discovery_enabled": False})
        started = time.monotonic()
        body = (await http.get("/nodes/discover")).json()
        assert time.monotonic() - started < 1
        assert (body["lan"], body["tailscale"]) == ([], [])
        assert body["problems"] == [discover.OFF]
        assert lan == [] and not (tailnet / "calls").exists()
        await http.post("/nodes/config", json={"node_discovery_enabled": True})
        assert len((await http.get("/nodes/discover?timeout=0.1")).json()["lan"]) == 2


@sync
async def test_the_gateway_works_while_it_looks(gateway: ThreadedGateway, tailnet: Path, lan: list[float]) -> None:
    async with gateway.http() as http:
        looking = asyncio.ensure_future(http.get("/nodes/discover"))
        slowest = 0.0
        while not looking.done():
            started = time.monotonic()
            assert (await http.get("/nodes")).status_code == 200
            slowest = max(slowest, time.monotonic() - started)
        assert slowest < 0.5


def test_the_same_machine_stands_in_one_list() -> None:
    by_address = Machine("a", ("100.64.0.1",), "a.ts.net", frozenset({"192.168.1.2"}))
    by_name = Machine("Lab", ("100.64.0.2",), "lab.ts.net")
    twins = [Machine("pi", ("100.64.0.3",), "pi.ts.net"), Machine("pi", ("100.64.0.4",), "pi-1.ts.net")]
    by_tailnet_address = Machine("b", ("100.64.0.5",), "b.ts.net")
    found = [
        Found("Ada's", ("192.168.1.2",), 1), Found("x", ("192.168.1.3",), 1, server="lab.local."),
        Found("pi", ("192.168.1.4",), 1), Found("y", ("100.64.0.5",), 1),
    ]  # fmt: skip
    # Which of the twins it is can't be told: better twice than hidden.
    peers = [by_address, by_name, *twins, by_tailnet_address]
    assert not_in_lan(peers, found, set()) == twins
    # Nobody on the LAN can hide a gateway of the tailnet by taking its name.
    assert not_in_lan(peers, found, {"100.64.0.1", "100.64.0.2"}) == [by_name, *twins]


# -- notebook and terminal ----------------------------------------------------------------------------------------


def test_frame(gateway: ThreadedGateway, tailnet: Path, lan: list[float]) -> None:
    with Gateway(gateway.url, gateway.token) as gw:
        frame = gw.discover(timeout=0.3)
        assert list(frame.index) == ["Lab-PC", "Nowhere", "GPUbox"]
        assert list(frame["reachable"]) == [True, False, False]
        assert list(frame["source"]) == ["lan", "lan", "tailscale"]
        assert frame["tls_port"].isna().tolist() == [False, True, True]
        gw.config(node_discovery_enabled=False)
        empty = gw.discover()
        assert len(empty) == 0
        assert empty.dtypes.to_dict() == frame.dtypes.to_dict()
        assert empty.index.name == frame.index.name == "name"
        assert frame.attrs["problems"] == [] and "switched off" in empty.attrs["problems"][0]
        with pytest.raises(KernelError) as refused:
            gw.discover(timeout=-1)
        assert refused.value.code == "invalid_request"


def test_magic(
    gateway: ThreadedGateway, tailnet: Path, lan: list[float], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from IPython.core.interactiveshell import InteractiveShell

    from suzent_jupyter.kernel.magics import load, unload

    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
    shell = InteractiveShell()
    load(shell)
    try:
        frame = shell.run_line_magic("suzent", "discover 0.3")
        assert frame.loc["Lab-PC", "source"] == "lan"
        url = frame.loc["Lab-PC", "gateway_url"]
        assert f"Next: %suzent connect {url}" in capsys.readouterr().out
        for wrong in ("discover x", "discover 0", "discover true", "discover 1 2"):
            with pytest.raises(KernelError):
                shell.run_line_magic("suzent", wrong)
    finally:
        unload(shell)
        shell.history_manager.end_session()


def test_what_to_do_next() -> None:
    from suzent_jupyter.kernel.frames import discovered
    from suzent_jupyter.kernel.verbs.discover import next_line

    item = {"name": "A\x1b[2J", "gateway_url": "ws://h:1/ws/node", "source": "lan", "reachable": True, "port": 1}
    assert next_line(discovered({"lan": [item]})) == (
        "Next: %suzent connect ws://h:1/ws/node  (joins A as one of its devices)"
    )
    assert "firewall" in next_line(discovered({"tailscale": [{**item, "reachable": False}]}))
    assert "node_lan_bind" in next_line(discovered({}))


def test_command_line(make_gateway: Callable[..., ThreadedGateway], tailnet: Path, lan: list[float]) -> None:
    gateway = make_gateway(settings=Settings(display_name="CLI"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "suzent_jupyter.cli", "node", "discover", "--url", gateway.url,
                   "--token", gateway.token, "--timeout", "0.3", *words]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    listed = run()
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[0].split() == ["NAME", "SOURCE", "GATEWAY_URL", "REACHABLE", "DNS_NAME"]
    assert "Lab-PC" in listed.stdout and "yes" in listed.stdout and listed.stderr == ""
    assert [each["name"] for each in json.loads(run("--json").stdout)["tailscale"]] == ["GPUbox"]
    gateway.service.gateway.settings.node_discovery_enabled = False
    off = run()
    assert off.stdout == "No other gateway was found.\n"
    assert "`jupyter suzent node config set node_discovery_enabled true`" not in off.stderr
    assert "`jupyter suzent config set node_discovery_enabled true`" in off.stderr
