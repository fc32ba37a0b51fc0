"""A device on another machine joins over TLS with the right pin, and refuses the wrong one."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from support.gateways import jupyter_dirs
from support.netns import two_hosts, unavailable
from support.waiting import wait_for

from suzent_jupyter.protocol.pin import pin_of

DEVICE = """
import asyncio, sys
from suzent_jupyter.node import NodeHost, TokenVault, capability

@capability("echo")
def echo(x: int) -> int:
    return x

def tell(host):
    print(host.status, host.pairing_code or host.last_error or "", flush=True)

vault = TokenVault(sys.argv[2], keyring=False)
asyncio.run(NodeHost(sys.argv[1], name="Far", vault=vault, on_status=tell).run())
"""

REACHABLE = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), 5).close()
        print("open")
    except ConnectionRefusedError:
        print("closed")
"""


@pytest.mark.skipif(bool(unavailable()), reason=unavailable())
def test_a_device_joins_over_tls_from_another_host(tmp_path: Path) -> None:
    env = {**os.environ, **jupyter_dirs(tmp_path / "a")}
    with two_hosts() as hosts:
        log = tmp_path / "gateway.log"
        command = [sys.executable, "-m", "suzent_jupyter.cli", "gateway", "--lan", "--tls", "--port=25314",
                   "--SuzentApp.listener_plaintext=False"]  # fmt: skip
        with log.open("wb") as file:
            gateway = hosts.run("a", command, env=env, stdout=file, stderr=subprocess.STDOUT)
        wait_for(lambda: gateway.poll() is not None or "Devices join over TLS" in log.read_text(), 60, str(log))
        assert gateway.poll() is None, log.read_text()
        [certificate] = tmp_path.rglob("tls.crt")
        pin = pin_of(ssl.PEM_cert_to_DER_cert(certificate.read_text()))
        address = f"https://{hosts.a.ipv4}:25315"
        [runtime] = [json.loads(each.read_text()) for each in tmp_path.rglob("suzent-*.json")]
        assert runtime["url"] == "http://127.0.0.1:25314"  # for the kernels of that host alone
        assert hosts.python("b", REACHABLE, hosts.a.ipv4, "25314", "25315").split() == ["closed", "open"]

        def run(name: str, url: str, vault: str) -> tuple[subprocess.Popen[bytes], Path]:
            output = tmp_path / name
            with output.open("wb") as file:
                process = hosts.run("b", [sys.executable, "-c", DEVICE, url, str(tmp_path / vault)], env=env,
                                    stdout=file, stderr=subprocess.STDOUT)  # fmt: skip
            return process, output

        def said(output: Path, word: str) -> str:
            def find() -> str:
                return next((line for line in output.read_text().splitlines() if line.startswith(word)), "")

            wait_for(find, 60, f"{word} in {output}")
            return find()

        stranger, stranger_says = run("stranger", f"{address}/node#join=t&pin={'A' * 43}", "other")
        unpinned, unpinned_says = run("unpinned", address, "other")
        device, device_says = run("device", f"{address}/node#join=t&pin={pin}", "own")
        code = said(device_says, "pending").split()[1]
        approve = hosts.run("a", [sys.executable, "-m", "suzent_jupyter.cli", "node", "approve", code], env=env)
        assert approve.wait(60) == 0
        said(device_says, "connected")
        assert "another key" in said(stranger_says, "refused")
        assert "pairing link" in said(unpinned_says, "refused")
        assert stranger.wait(20) == unpinned.wait(20) == 0
        hosts.stop(device)
        _, again_says = run("again", address.replace("https", "wss"), "own")  # it remembers token and pin
        said(again_says, "connected")
        assert hosts.stop(gateway) == 0
