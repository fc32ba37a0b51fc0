"""Gateways for tests: in this process on a thread of its own, alone as a process, or inside a real Jupyter server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx

from suzent_jupyter.gateway.devices import Device
from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.server.service import GatewayService, ServiceConfig

from .device import BareDevice
from .waiting import wait_for

T = TypeVar("T")


class Addresses:
    """Where a gateway is and how to speak to it."""

    url: str
    token: str

    @property
    def node_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/ws/node"

    @property
    def client_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/ws/client"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def http(self, **options: Any) -> httpx.AsyncClient:
        """Return a client with full authority; use as ``async with``."""
        options.setdefault("headers", self.headers)
        return httpx.AsyncClient(base_url=self.url, timeout=60, **options)

    async def approve(self, code: str) -> dict[str, Any]:
        async with self.http() as http:
            answer = await http.post(f"/nodes/pending/{code}/approve")
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

    async def pair(self, device: BareDevice) -> BareDevice:
        """Approve a device that has just connected."""
        await self.approve(await device.code())
        await device.joined()
        return device


class ThreadedGateway(Addresses):
    """A real listener on a free port, on an event loop in a thread."""

    def __init__(self, data_dir: Path, limits: dict[str, Any] | None = None, **config: Any) -> None:
        settings = config.pop("settings", None) or Settings(display_name="Test gateway")
        self.config = ServiceConfig(
            data_dir=data_dir,
            account=config.pop("account", "ada"),
            listener_port=config.pop("listener_port", 0),
            settings=settings,
            limits=Limits(**(limits or {})),
            **config,
        )
        self.service = GatewayService()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self.run(self.service.start(self.config))
        self.url = f"http://127.0.0.1:{self.service.port}"
        self.token = self.service.kernel_token.value

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 30) -> T:
        """Run a coroutine on the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def call(self, function: Any, *arguments: Any) -> Any:
        """Run a plain function on the gateway's loop."""

        async def work() -> Any:
            return function(*arguments)

        return self.run(work())

    def token_of(self, account: str, org: str = "") -> str:
        """Give an account a token of full authority, and return it."""
        device = Device("", b"", f"{account}'s token", scope="full", account=account, org=org)
        return self.run(self.service.gateway.credentials.adopt(device))[1]

    def stop(self) -> None:
        if self.loop.is_running():
            self.run(self.service.stop())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)
            self.loop.close()


class Process(Addresses):
    """A server process that writes a runtime file. Stop it with :meth:`stop` or :meth:`kill`."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1", **env}
        self.env.pop("SUZENT_BASE_URL", None)
        self.env.pop("SUZENT_TOKEN", None)
        self.log = cwd / f"{command[2].replace('.', '-')}-{os.urandom(4).hex()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], env=self.env, cwd=cwd, stdout=log, stderr=subprocess.STDOUT
            )
        path = Path(self.env["JUPYTER_RUNTIME_DIR"]) / f"suzent-{self.process.pid}.json"
        wait_for(lambda: path.exists() or self._died(), 60, f"{path}\n{self.log.read_text()}")
        self.runtime = json.loads(path.read_text())
        self.url, self.token = self.runtime["url"], self.runtime["token"]

    def _died(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()}")
        return False

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def jupyter_dirs(root: Path) -> dict[str, str]:
    """Return an environment in which Jupyter keeps everything below ``root``."""
    names = ("config", "data", "runtime", "ipython", "lab-settings", "lab-workspaces")
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = {
        # Ask nothing of the network; render every cell, also those that are not in view.
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "notebook-extension/tracker": {"windowingMode": "none"},
    }
    for name, values in settings.items():
        path = root / "lab-settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return {
        "JUPYTERLAB_SETTINGS_DIR": str(root / "lab-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(root / "lab-workspaces"),
        "JUPYTER_CONFIG_DIR": str(root / "config"),
        "JUPYTER_DATA_DIR": str(root / "data"),
        "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
        "IPYTHONDIR": str(root / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "SUZENT_KEYRING": "off",
    }


def gateway_process(root: Path, *arguments: str, port: int = 0, **env: str) -> Process:
    """Start ``jupyter suzent gateway`` with everything below ``root``."""
    command = ["-m", "suzent_jupyter.cli", "gateway", f"--port={port}", *arguments]
    return Process(command, {**jupyter_dirs(root), **env}, root)


class JupyterServer(Process):
    """A real ``jupyter server`` with the extension enabled."""

    def __init__(
        self, root: Path, *arguments: str, base_url: str = "/", token: str = "jt", listener_port: int = 0, **env: str
    ) -> None:
        self.base_url = base_url
        self.jupyter_token = token
        (root / "files").mkdir(parents=True, exist_ok=True)
        command = [
            "-m",
            "jupyter_server",
            "--no-browser",
            "--allow-root",
            "--ServerApp.port=0",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.base_url={base_url}",
            f"--IdentityProvider.token={token}",
            f"--ServerApp.root_dir={root / 'files'}",
            "--ServerApp.reraise_server_extension_failures=True",
            "--ServerApp.allow_unauthenticated_access=False",
            f"--SuzentApp.listener_port={listener_port}",
            *arguments,
        ]
        super().__init__(command, {**jupyter_dirs(root), **env}, root)
        self.mount = self.runtime["mount_url"]
        self.root_url = self.mount.removesuffix("suzent")
        self.files = root / "files"

    @property
    def jupyter_headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.jupyter_token}"}
