"""What kernels, terminals and the command line find: variables and a runtime file, gone when the gateway is."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateways import Process, ThreadedGateway
from support.running import sync
from support.waiting import wait_for

MakeGateway = Callable[..., ThreadedGateway]
NAMES = ("SUZENT_BASE_URL", "SUZENT_TOKEN", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    yield


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def test_set_while_it_runs_and_put_back(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    assert variables() == {
        "SUZENT_BASE_URL": f"http://suzent:{gateway.token}@127.0.0.1:{gateway.service.port}",
        "SUZENT_TOKEN": gateway.token,
        "NO_PROXY": "127.0.0.1,localhost",
    }
    gateway.stop()
    assert variables() == {}


def test_what_stood_there_is_kept_and_comes_back(make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example, 127.0.0.1")
    monkeypatch.setenv("no_proxy", "x")
    monkeypatch.setenv("SUZENT_TOKEN", "mine")
    gateway = make_gateway()
    assert [part.strip() for part in os.environ["NO_PROXY"].split(",")] == [
        "intranet.example",
        "127.0.0.1",
        *(["127.0.0.1"] if os.environ["NO_PROXY"].count("127.0.0.1") == 2 else []),
        "localhost",
    ]
    assert os.environ["no_proxy"] == "x,127.0.0.1,localhost"
    assert os.environ["SUZENT_TOKEN"] == gateway.token
    gateway.stop()
    assert variables() == {"NO_PROXY": "intranet.example, 127.0.0.1", "no_proxy": "x", "SUZENT_TOKEN": "mine"}


def test_a_preset_gateway_is_respected(make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", "http://other.example:25314")
    gateway = make_gateway()
    assert variables() == {"SUZENT_BASE_URL": "http://other.example:25314"}
    gateway.stop()
    assert variables() == {"SUZENT_BASE_URL": "http://other.example:25314"}


def test_the_runtime_file(make_gateway: MakeGateway) -> None:
    path = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"suzent-{os.getpid()}.json"
    gateway = make_gateway()
    assert path.stat().st_mode & 0o777 == 0o600
    facts = json.loads(path.read_text())
    assert (facts["url"], facts["token"], facts["pid"]) == (gateway.url, gateway.token, os.getpid())
    assert (facts["mount_url"], facts["data_dir"]) == (None, str(gateway.config.data_dir))
    assert [each.name for each in path.parent.iterdir() if each.name.startswith("suzent-")] == [path.name]
    gateway.stop()
    assert not path.exists()


def test_a_runtime_file_of_somebody_elses_making_is_replaced_not_followed(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    runtime.mkdir(parents=True, exist_ok=True)
    for name in (f"suzent-{os.getpid()}.json", f"suzent-{os.getpid()}.tmp"):
        (runtime / name).symlink_to(victim)
    gateway = make_gateway()
    assert victim.read_text() == "precious"
    path = runtime / f"suzent-{os.getpid()}.json"
    assert not path.is_symlink()
    assert json.loads(path.read_text())["token"] == gateway.token


def test_what_a_killed_gateway_left_is_removed_by_the_next(start_process: Callable[..., Process]) -> None:
    killed = start_process()
    path = Path(killed.env["JUPYTER_RUNTIME_DIR"]) / f"suzent-{killed.process.pid}.json"
    killed.kill()
    assert path.exists()
    alive = start_process()
    wait_for(lambda: not path.exists())
    assert [each.name for each in path.parent.glob("suzent-*")] == [f"suzent-{alive.process.pid}.json"]


def test_only_files_of_gateways_that_are_gone_from_this_machine_are_removed(make_gateway: MakeGateway) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    here = json.dumps({"host": platform.node()})
    left = {
        f"suzent-{gone.pid}.json": here,
        f"suzent-{os.getppid()}.json": here,
        f"suzent-{2**22 + 1}.json": json.dumps({"host": "elsewhere.example"}),
        f"suzent-{2**22 + 2}.json": "{",
        f"suzent-{2**22 + 3}.json": "[]",
        f"suzent-{2**22 + 4}.tmp": here,
        f"suzent-x{2**22 + 5}.json": here,
        f"jpserver-{gone.pid}.json": here,
    }
    for name, text in left.items():
        (runtime / name).write_text(text)
    (runtime / f"suzent-{2**22 + 6}.json").mkdir()
    (runtime / f"suzent_host_{gone.pid}_0123abcd.json").write_text(here)
    make_gateway()
    del left[f"suzent-{gone.pid}.json"]
    left |= dict.fromkeys([f"suzent-{2**22 + 6}.json", f"suzent-{os.getpid()}.json"], "")
    found = {each.name for each in runtime.iterdir()}
    own = {name for name in found if name.startswith(f"suzent_host_{os.getpid()}_")}
    assert len(own) == 1
    assert found - own == set(left)


def test_each_start_has_its_own_token(make_gateway: MakeGateway, tmp_path: Path) -> None:
    one = make_gateway(tmp_path / "data")
    one.stop()
    two = make_gateway(tmp_path / "data")
    assert one.token != two.token
    assert one.token.startswith("szt_")
    assert len(one.token) == 47


@sync
async def test_a_taken_port_gives_way_to_the_next_free_one(make_gateway: MakeGateway) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        gateway = make_gateway(listener_port=port)
        assert gateway.service.port is not None
        assert port < gateway.service.port <= port + 50
        async with gateway.http() as http:
            assert (await http.get("/nodes/config")).json()["port"] == gateway.service.port
        assert f":{gateway.service.port}" in os.environ["SUZENT_BASE_URL"]


def test_bound_for_other_devices_a_taken_port_is_a_clear_error(
    make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    from suzent_jupyter.gateway.settings import Settings

    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = Settings(node_lan_bind=True, fixed=frozenset(["node_lan_bind"]))
        gateway = make_gateway(listener_port=port, settings=settings)
        assert gateway.service.port is None
        [error] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert f"can't listen on port {port}" in error
        assert "listener_port" in error


def test_without_a_listener_the_mount_is_named(make_gateway: MakeGateway) -> None:
    mount = "http://127.0.0.1:8888/user/a@b/suzent"
    gateway = make_gateway(listener_enabled=False, mount_url=mount)
    assert os.environ["SUZENT_BASE_URL"] == f"http://suzent:{gateway.token}@127.0.0.1:8888/user/a@b/suzent"
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"suzent-{os.getpid()}.json"
    assert json.loads(runtime.read_text())["url"] == mount


def test_a_runtime_directory_that_can_not_be_written_stops_nothing(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "file" / "runtime"))
    gateway = make_gateway()
    assert os.environ["SUZENT_TOKEN"] == gateway.token
    gateway.stop()


def test_reprs_and_logs_hold_no_token(make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    gateway = make_gateway()

    async def use() -> None:
        from support.device import BareDevice

        async with BareDevice(gateway.node_url, device_token=gateway.token) as device, gateway.http() as http:
            await device.joined()
            await http.get("/nodes")
            await http.get("/nope", headers={"X-Suzent-Token": gateway.token})

    import asyncio

    asyncio.run(use())
    gateway.stop()
    ours = [record for record in caplog.records if record.name.startswith(("suzent", "tornado", "asyncio"))]
    assert ours
    assert not any(gateway.token in record.getMessage() for record in ours)
    things: list[Any] = [gateway.service, gateway.service.kernel_token, gateway.service.gateway, gateway.config]
    assert not any(gateway.token in repr(thing) for thing in things)


def test_the_stand_alone_gateway_explains_itself() -> None:
    command = [sys.executable, "-m", "suzent_jupyter.cli", "gateway", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "--port" in run.stdout
    assert "--data-dir" in run.stdout
