"""Fixtures: every test has its own Jupyter directories, ports and database."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from support.gateways import JupyterServer, Process, ThreadedGateway, gateway_process, jupyter_dirs

pytest_plugins = ["pytest_jupyter.jupyter_server"]

# Nothing fails on a clock: a busy machine generates and runs examples slowly.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test out of the user's files, and out of other tests'."""
    for name, value in jupyter_dirs(tmp_path / "jupyter").items():
        monkeypatch.setenv(name, value)
    for name in ("SUZENT_BASE_URL", "SUZENT_TOKEN", "JPY_PARENT_PID", "JUPYTERHUB_SERVICE_PREFIX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_gateway(tmp_path: Path) -> Iterator[Callable[..., ThreadedGateway]]:
    """Start gateways in this process: ``make_gateway(limits={...}, trust_loopback="auto")``."""
    started: list[ThreadedGateway] = []

    def make(data_dir: Path | None = None, **config: Any) -> ThreadedGateway:
        gateway = ThreadedGateway(data_dir or tmp_path / f"data-{len(started)}", **config)
        started.append(gateway)
        return gateway

    yield make
    for gateway in started:
        gateway.stop()


@pytest.fixture
def gateway(make_gateway: Callable[..., ThreadedGateway]) -> ThreadedGateway:
    """A gateway in this process: ``.url``, ``.token``, ``.node_url``, ``.http()``, ``.pair(device)``."""
    return make_gateway()


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start stand-alone gateways as processes: ``start_process(name="one")``; the same name shares a directory."""
    started: list[Process] = []

    def start(*arguments: str, name: str = "gateway", **options: Any) -> Process:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        started.append(gateway_process(root, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.stop()


@pytest.fixture
def start_jupyter(tmp_path: Path) -> Iterator[Callable[..., JupyterServer]]:
    """Start real Jupyter servers: ``start_jupyter(base_url="/user/ada/")``."""
    started: list[JupyterServer] = []

    def start(*arguments: str, name: str = "server", **options: Any) -> JupyterServer:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        started.append(JupyterServer(root, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.stop()
