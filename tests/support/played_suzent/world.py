"""What a played server knows: grants it gave, peers it drives, files it offers, and the script of its agent."""

from __future__ import annotations

import json
import secrets
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def now(after: float = 0) -> str:
    """Return a time as Suzent writes it."""
    return (datetime.now(UTC) + timedelta(seconds=after)).isoformat()


class World:
    """All state; everything happens under :attr:`lock`."""

    def __init__(self, name: str, remote: bool, state: Path | None) -> None:
        self.name, self.remote, self._path = name, remote, state
        self.lock = threading.RLock()
        self.port = 0
        self.identity = uuid.uuid4().hex
        self.devices: dict[str, dict[str, Any]] = {}
        self.peers: dict[str, dict[str, Any]] = {}
        self.grants: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.nodes: list[dict[str, Any]] = []
        self.inbox: dict[tuple[str, str], str] = {}
        self.sessions: dict[str, list[dict[str, str]]] = {}
        self.running: dict[str, threading.Event] = {}
        self.requests: list[dict[str, Any]] = []
        self.unauthorized: list[dict[str, str]] = []
        self.attachments: list[dict[str, Any]] = []
        self.script: list[dict[str, Any]] = [{"text": "You said: "}, {"prompt": True}]
        self.whole = True
        self.gates: dict[str, threading.Event] = {}
        if state is not None and state.exists():
            kept = json.loads(state.read_text())
            self.identity, self.devices, self.peers = kept["identity"], kept["devices"], kept["peers"]

    def save(self) -> None:
        """Keep what a restart keeps."""
        if self._path is not None:
            kept = {"identity": self.identity, "devices": self.devices, "peers": self.peers}
            self._path.write_text(json.dumps(kept))

    @property
    def base_url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}"

    def device(self, token: str) -> dict[str, Any] | None:
        """Return the grant of a token; a paused one is found too, as in Suzent's routes."""
        return next((each for each in self.devices.values() if token and each["token"] == token), None)

    def mint(self, name: str, callback_url: str = "", identity: str = "") -> dict[str, Any]:
        """Make a grant."""
        device_id = uuid.uuid4().hex[:12]
        self.devices[device_id] = {
            "device_id": device_id, "token": secrets.token_urlsafe(32), "display_name": name, "platform": "peer",
            "scope": "agent", "status": "active", "callback_url": callback_url, "node_identity": identity,
            "approved_at": now(), "trigger_count": 0, "last_triggered_at": "",
        }  # fmt: skip
        self.save()
        return self.devices[device_id]

    def add_peer(self, name: str, base_url: str, token: str, identity: str = "") -> str:
        """Keep a grant we were given: by identity, else by address."""
        base_url = base_url.rstrip("/")
        peer_id = next(
            (
                key
                for key, each in self.peers.items()
                if (identity and each["node_identity"] == identity) or each["base_url"] == base_url
            ),
            uuid.uuid4().hex[:12],
        )
        before = self.peers.get(peer_id, {})
        self.peers[peer_id] = {
            "name": name, "base_url": base_url, "token": token, "mode": "trigger", "added_at": now(),
            "node_identity": identity or before.get("node_identity", ""),
            "reverse_device_id": before.get("reverse_device_id"),
        }  # fmt: skip
        self.save()
        return peer_id

    def offer(self, content: bytes, name: str, media_type: str, *, transfer: bool) -> tuple[dict[str, Any], str]:
        """Make a file that others may fetch; returns its reference and, for a transfer, its token."""
        file_id, token = f"pf_{secrets.token_urlsafe(24)}", secrets.token_urlsafe(32) if transfer else ""
        self.files[file_id] = {
            "content": content, "name": name, "media_type": media_type, "token": token, "left": 2 if transfer else None
        }  # fmt: skip
        reference = {
            "id": file_id, "url": f"/nodes/peer-files/{file_id}", "name": name, "media_type": media_type,
            "size": len(content), "expires_at": now(300 if transfer else 3600).replace("+00:00", "Z"),
        }  # fmt: skip
        return reference, token
