"""The verbs of the command line, against a real gateway and a real device."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.waiting import wait_for

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
EVIL = "Evil <b>\x1b[31m\u202e"
Run = Callable[..., subprocess.CompletedProcess[str]]


class Bench:
    """A device named "Lab PC" that answers, and one that waits; both on a thread."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        self.frames: list[dict[str, Any]] = []
        self.code = ""
        self._gateway = gateway
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        capabilities = [
            {"name": "echo", "description": EVIL},
            {"name": "camera.snap"},
            {"name": "fail"},
            {"name": "silence"},
        ]
        async with (
            BareDevice(self._gateway.node_url, "Lab PC", capabilities, features=["cancel"]) as device,
            BareDevice(self._gateway.node_url, EVIL) as waiting,
        ):
            await self._gateway.pair(device)
            self.code = await waiting.code()
            self._ready.set()
            work = asyncio.create_task(self._serve(device))
            await self._stop.wait()
            work.cancel()

    async def _serve(self, device: BareDevice) -> None:
        async for text in device.ws:
            frame = json.loads(text)
            self.frames.append(frame)
            if frame["type"] != "invoke" or frame["command"] == "silence":
                continue
            reply: dict[str, Any] = {"success": True, "result": frame["params"]}
            if frame["command"] == "fail":
                reply = {"success": False, "error": EVIL}
            elif frame["command"] == "camera.snap":
                reply["result"] = {"media_type": "image/png", "base64": PNG, "name": "../../x.html"}
            await device.send({"type": "result", "request_id": frame["request_id"], **reply})

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def bench(gateway: ThreadedGateway) -> Iterator[Bench]:
    made = Bench(gateway)
    yield made
    made.close()


def test_lists_and_pairing(run: Run, bench: Bench) -> None:
    assert "Lab PC" in run("node", "list").stdout
    assert json.loads(run("node", "list", "--json").stdout)["count"] == 1
    assert "echo" in run("node", "describe", "lab pc").stdout
    assert "1 connected, 1 waiting" in run("node", "status").stdout
    assert bench.code in run("node", "pending").stdout
    assert json.loads(run("node", "pending", "--json").stdout)["pending"][0]["pairing_code"] == bench.code
    assert "pending" in run("node", "approve", "AAAAAA", status=1).stderr
    assert run("node", "approve", bench.code.lower()).stdout.startswith("Approved")
    assert "Nothing waits" in run("node", "pending").stdout
    devices = json.loads(run("node", "devices", "--json").stdout)
    assert devices["count"] == 2
    assert json.loads(run("node", "pause", "Lab PC", "--json").stdout) == {"success": True, "status": "paused"}
    assert "paused" in run("node", "invoke", "Lab PC", "echo", status=1).stderr
    run("node", "resume", "Lab PC")
    run("node", "revoke", "Lab PC")
    assert "Lab PC" not in run("node", "devices").stdout


def test_invoke(run: Run, bench: Bench, tmp_path: Path) -> None:
    answer = run(
        "node",
        "invoke",
        "Lab PC",
        "echo",
        "a=5",
        "b=True",
        "c=None",
        'd={"x": [1, 2]}',
        "e=two words",
        "f=$HOME",
        "--json",
    )
    assert json.loads(answer.stdout) == {
        "success": True,
        "result": {"a": 5, "b": True, "c": None, "d": {"x": [1, 2]}, "e": "two words", "f": "$HOME"},
        "error": None,
    }
    assert json.loads(run("node", "invoke", "Lab PC", "echo", "--params", "-", "z=1", input='{"y": 2}').stdout) == {
        "y": 2,
        "z": 1,
    }
    assert json.loads(run("node", "invoke", "Lab PC", "camera.snap").stdout)["bytes"] == 70
    run("node", "invoke", "Lab PC", "camera.snap", "--output", "photo.png")
    assert (tmp_path / "photo.png").read_bytes().startswith(b"\x89PNG")
    assert "exists already" in run("node", "invoke", "Lab PC", "camera.snap", "-o", "photo.png", status=1).stderr
    run("node", "invoke", "Lab PC", "camera.snap", "-o", "photo.png", "--overwrite")
    (tmp_path / "photos").mkdir()
    run("node", "invoke", "Lab PC", "camera.snap", "-o", "photos")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["x.html.png"]


def test_the_first_of_several_parts_is_written_and_said(run: Run, bench: Bench) -> None:
    part = {"media_type": "image/png", "base64": PNG}
    said = run("node", "invoke", "Lab PC", "echo", "--params", json.dumps({"a": [part, part]}), "-o", "a.png").stdout
    assert said == "Wrote a.png (70 bytes, the first of 2 parts).\n"


def test_the_version(run: Run) -> None:
    from suzent_jupyter import __version__

    assert run("--version").stdout == f"suzent-jupyter {__version__}\n"


def test_invoke_failures(run: Run, bench: Bench) -> None:
    assert "key=value" in run("node", "invoke", "Lab PC", "echo", "hello", status=2).stderr
    assert "not valid JSON" in run("node", "invoke", "Lab PC", "echo", "--params", "{", status=2).stderr
    assert "Evil <b>" in run("node", "invoke", "Lab PC", "fail", status=1).stderr
    assert json.loads(run("node", "invoke", "Lab PC", "fail", "--json", status=1).stdout) == {
        "success": False, "result": None, "error": EVIL,
    }  # fmt: skip
    assert "jupyter suzent node list" in run("node", "invoke", "nobody", "echo", status=1).stderr
    assert "camera.snap" in run("node", "invoke", "Lab PC", "nope", status=1).stderr
    assert "greater than 0" in run("node", "invoke", "Lab PC", "echo", "--timeout", "0", status=1).stderr
    assert run("node", "invoke", "Lab PC", "silence", "--timeout", "0.1", status=1).stderr
    run("node", "invoke", "Lab PC", status=2)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT to one process")
def test_an_interrupt_cancels_on_the_device(bench: Bench, gateway: ThreadedGateway) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "suzent_jupyter.cli", "node", "invoke", "Lab PC", "silence",
         "--url", gateway.url, "--token", gateway.token],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: any(frame["type"] == "invoke" for frame in bench.frames))
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip() == "Error: Interrupted."
    wait_for(lambda: any(frame["type"] == "cancel" for frame in bench.frames))


def test_settings_tokens_and_audit(run: Run, bench: Bench, gateway: ThreadedGateway) -> None:
    assert "nodes_enabled" in run("config", "get").stdout
    assert run("config", "get", "display_name").stdout.strip() == "Test gateway"
    assert run("config", "get", "invoke_timeout", "--json").stdout.strip() == "30.0"
    assert "Kitchen" in run("config", "set", "display_name", "Kitchen").stdout
    assert "nodes_enabled" in run("config", "get", "nonsense", status=2).stderr
    assert run("config", "set", "nodes_enabled", "perhaps", status=1).stderr
    assert "nodes_enabled" in run("config", "set", "nonsense", "1", status=2).stderr
    token = run("host-token", "script").stdout.strip()
    assert token.startswith("szt_")
    assert "Lab PC" in run("node", "list", "--url", gateway.url, "--token", token, env={"SUZENT_BASE_URL": ""}).stdout
    made = json.loads(run("host-token", "--json").stdout)
    assert set(made) == {"device_id", "token", "scope"}
    assert "device.approve" in run("audit").stdout
    assert len(json.loads(run("audit", "--limit", "2", "--json").stdout)["entries"]) == 2


def test_without_a_gateway(run: Run, tmp_path: Path) -> None:
    error = run("node", "list", status=1, env={"SUZENT_BASE_URL": "", "JUPYTER_RUNTIME_DIR": str(tmp_path)}).stderr
    assert "jupyter suzent gateway" in error
    error = run("node", "list", status=1, env={"SUZENT_BASE_URL": "http://suzent:szt_secret@127.0.0.1:9"}).stderr
    assert "not running" in error
    assert "szt_secret" not in error
    error = run("node", "list", "--token", "szt_wrong", status=1).stderr
    assert "does not accept the token" in error
    assert "szt_wrong" not in error


def test_a_closed_pipe_is_no_failure(bench: Bench, gateway: ThreadedGateway) -> None:
    command = f"{sys.executable} -m suzent_jupyter.cli audit --json --url {gateway.url} --token {gateway.token} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_the_command_line_loads_no_frames(gateway: ThreadedGateway) -> None:
    code = (
        "import sys; from suzent_jupyter.cli.app import app\n"
        f"try: app(['node', 'list', '--url', {gateway.url!r}, '--token', {gateway.token!r}])\n"
        "except SystemExit: print([m for m in ('pandas', 'numpy', 'PIL', 'IPython', 'tornado') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done
