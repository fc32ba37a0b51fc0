"""Starts the demo's processes, waits, and ends every one of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTEBOOK = "01_quickstart.ipynb"
DEVICES = (("MyPhone", "my_phone.py", "ios"), ("Lab PC", "lab_pc.py", "linux"))

# What ends it like Ctrl-C, from its first moment on: our processes must not outlive us.
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_START_SECONDS = 90.0
_STOP_SECONDS = 8.0


class DemoError(Exception):
    """What the person who runs the demo should know, in one line."""


@dataclass(slots=True)
class Demo:
    """A running demo: the runtime facts of its gateway, JupyterLab's address, and its processes by name."""

    runtime: dict[str, Any]
    lab_url: str
    notebook: Path
    processes: dict[str, subprocess.Popen[bytes]]


def run_demo(*, check: bool, browser: bool, port: int, directory: Path | None) -> int:
    """Run the demo until Ctrl-C, or check it; returns the exit status."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            root = (directory or Path(stack.enter_context(_temporary_directory()))).resolve()
            demo = stack.enter_context(started(root, port=0 if check else port))
            if check:
                from .check import check_demo

                return check_demo(demo)
            return _watch(demo, browser=browser)
    except DemoError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130 if check else 0


@contextlib.contextmanager
def _temporary_directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="suzent-demo-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def find_notebooks() -> Path:
    """Return the directory of the user guide: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parents[1] / "notebooks"
    beside = Path(__file__).parents[3] / "notebooks"
    for place in (inside, beside):
        if (place / NOTEBOOK).exists():
            return place
    raise DemoError(f"{NOTEBOOK} is missing from this installation; install the package again.")


@contextlib.contextmanager
def started(root: Path, *, port: int) -> Iterator[Demo]:
    """Start JupyterLab and the devices; whatever happens, end them all.

    Parameters
    ----------
    root : Path
        Gets ``notebooks``, ``data`` (the demo's own database, apart from the user's) and ``logs``.
    port : int
        JupyterLab's; 0 for any free one.

    Raises
    ------
    DemoError
        When a process ends or does not come up in time.
    """
    work, logs = root / "notebooks", root / "logs"
    for each in (work, logs):
        each.mkdir(parents=True, exist_ok=True)
    for notebook in find_notebooks().glob("*.ipynb"):
        if not (work / notebook.name).exists():
            shutil.copy(notebook, work)
    environment = {
        key: value for key, value in os.environ.items() if key not in ("SUZENT_BASE_URL", "SUZENT_TOKEN")
    } | {
        "SUZENT_KEYRING": "off",
        "SUZENT_DATA_DIR": str(root / "devices"),
        "JUPYTERLAB_SETTINGS_DIR": str(_lab_settings(root / "lab")),
        "JUPYTERLAB_WORKSPACES_DIR": str(root / "workspaces"),
        "PYTHONUNBUFFERED": "1",
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, *command: str) -> Path:
        log = logs / f"{name}.log"
        with log.open("wb") as output, _signals_put_off():
            processes[name] = subprocess.Popen(  # noqa: S603 - our own modules, no shell
                [sys.executable, "-m", f"{__package__}.child", *command],
                cwd=work,
                env=environment,
                stdin=subprocess.PIPE,  # its end is ours, also by SIGKILL
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we end them in order
            )
        return log

    try:
        log = start(
            "jupyterlab",
            "jupyterlab",
            "--no-browser",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            f"--ServerApp.root_dir={work}",
            f"--LabApp.default_url=/lab/tree/{NOTEBOOK}",
            f"--SuzentApp.data_dir={root / 'data'}",
            "--SuzentApp.listener_port=0",
            "--LabApp.extension_manager=readonly",
            *(["--ServerApp.allow_root=True"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        )
        runtime, lab_url = _wait_for_lab(processes["jupyterlab"], log)
        url = runtime["url"].replace("http", "ws", 1) + "/ws/node"
        for name, module, platform in DEVICES:
            start(
                name,
                "suzent_jupyter.cli",
                "node",
                "host",
                f"--name={name}",
                f"--url={url}",
                f"--module={Path(__file__).parent / module}",
                f"--platform={platform}",
                "--no-builtin",
            )
        yield Demo(runtime, lab_url, work / NOTEBOOK, processes)
    finally:
        _end(list(processes.values()))


@contextlib.contextmanager
def _signals_put_off() -> Iterator[None]:
    """Let no signal end us between the start of a process and our knowing it."""
    came: list[int] = []
    numbers = [number for number in (signal.SIGINT, *_ENDING) if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def _lab_settings(directory: Path) -> Path:
    """Write settings under which JupyterLab asks nothing of the network and of its user."""
    settings = directory / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    return directory


def _wait_for_lab(process: subprocess.Popen[bytes], log: Path) -> tuple[dict[str, Any], str]:
    from jupyter_core.paths import jupyter_runtime_dir

    files = [Path(jupyter_runtime_dir()) / f"{kind}-{process.pid}.json" for kind in ("suzent", "jpserver")]
    end = time.monotonic() + _START_SECONDS
    while not all(file.exists() for file in files):
        if process.poll() is not None:
            raise DemoError(f"JupyterLab ended with {process.returncode}. Its last words: {_last_words(log)}")
        if time.monotonic() > end:
            raise DemoError(
                f"JupyterLab did not start within {_START_SECONDS:.0f} s. Its last words: {_last_words(log)}"
            )
        time.sleep(0.05)
    runtime, server = (json.loads(file.read_text()) for file in files)
    return runtime, f"{server['url']}lab/tree/{NOTEBOOK}?token={server['token']}"


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "none"


def _watch(demo: Demo, *, browser: bool) -> int:
    print("JupyterLab, the gateway and two simulated devices are running:")
    print(f"  {demo.lab_url}")
    print("Both devices wait for approval: run the quickstart notebook. Ctrl-C ends it all.", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(demo.lab_url)
    while True:
        for name, process in demo.processes.items():
            if process.poll() is not None:
                if name == "jupyterlab" and process.returncode == 0:
                    print("JupyterLab was shut down.")
                    return 0
                log = demo.notebook.parent.parent / "logs" / f"{name}.log"
                raise DemoError(f"{name} ended with {process.returncode}. Its last words: {_last_words(log)}")
        time.sleep(0.2)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    # Devices first: they should not see their gateway go and try to come back.
    for process in reversed(processes):
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _STOP_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C: at once
            process.wait(max(0.1, end - time.monotonic()))
        _kill_group(process)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, if it still runs, and what it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
