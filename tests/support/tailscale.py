"""A stand-in ``tailscale`` command: a script on PATH that prints what the real one would."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def machine(name: str, ip: str, *, online: bool = True, **fields: Any) -> dict[str, Any]:
    """Return a machine in the shape of Tailscale's ``ipnstate.PeerStatus``."""
    number = ip.rpartition(".")[2]
    return {
        "ID": f"n{number}CNTRL", "PublicKey": f"nodekey:{number * 8}", "HostName": name,
        "DNSName": f"{name.lower()}.tail1234.ts.net.", "OS": "linux", "UserID": 1234567890,
        "TailscaleIPs": [ip, f"fd7a:115c:a1e0::{number}"], "AllowedIPs": [f"{ip}/32", f"fd7a:115c:a1e0::{number}/128"],
        "Addrs": None, "CurAddr": "", "Relay": "fra", "RxBytes": 0, "TxBytes": 0, "Created": "2026-01-02T03:04:05.6Z",
        "LastWrite": "0001-01-01T00:00:00Z", "LastSeen": "0001-01-01T00:00:00Z",
        "Online": online, "ExitNode": False, "ExitNodeOption": False, "Active": False, "PeerAPIURL": [],
        "TaildropTarget": 0, "NoFileSharingReason": "", "InNetworkMap": True, "InMagicSock": True, "InEngine": False,
        **fields,
    }  # fmt: skip


def status(*peers: dict[str, Any], state: str = "Running", **fields: Any) -> dict[str, Any]:
    """Return the output of ``tailscale status --json`` (Tailscale's ``ipnstate.Status``)."""
    own = machine("GatewayBox", "100.101.102.103")
    return {
        "Version": "1.76.1-tb0a7ab1c0", "TUN": True, "BackendState": state, "HaveNodeKey": True, "AuthURL": "",
        "TailscaleIPs": own["TailscaleIPs"] if state == "Running" else None, "Self": own, "ExitNodeStatus": None,
        "Health": [], "MagicDNSSuffix": "tail1234.ts.net", "CertDomains": None,
        "CurrentTailnet": {"Name": "someone@example.com", "MagicDNSSuffix": "tail1234.ts.net", "MagicDNSEnabled": True},
        "Peer": {peer["PublicKey"]: peer for peer in peers} or None,
        "User": {"1234567890": {"ID": 1234567890, "LoginName": "someone@example.com", "DisplayName": "Someone"}},
        "ClientVersion": None, **fields,
    }  # fmt: skip


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a ``tailscale`` shell script first on PATH; the calls it got stand in ``calls`` beside it."""
    folder = tmp_path / f"bin-{os.urandom(4).hex()}"
    folder.mkdir()
    command = folder / "tailscale"
    command.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n{script}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def install_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: Any) -> Path:
    """Install one that prints this status."""
    folder = install(tmp_path, monkeypatch, 'exec cat "$(dirname "$0")/status.json"')
    (folder / "status.json").write_text(json.dumps(body, indent=2))
    return folder
