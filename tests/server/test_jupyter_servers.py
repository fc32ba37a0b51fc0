"""Real Jupyter servers: each kernel finds its own gateway, and nothing of it is left behind or logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
from jupyter_server.auth import passwd
from support.calls import store_loaded
from support.device import BareDevice
from support.gateways import JupyterServer
from support.waiting import wait_for

StartJupyter = Callable[..., JupyterServer]


def kernel_environment(server: JupyterServer, http: httpx.Client) -> dict[str, str]:
    """Start a kernel and return the environment of its process."""
    base = server.mount.removesuffix("/suzent")
    started = http.post(f"{base}/api/kernels", json={"name": "python3"})
    assert started.status_code == 201, started.text

    def find() -> dict[str, str] | None:
        for child in psutil.Process(server.process.pid).children(recursive=True):
            try:
                if any("ipykernel" in part for part in child.cmdline()):
                    return child.environ()
            except psutil.Error:
                continue
        return None

    return wait_for(find, 30, "a kernel process")


def check_kernel(server: JupyterServer, http: httpx.Client) -> None:
    environment = kernel_environment(server, http)
    assert environment["SUZENT_BASE_URL"] == server.url.replace("://", f"://suzent:{server.token}@")
    assert environment["SUZENT_TOKEN"] == server.token
    assert "127.0.0.1" in environment["NO_PROXY"].split(",")
    # As a program in that kernel would: with nothing but the variable.
    with httpx.Client() as program:
        assert program.get(f"{environment['SUZENT_BASE_URL']}/nodes").json() == {"nodes": [], "count": 0}


def stop_and_check(server: JupyterServer) -> None:
    runtime = Path(server.env["JUPYTER_RUNTIME_DIR"]) / f"suzent-{server.process.pid}.json"
    assert runtime.stat().st_mode & 0o777 == 0o600
    assert server.stop() == 0
    assert not runtime.exists()
    log = server.log.read_text()
    assert server.token not in log
    assert "/suzent_jupyter/" not in log, log  # no traceback and no warning of ours


def test_two_servers_each_kernel_finds_its_own(start_jupyter: StartJupyter) -> None:
    one = start_jupyter("--log-level=DEBUG", name="one")
    hashed = passwd("secret", algorithm="sha1")
    two = start_jupyter(
        f"--PasswordIdentityProvider.hashed_password={hashed}", name="two", base_url="/user/a@b/", token=""
    )
    assert one.token != two.token
    assert one.url != two.url
    with httpx.Client(headers=one.jupyter_headers) as http:
        check_kernel(one, http)
    with httpx.Client(follow_redirects=True) as browser:
        base = two.mount.removesuffix("suzent")
        browser.get(f"{base}login")
        form = {"password": "secret", "_xsrf": browser.cookies["_xsrf"]}
        browser.post(f"{base}login", data=form)
        browser.headers["X-XSRFToken"] = browser.cookies["_xsrf"]
        check_kernel(two, browser)
        # One server's token is worth nothing at the other.
        with httpx.Client(headers=one.headers) as foreign:
            for address in (two.url, two.mount):
                assert foreign.get(f"{address}/nodes").status_code == 401
    stop_and_check(one)
    stop_and_check(two)


def test_without_a_listener_everything_works_on_the_mount(start_jupyter: StartJupyter) -> None:
    server = start_jupyter("--SuzentApp.listener_enabled=False", base_url="/user/ada/")
    assert server.url == server.mount

    async def work() -> None:
        async with BareDevice(server.node_url, "MyPhone") as device, server.http() as http:
            await server.pair(device)
            device.answer()
            answer = await http.post(
                f"{server.mount}/nodes/MyPhone/invoke", json={"command": "echo", "params": {"a": 1}}
            )
            assert answer.json()["result"] == {"a": 1}
            config = (await http.get(f"{server.mount}/nodes/config")).json()
            assert config["port"] is None
            assert [address["gateway_url"] for address in config["addresses"]] == [server.node_url]

    asyncio.run(work())
    with httpx.Client(headers=server.jupyter_headers) as http:
        environment = kernel_environment(server, http)
    assert environment["SUZENT_BASE_URL"] == server.mount.replace("://", f"://suzent:{server.token}@")
    stop_and_check(server)


def test_a_broken_store_stops_no_server(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    data = tmp_path / "server" / "data" / "suzent"
    data.mkdir(parents=True)
    (data / "suzent.db").write_bytes(b"garbage" * 1000)
    server = start_jupyter()
    asyncio.run(store_loaded(server))
    with httpx.Client(headers=server.jupyter_headers) as http:
        config: dict[str, Any] = http.get(f"{server.mount}/nodes/config").json()
        assert "suzent.db" in config["store"]
        base = server.mount.removesuffix("/suzent")
        assert http.get(f"{base}/api/status").status_code == 200
    assert server.stop() == 0
    assert (data / "suzent.db").read_bytes() == b"garbage" * 1000
