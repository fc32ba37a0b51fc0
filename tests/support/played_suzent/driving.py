"""What a played server does to others, as its operator or agent would have it."""

from __future__ import annotations

import json
from typing import Any

import httpx
from world import World


class Driver:
    """Its operator's verbs; each is one command of the process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._http = httpx.Client(timeout=20, trust_env=False)

    def run(self, what: str, values: dict[str, Any]) -> Any:
        """Carry out a command."""
        return getattr(self, f"do_{what}")(**values)

    # -- itself ------------------------------------------------------------------------------------------------

    def do_requests(self) -> Any:
        return self._world.requests

    def do_set(self, **values: Any) -> None:
        """Set what it is: ``nodes``, ``script``, ``whole``, ``remote``."""
        for name, value in values.items():
            assert hasattr(self._world, name), name
            setattr(self._world, name, value)

    def do_go(self, gate: str) -> None:
        """Let a turn that waits go on."""
        import threading

        self._world.gates.setdefault(gate, threading.Event()).set()

    def do_look(self, what: str) -> Any:
        """Return one of the world's tables, such as ``devices``, or ``running_chats``."""
        if what == "running_chats":
            return sorted(self._world.running)
        found = getattr(self._world, what)
        return [[*key, value] for key, value in found.items()] if what == "inbox" else found

    # -- as the one that grants --------------------------------------------------------------------------------

    def do_approve(self, request_id: str) -> Any:
        world = self._world
        with world.lock:
            grant = world.grants[request_id]
            for device in list(world.devices.values()):
                same = grant["controller_identity"] and device["node_identity"] == grant["controller_identity"]
                if same or (grant["controller_addr"] and device["callback_url"] == grant["controller_addr"]):
                    del world.devices[device["device_id"]]
            device = world.mint(grant["controller_name"], grant["controller_addr"], grant["controller_identity"])
            grant["status"], grant["token"] = "approved", device["token"]
            return device["device_id"]

    def do_deny(self, request_id: str) -> None:
        self._world.grants[request_id]["status"] = "denied"

    def do_revoke(self, device_id: str) -> Any:
        device = self._world.devices.pop(device_id)
        self._world.save()
        return self._tell(device["callback_url"])

    def do_status(self, device_id: str, status: str) -> Any:
        """Pause or resume a grant; Suzent tells its holder of that too."""
        self._world.devices[device_id]["status"] = status
        return self._tell(self._world.devices[device_id]["callback_url"])

    def do_hint(self, base_url: str) -> Any:
        return self._tell(base_url)

    def _tell(self, callback: str) -> Any:
        try:
            answer = self._http.post(f"{callback}/channels/suzent/grant-changed", json={}, timeout=5)
        except httpx.HTTPError as error:
            return repr(error)
        return [answer.status_code, answer.json()]

    # -- as the one that drives --------------------------------------------------------------------------------

    def do_control(self, base_url: str) -> Any:
        """Ask for control; returns the request's id."""
        body = {
            "controller_name": self._world.name,
            "controller_addr": self._world.base_url,
            "controller_identity": self._world.identity,
        }
        answer = self._http.post(f"{base_url}/nodes/grant-request", json=body, timeout=10)
        answer.raise_for_status()
        return answer.json().get("request_id")

    def do_control_status(self, base_url: str, request_id: str) -> Any:
        """Ask how it stands, and keep the peer when it was granted."""
        answer = self._http.get(f"{base_url}/nodes/grant-status/{request_id}", timeout=10)
        if answer.status_code == 404:
            return {"status": "expired"}
        answer.raise_for_status()
        data = answer.json()
        if data.get("status") == "approved" and data.get("token"):
            peer_id = self._world.add_peer(base_url, base_url, data["token"], str(data.get("node_identity") or ""))
            return {"status": "approved", "peer_id": peer_id}
        return {"status": data.get("status") or "pending"}

    def do_peer_status(self, peer_id: str) -> str:
        """Return ``ready``, ``revoked`` or ``offline``, as Suzent judges it."""
        try:
            answer = self._send(peer_id, "GET", "/channels/suzent/whoami")
        except httpx.HTTPError:
            return "offline"
        ready = answer.status_code == 200 and bool((answer.json() or {}).get("peer_id"))
        return "ready" if ready else "revoked"

    def do_capabilities(self, peer_id: str) -> Any:
        answer = self._send(peer_id, "GET", "/nodes")
        if answer.status_code != 200:
            return {"error": f"Peer returned {answer.status_code}"}
        return [
            {**each, "node": node.get("display_name", "")}
            for node in answer.json().get("nodes", [])
            for each in node.get("capabilities", [])
        ]

    def do_invoke(self, peer_id: str, command: str, params: dict[str, Any] | None = None) -> Any:
        answer = self._send(peer_id, "POST", "/nodes/peer-invoke", {"command": command, "params": params or {}})
        return [answer.status_code, answer.json()]

    def do_fetch(self, peer_id: str, file_id: str) -> Any:
        answer = self._send(peer_id, "GET", f"/nodes/peer-files/{file_id}")
        kept = {name: answer.headers.get(name) for name in ("content-type", "content-length", "content-disposition")}
        return [answer.status_code, answer.content.decode("latin-1"), kept]

    def do_trigger(
        self, peer_id: str, prompt: str, chat_id: str | None = None, files: dict[str, str] | None = None
    ) -> Any:
        """Run a prompt there; returns ``{status, lines, text, error, types}`` as Suzent's own reader takes them."""
        peer = self._world.peers[peer_id]
        if peer["mode"] != "trigger":
            return {"status": 409, "error": f"Peer triggering is {peer['mode']}"}
        body: dict[str, Any] = {"content": prompt}
        if chat_id:
            body["chat_id"] = chat_id
        for name, content in (files or {}).items():
            with self._world.lock:
                reference, token = self._world.offer(content.encode("latin-1"), name, "text/plain", transfer=True)
            reference |= {"url": self._world.base_url + reference["url"], "token": token}
            body.setdefault("attachments", []).append(reference)
        with self._http.stream(
            "POST", f"{peer['base_url']}/channels/suzent/inbound", json=body, timeout=None,
            headers={"Authorization": f"Bearer {peer['token']}"},
        ) as answer:  # fmt: skip
            if answer.status_code != 200:
                answer.read()
                return {"status": answer.status_code, "error": answer.text, "lines": []}
            lines = [line for line in answer.iter_lines() if line]
        return {"status": 200, "lines": lines, **_understood(lines)}

    def do_inbox(self, peer_id: str, message_id: str, content: str) -> Any:
        """Deliver a message; the answer must be the acknowledgment that Suzent waits for."""
        answer = self._send(peer_id, "POST", "/channels/suzent/inbox", {"message_id": message_id, "content": content})
        if answer.status_code != 202:
            return [answer.status_code, answer.json()]
        data = answer.json()
        assert data.get("accepted")
        assert data.get("message_id") == message_id, data
        return [202, data]

    def do_session(self, peer_id: str) -> Any:
        answer = self._send(peer_id, "GET", "/channels/suzent/session")
        return [answer.status_code, answer.json()]

    def do_read(self, peer_id: str) -> str:
        """Read a session as Suzent's agents do."""
        messages = self._send(peer_id, "GET", "/channels/suzent/session").json()["messages"]
        return "\n".join(f"[{each['role']}] {each['text']}" for each in messages)

    def do_stop(self, peer_id: str) -> Any:
        answer = self._send(peer_id, "POST", "/channels/suzent/stop")
        return [answer.status_code, answer.json()]

    def do_reverse(self, peer_id: str, enabled: bool) -> Any:
        """Let a peer drive us, or no more."""
        world = self._world
        peer = world.peers[peer_id]
        if not enabled:
            world.devices.pop(peer.pop("reverse_device_id", None) or "", None)
            return None
        device = world.mint(peer["name"])
        body = {"name": world.name, "base_url": world.base_url, "token": device["token"]}
        answer = self._send(peer_id, "POST", "/nodes/peer-offer", body)
        answer.raise_for_status()
        peer["reverse_device_id"] = device["device_id"]
        return [answer.status_code, answer.json()]

    def do_remove(self, peer_id: str) -> None:
        """Forget a peer; Suzent tells it nothing."""
        world = self._world
        peer = world.peers.pop(peer_id)
        world.devices.pop(peer.get("reverse_device_id") or "", None)
        for device in list(world.devices.values()):
            if device["callback_url"] == peer["base_url"]:
                del world.devices[device["device_id"]]
        world.save()

    def _send(self, peer_id: str, method: str, path: str, body: Any = None) -> httpx.Response:
        peer = self._world.peers[peer_id]
        headers = {"Authorization": f"Bearer {peer['token']}"}
        return self._http.request(method, peer["base_url"] + path, json=body, headers=headers)


def _understood(lines: list[str]) -> dict[str, Any]:
    """Return what Suzent's command line makes of a stream: only whole ``data: `` lines count."""
    text, error, types = "", None, []
    for line in lines:
        if not line.startswith("data: ") or line[6:].strip() == "[DONE]":
            continue
        try:
            event = json.loads(line[6:])
        except ValueError:
            continue
        types.append(event.get("type"))
        if event.get("type") == "TEXT_MESSAGE_CONTENT":
            text += event.get("delta", "")
        elif event.get("type") in ("error", "RUN_ERROR"):
            error = event.get("data") or event.get("message")
    return {"text": text, "error": error, "types": types}
