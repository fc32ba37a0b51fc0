"""What the ``tailscale`` command may answer, or not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest
from support.running import sync, until
from support.tailscale import install, install_status, machine, status

from suzent_jupyter.discovery import reachable_addresses
from suzent_jupyter.discovery.tailscale import PEERS, tailscale_status


@sync
async def test_online_machines_and_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install_status(
        tmp_path,
        monkeypatch,
        status(
            machine("GPUbox", "100.64.0.7", CurAddr="192.168.1.20:41641"),
            machine("asleep", "100.64.0.8", online=False),
            machine("localhost", "100.64.0.9", DNSName="adas-phone.tail1234.ts.net.", OS="iOS"),
        ),
    )
    found = await tailscale_status()
    assert found.problem == ""
    assert [(each.name, each.ips, each.dns_name) for each in found.peers] == [
        ("GPUbox", ("100.64.0.7", "fd7a:115c:a1e0::7"), "gpubox.tail1234.ts.net"),
        ("adas-phone", ("100.64.0.9", "fd7a:115c:a1e0::9"), "adas-phone.tail1234.ts.net"),
    ]
    assert found.peers[0].seen_at == {"192.168.1.20"}
    assert (found.own.ips[0], found.own.dns_name, found.magic_dns) == (
        "100.101.102.103", "gatewaybox.tail1234.ts.net", True,
    )  # fmt: skip
    assert (folder / "calls").read_text() == "status --json\n"


@pytest.mark.parametrize(
    ("state", "word"),
    [("NeedsLogin", "logged out"), ("Stopped", "switched off"), ("Starting", "starting"), ("NeedsMachineAuth", "admin"),
     ("\x1b[31mOdd", "'Odd'"), (7, "unknown")],
)  # fmt: skip
@sync
async def test_not_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, word: str) -> None:
    install_status(tmp_path, monkeypatch, status(machine("GPUbox", "100.64.0.7"), state=state))
    found = await tailscale_status()
    assert found.peers == [] and found.own.ips == ()
    assert word in found.problem and found.problem.isprintable()


@sync
async def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await tailscale_status()
    assert (found.peers, found.problem) == ([], "Tailscale is not installed on this machine.")


@sync
async def test_service_not_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = (
        "failed to connect to local tailscaled; it doesn't appear to be running (sudo systemctl start tailscaled ?)"
    )
    install(tmp_path, monkeypatch, f'echo "{complaint}" >&2\nexit 1')
    assert "service does not run" in (await tailscale_status()).problem


@pytest.mark.parametrize(
    "output", ["", "Hello \x1b[31m<b>", "[]", "null", "[" * 100_000, "{", '{"BackendState": "Running"']
)
@sync
async def test_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    folder = install(tmp_path, monkeypatch, 'exec cat "$(dirname "$0")/out"')
    (folder / "out").write_text(output)
    found = await tailscale_status()
    assert found.peers == []
    assert found.problem.startswith("Tailscale gave no status") and found.problem.isprintable()
    assert len(found.problem) < 200


@sync
async def test_odd_machines_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = status(
        machine("a", "100.64.0.1", TailscaleIPs=["8.8.8.8", "127.0.0.1", 5, "x" * 900], DNSName="../../etc\n"),
        machine("b", "100.64.0.2", TailscaleIPs="100.64.0.2", DNSName=7),
        machine("c", "100.64.0.3", Online="yes"),
        machine("\u202e\x1b[2Jd", "100.64.0.4", HostName={"x": 1}, DNSName="", Addrs=[1, "x", "[::1]:5"], CurAddr=None),
    )
    odd["Peer"] |= {"list": [], "none": None}
    install_status(tmp_path, monkeypatch, odd)
    found = await tailscale_status()
    assert [(each.name, each.dns_name) for each in found.peers] == [("100.64.0.4", "")]


@sync
async def test_a_large_tailnet_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [machine(f"m{n}", f"100.64.{n // 250}.{n % 250 + 1}", PublicKey=f"nodekey:{n}") for n in range(600)]
    install_status(tmp_path, monkeypatch, status(*many))
    assert len((await tailscale_status()).peers) == PEERS


@sync
async def test_a_command_that_hangs_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path, monkeypatch, 'sleep 98.76 &\necho $! > "$(dirname "$0")/child"\nwait')
    started = time.monotonic()
    found = await tailscale_status(0.5)
    assert time.monotonic() - started < 3
    assert found.problem == "Tailscale did not answer within 0.5 s."
    child = int((folder / "child").read_text())
    await until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


@sync
async def test_endless_output_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "exec cat /dev/zero")
    assert "more than 8 MiB" in (await tailscale_status()).problem


@sync
async def test_a_command_that_can_not_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(tmp_path, monkeypatch, "")
    (folder / "tailscale").write_text("not a program")
    assert (await tailscale_status()).problem.startswith("Tailscale")


@sync
async def test_own_addresses_are_listed_once_after_the_lan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install_status(tmp_path, monkeypatch, status())
    listed = [(each.label, each.host, each.kind) for each in await reachable_addresses()]
    tailnet = [each for each in listed if each[2] == "tailscale"]
    assert (
        tailnet
        == listed[-2:]
        == [
            ("Tailscale", "100.101.102.103", "tailscale"),
            ("Tailscale (MagicDNS)", "gatewaybox.tail1234.ts.net", "tailscale"),
        ]
    )
    assert "fd7a:115c:a1e0::103" in [each.host for each in await reachable_addresses(ipv6=True)]
    assert (folder / "calls").read_text().count("status") == 1, "asked again within seconds"


@sync
async def test_without_magic_dns_there_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tailnet = {"Name": "x", "MagicDNSSuffix": "tail1234.ts.net", "MagicDNSEnabled": False}
    install_status(tmp_path, monkeypatch, status(CurrentTailnet=tailnet))
    assert [each.label for each in await reachable_addresses() if each.kind == "tailscale"] == ["Tailscale"]


def test_the_stand_in_prints_json() -> None:
    assert json.loads(json.dumps(status()))["Peer"] is None
