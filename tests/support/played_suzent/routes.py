"""The routes of a played server, with Suzent's status codes, bodies and quirks."""

from __future__ import annotations

import json
import re
import select
import socket
import urllib.request
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from expectations import problems, unread
from world import World, now

_NO_TOKEN = {"/nodes/grant-request", "/channels/suzent/grant-changed"}
_AGENT = {
    "/nodes", "/nodes/peer-offer", "/nodes/peer-invoke", "/channels/suzent/inbound", "/channels/suzent/inbox",
    "/channels/suzent/session", "/channels/suzent/stop", "/channels/suzent/whoami", "/chat", "/chat/stop",
}  # fmt: skip
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_CHAT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Answer = tuple[int, dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    # -- the boundary ------------------------------------------------------------------------------------------

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        path = parts.path
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw.decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.world.lock:
            self.world.requests.append({
                "method": method, "path": path, "query": parse_qs(parts.query), "headers": headers, "body": body,
                "problems": problems(method, path, headers, body), "unread": unread(method, path, body),
            })  # fmt: skip
        given = headers.get("authorization", "")
        token = given[7:].strip() if given[:7].lower() == "bearer " else headers.get("x-suzent-token", "")
        refused = self._refusal(path, token)
        if refused is not None:
            self._json(*refused)
            return
        if method == "POST" and path == "/channels/suzent/inbound":
            self._inbound(token, body)
        elif method == "GET" and path.startswith("/nodes/peer-files/"):
            self._file(path.rsplit("/", 1)[1], token)
        else:
            self._json(*self._answer(method, path, token, body))

    def _refusal(self, path: str, token: str) -> Answer | None:
        if (
            not self.world.remote
            or path in _NO_TOKEN
            or path.startswith(("/nodes/grant-status/", "/nodes/peer-files/"))
        ):
            return None
        device = self.world.device(token)
        if device is None or device["status"] != "active":
            return 401, {"error": "Unauthorized: remote access requires a node token"}
        if path not in _AGENT:
            return 403, {"error": "Forbidden: this token's scope ('agent') can't access it."}
        return None

    def _answer(self, method: str, path: str, token: str, body: Any) -> Answer:
        world = self.world
        with world.lock:
            device = world.device(token)
            fields = body if isinstance(body, dict) else {}
            match (method, path):
                case ("GET", "/nodes"):
                    return 200, {"nodes": [_info(node) for node in world.nodes], "count": len(world.nodes)}
                case ("POST", "/nodes/grant-request"):
                    return self._grant_request(fields)
                case ("POST", "/nodes/peer-invoke"):
                    return self._peer_invoke(fields)
                case ("POST", "/nodes/peer-offer"):
                    base, offered = str(fields.get("base_url") or ""), str(fields.get("token") or "").strip()
                    if not base or not offered:
                        return 400, {"error": "base_url and token are required"}
                    world.add_peer(fields.get("name") or base, base, offered)
                    return 200, {"success": True}
                case ("GET", "/channels/suzent/whoami"):
                    # On loopback a token that is gone is answered too, with nobody.
                    return 200, {"ok": True, "peer_id": device["device_id"] if device else None}
                case ("POST", "/channels/suzent/grant-changed"):
                    return 200, {"ok": True, "removed": self._look_again()}
                case _ if method == "GET" and path.startswith("/nodes/grant-status/"):
                    return self._grant_status(path.rsplit("/", 1)[1])
                case _ if path.startswith("/channels/suzent/") and device is None:
                    return 401, {"error": "A valid peer token is required"}
                case ("POST", "/channels/suzent/inbox"):
                    return self._inbox(str(device and device["device_id"]), body)
                case ("GET", "/channels/suzent/session"):
                    return self._session(str(device and device["device_id"]))
                case ("POST", "/channels/suzent/stop"):
                    chat = f"suzent:{device and device['device_id']}"
                    if chat not in world.running:
                        return 409, {"error": "Peer agent is not active"}
                    world.running[chat].set()
                    return 200, {"stopped": True, "agent_id": chat}
                case ("POST", "/chat/stop"):
                    # Any conversation, by its whole id; whose it is, nobody asks.
                    if not (chat := str(fields.get("chat_id") or "")):
                        return 400, {"error": "chat_id is required"}
                    if chat not in world.running:
                        return 404, {"status": "no_active_stream"}
                    world.running[chat].set()
                    return 200, {"status": "stopping", "reason": "Stream stopped by user"}
        return 404, {"detail": "Not Found"}

    # -- grants ------------------------------------------------------------------------------------------------

    def _grant_request(self, fields: dict[str, Any]) -> Answer:
        world = self.world
        if len(world.grants) >= 50:
            return 429, {"error": "Too many pending control requests; try again later"}
        request_id = f"rq{len(world.grants)}_{world.identity}"
        world.grants[request_id] = {
            "request_id": request_id, "status": "pending", "token": "", "requested_at": now(),
            "controller_name": str(fields.get("controller_name") or "").strip() or "unknown",
            "controller_host": self.client_address[0],
            "controller_addr": str(fields.get("controller_addr") or ""),
            "controller_identity": str(fields.get("controller_identity") or "").strip(),
        }  # fmt: skip
        return 200, {"request_id": request_id, "status": "pending"}

    def _grant_status(self, request_id: str) -> Answer:
        grant = self.world.grants.get(request_id)
        if grant is None:
            return 404, {"error": "Unknown or expired request"}
        answer = {"status": grant["status"]}
        if grant["token"]:
            answer |= {"token": grant["token"], "node_identity": self.world.identity}
            grant["token"] = ""
        return 200, answer

    def _look_again(self) -> int:
        removed = 0
        for peer_id, peer in list(self.world.peers.items()):
            if _status_of(f"{peer['base_url']}/channels/suzent/whoami", peer["token"]) in (401, 403):
                del self.world.peers[peer_id]
                removed += 1
        return removed

    # -- devices -----------------------------------------------------------------------------------------------

    def _peer_invoke(self, fields: dict[str, Any]) -> Answer:
        command = str(fields.get("command") or "").strip()
        if not command:
            return 400, {"error": "command is required"}
        for node in self.world.nodes:
            if command in node["answers"]:
                answer = node["answers"][command]
                if isinstance(answer, dict) and "file" in answer:  # a photo is offered, not sent
                    content = answer["file"].encode("latin-1")
                    reference, _ = self.world.offer(content, "photo.png", "image/png", transfer=False)
                    answer = {**answer, "file": reference}
                if isinstance(answer, dict) and "fails" in answer:
                    return 200, {"success": False, "result": None, "error": answer["fails"]}
                return 200, {"success": True, "result": answer, "error": None}
        return 404, {"error": f"No local node provides '{command}'"}

    def _file(self, file_id: str, token: str) -> None:
        with self.world.lock:
            kept = self.world.files.get(file_id)
            device = self.world.device(token)
            allowed = kept is not None and (not self.world.remote or (device and device["status"] == "active"))
            if kept is not None and not allowed and kept["token"] and kept["token"] == token and kept["left"]:
                kept["left"] -= 1
                allowed = True
        if kept is None or not allowed:
            self._json(404, {"error": "Peer file not found or download grant is invalid"})
            return
        self.send_response(200)
        self.send_header("content-type", kept["media_type"])
        self.send_header("content-length", str(len(kept["content"])))
        self.send_header("content-disposition", f'attachment; filename="{kept["name"]}"')
        self.end_headers()
        self.wfile.write(kept["content"])

    # -- the agent ---------------------------------------------------------------------------------------------

    def _inbox(self, device_id: str, body: Any) -> Answer:
        ours = {"message_id", "content"}
        if not isinstance(body, dict) or set(body) != ours or not all(isinstance(body[name], str) for name in ours):
            return 400, {"error": "Invalid inbox payload"}
        message_id, content = body["message_id"].strip(), body["content"].strip()
        if not _MESSAGE_ID.fullmatch(message_id) or not 1 <= len(content) <= 20_000:
            return 400, {"error": "Invalid inbox payload"}
        known = self.world.inbox.get((device_id, message_id))
        if known is not None and known != content:
            return 409, {"error": "message_id was used for another message"}
        self.world.inbox[device_id, message_id] = content
        created = known is None
        return 202, {"accepted": True, "created": created, "message_id": message_id, "status": "pending"}

    def _session(self, device_id: str) -> Answer:
        chat = f"suzent:{device_id}"
        messages = [
            {"index": index, "role": each["role"], "text": each["content"], "timestamp": now()}
            for index, each in enumerate(self.world.sessions.get(chat, []))
        ]
        return 200, {
            "agent_id": chat, "status": "active" if chat in self.world.running else "idle", "messages": messages,
            "message_count": len(messages), "omitted_message_count": 0, "transcript_truncated": False,
        }  # fmt: skip

    def _inbound(self, token: str, body: Any) -> None:
        world = self.world
        if not isinstance(body, dict):
            self._json(400, {"error": "Invalid JSON body"})
            return
        prompt = str(body.get("content") or "").strip()
        if not prompt:
            self._json(400, {"error": "content is required"})
            return
        device = world.device(token)
        if device is None:
            world.unauthorized.append(
                {"client_host": self.client_address[0], "claimed_id": str(body.get("from_id") or "")}
            )
            self._json(401, {"error": "Unauthorized: a valid peer token (or chat_id) is required"})
            return
        chat = default = f"suzent:{device['device_id']}"
        wanted = str(body.get("chat_id") or "").strip()
        if wanted and wanted != default:
            name = wanted.removeprefix(f"{default}:")
            if not _CHAT_NAME.fullmatch(name):
                self._json(403, {"error": "chat_id must belong to the authenticated peer namespace"})
                return
            chat = f"{default}:{name}"
        device["trigger_count"] += 1
        device["last_triggered_at"] = now()
        for item in body.get("attachments") or []:
            request = urllib.request.Request(item["url"], headers={"Authorization": f"Bearer {item['token']}"})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    content = answer.read()
            except OSError as error:
                self._json(400, {"error": f"Could not retrieve peer attachment: {error}"})
                return
            if item["size"] and len(content) != item["size"]:
                self._json(400, {"error": f"Could not retrieve peer attachment: '{item['name']}' has another size"})
                return
            world.attachments.append({"name": item["name"], "content": content.decode("latin-1")})
        self._turn(chat, prompt)

    def _turn(self, chat: str, prompt: str) -> None:
        world = self.world
        import threading

        stopped = world.running[chat] = threading.Event()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        text, heard_out = "", True
        ids = {"threadId": chat, "runId": f"run-{len(world.requests)}"}
        message = {"messageId": f"m-{ids['runId']}"}
        try:
            if world.whole:
                self._event({"type": "RUN_STARTED", **ids})
                self._event({"type": "TEXT_MESSAGE_START", **message, "role": "assistant"})
            for step in world.script:
                if stopped.is_set():
                    break
                if "text" in step or "prompt" in step:
                    delta = step.get("text", prompt)
                    text += delta
                    self._event({"type": "TEXT_MESSAGE_CONTENT", **message, "delta": delta})
                elif "event" in step:
                    self._event(step["event"])
                elif "raw" in step:
                    self._chunk(step["raw"].encode("utf-8", "surrogatepass"))
                elif "repeat" in step:
                    for _ in range(step["times"]):
                        self._chunk(step["repeat"].encode())
                elif "wait" in step:
                    gate = world.gates.setdefault(step["wait"], threading.Event())
                    while not gate.wait(0.02) and not stopped.is_set():
                        pass
                elif "cut" in step:
                    self.close_connection = True
                    self.connection.close()
                    return
            if world.whole and not stopped.is_set():  # a turn that is stopped just ends
                self._event({"type": "TEXT_MESSAGE_END", **message})
                self._event({"type": "CUSTOM", "name": "usage_update", "value": {"total_tokens": 11}})
                self._event({"type": "RUN_FINISHED", **ids})
                heard_out = not self._is_left(0.2)
                self._event({"type": "CUSTOM", "name": "plan_refresh", "value": {}})
                self._event(
                    {"type": "CUSTOM", "name": "chat_title_updated", "value": {"chat_id": chat, "title": prompt}}
                )
            self._chunk(b"")
        except OSError:
            self.close_connection = True  # the caller is gone; the turn goes on and is kept
        finally:
            world.running.pop(chat, None)
            said = [{"role": "user", "content": prompt}] if heard_out else []
            world.sessions.setdefault(chat, []).extend([*said, {"role": "assistant", "content": text}])

    def _is_left(self, seconds: float) -> bool:
        """Tell whether the caller hangs up within a moment: then Suzent does not keep what it was asked."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _event(self, event: dict[str, Any]) -> None:
        # Suzent does not escape: U+2028 goes out as it is.
        self._chunk(f"data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _info(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "node_id": node.get("node_id", node["display_name"]), "display_name": node["display_name"],
        "platform": node.get("platform", "linux"), "status": "connected", "connected_at": now(),
        "capabilities": [{"name": name, "description": "", "params_schema": {}} for name in node["answers"]],
    }  # fmt: skip


def _status_of(url: str, token: str) -> int:
    import urllib.error

    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
