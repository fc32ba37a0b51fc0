"""Pages of other origins, in a real Chromium, against listener and Jupyter server: none reads or changes anything.

Three kinds of page: one of another port of this machine (the same site, so that cookies come along), one of another
site, and one whose name was pointed at this machine after it was loaded (DNS rebinding), so that it is same-origin.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page
from support.authority import EXPECTED
from support.gateways import Addresses, JupyterServer, ThreadedGateway
from websockets.sync.client import connect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

FETCH = """requests => Promise.all(requests.map(async ([method, url, credentials, mode, headers]) => {
    const options = {method, credentials, mode, headers, cache: 'no-store'};
    if (method === 'POST') options.body = '{"command": "echo", "params": {}}';
    try {
        const answer = await fetch(url, options);
        return {status: answer.status, text: await answer.text()};
    } catch (error) { return {status: 0, text: ''}; }
}))"""
FORMS = """urls => Promise.all(urls.map(url => new Promise(done => {
    const frame = document.createElement('iframe');
    frame.name = 'f' + Math.random();
    document.body.appendChild(frame);
    const form = document.createElement('form');
    form.method = 'POST'; form.action = url; form.target = frame.name; form.enctype = 'text/plain';
    const field = document.createElement('input');
    field.name = '{"status": "paused", "display_name": "evil", "x": "'; field.value = '"}';
    form.appendChild(field);
    document.body.appendChild(form);
    frame.onload = done;
    form.submit();
})))"""
SOCKET = """url => new Promise(done => {
    const socket = new WebSocket(url);
    socket.onopen = () => {
        socket.send(JSON.stringify({type: 'connect', display_name: 'Evil', capabilities: [], features: []}));
        socket.send(JSON.stringify({type: 'subscribe', topics: ['nodes', 'pending']}));
    };
    socket.onmessage = event => done('heard ' + event.data);
    socket.onerror = () => done('refused');
})"""

WEB_CLIENT = """url => new Promise(done => {
    const socket = new WebSocket(url), heard = [];
    socket.onopen = () => socket.send(JSON.stringify({type: 'connect', role: 'web'}));
    socket.onmessage = event => {
        heard.push(JSON.parse(event.data));
        if (heard.length === 1) socket.send(JSON.stringify({type: 'node.list', id: 1}));
        else { done(heard); socket.close(); }
    };
    socket.onclose = () => done(heard);
})"""


class Victim:
    """A gateway with a device at work, and what must be the same after the attack."""

    def __init__(self, server: Addresses, place: str) -> None:
        self.server = server
        self.place = place
        self.http = httpx.Client(base_url=server.url, headers=server.headers, timeout=30)
        self._open = ExitStack()
        self.device = self._open.enter_context(connect(server.node_url, compression=None))
        hello = {"type": "connect", "display_name": "Lab", "capabilities": [{"name": "echo"}], "features": []}
        self.device.send(json.dumps(hello))
        code = self.frame("pending")["pairing_code"]
        assert self.http.post(f"/nodes/pending/{code}/approve").status_code == 200
        self.node = self.frame("connected")["node_id"]
        self.state = self.now()

    def frame(self, kind: str) -> dict[str, Any]:
        while True:
            frame: dict[str, Any] = json.loads(self.device.recv(timeout=20))
            if frame["type"] == kind:
                return frame

    def now(self) -> dict[str, Any]:
        """Everything a successful attack would leave a trace in."""
        paths = ("/nodes/pending", "/nodes/devices", "/nodes/config", "/audit", "/nodes/connections")
        return {path: self.http.get(path).json() for path in paths}

    def urls(self) -> list[tuple[str, str]]:
        fill = {"{node}": self.node, "{code}": "ZZZZZZ", "{id}": self.node, "{file}": "pf_guess"}
        found = []
        for method, pattern in EXPECTED:
            path = pattern
            for name, value in fill.items():
                path = path.replace(name, value)
            if method in ("GET", "POST") and path != "/node":
                found.append((method, path))
        return found

    def check(self) -> None:
        assert self.now() == self.state
        # The first call the device hears of is this one.
        answer: list[httpx.Response] = []
        call = threading.Thread(
            target=lambda: answer.append(
                self.http.post(f"/nodes/{self.node}/invoke", json={"command": "echo", "params": {"mine": 1}})
            )
        )
        call.start()
        frame = self.frame("invoke")
        assert frame["params"] == {"mine": 1}
        self.device.send(json.dumps({"type": "result", "request_id": frame["request_id"], "success": True}))
        call.join(20)
        assert answer[0].json()["success"]

    def close(self) -> None:
        self._open.close()
        self.http.close()


@pytest.fixture
def other_port() -> Iterator[int]:
    """The attacker's own server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!DOCTYPE html><title>Win a phone</title><body>")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def attack(page: Page, victim: Victim, target: str) -> None:
    """Try every route from a page, in every way a page has; ``target`` is how the page calls the victim."""
    requests: list[list[Any]] = [
        [method, target + path, credentials, mode, headers]
        for method, path in victim.urls()
        for credentials in ("omit", "include")
        for mode, headers in (("cors", {}), ("no-cors", {}), ("cors", {"X-Suzent-Token": "szt_guess"}))
    ]
    for request, got in zip(requests, page.evaluate(FETCH, requests), strict=True):
        # 0: not readable from there. Else the answer is a refusal that says nothing; 404 is for a secret that is wrong.
        secret = request[0] == "GET" and request[1].split("/")[-2] in ("grant-status", "peer-files", "artifacts")
        assert got["status"] in (0, 401, 403, *([404] if secret else [])), (request, got)
        assert victim.server.token not in got["text"] and victim.node not in got["text"], (request, got)
    page.evaluate(FORMS, [target + path for method, path in victim.urls() if method == "POST"])
    socket = target.replace("http", "ws", 1)
    for path in ("/ws/node", "/ws/client", "/ws/gateway"):
        assert page.evaluate(SOCKET, socket + path) == "refused", path
    # The page for devices can't be put into a frame, nor read.
    (got,) = page.evaluate(FETCH, [["GET", target + "/node", "include", "cors", {}]])
    assert got["status"] in (0, 403)


def from_everywhere(browser: Browser, victim: Victim, other_port: int, prepare: Callable[[Page], None]) -> None:
    rebound = victim.place.replace("127.0.0.1", "evil.example")
    for address, target in (
        (f"http://127.0.0.1:{other_port}/", victim.place),
        (f"http://evil.example:{other_port}/", victim.place),
        (f"{rebound}/node", rebound),
    ):
        context = browser.new_context()
        page = context.new_page()
        prepare(page)
        answer = page.goto(address)
        assert answer is not None
        if target == rebound:
            assert answer.status == 403
        else:
            assert page.title() == "Win a phone"
        attack(page, victim, target)
        context.close()
        victim.check()
        victim.state = victim.now()


@pytest.mark.parametrize("trust", ["never", "auto"])
def test_the_listener(
    make_gateway: Callable[..., ThreadedGateway], browser: Browser, other_port: int, trust: str
) -> None:
    gateway = make_gateway(trust_loopback=trust)
    victim = Victim(gateway, gateway.url)
    try:
        from_everywhere(browser, victim, other_port, lambda page: None)
    finally:
        victim.close()


def test_a_jupyter_server_somebody_is_logged_in_to(
    start_jupyter: Callable[..., JupyterServer], browser: Browser, other_port: int
) -> None:
    server = start_jupyter(base_url="/user/a@b/")
    victim = Victim(server, server.mount)

    def log_in(page: Page) -> None:
        page.goto(f"{server.root_url}login?token={server.jupyter_token}")
        page.goto(f"{server.mount}/nodes")
        assert victim.node in page.content()  # the cookie does work where it should
        hello, listed = page.evaluate(WEB_CLIENT, server.mount.replace("http", "ws", 1) + "/ws/gateway")
        assert (hello["type"], hello.get("node_id")) == ("hello-ok", None)
        assert [node["node_id"] for node in listed["nodes"]] == [victim.node]

    try:
        from_everywhere(browser, victim, other_port, log_in)
    finally:
        victim.close()


def test_a_jupyter_server_open_to_every_page(
    start_jupyter: Callable[..., JupyterServer], browser: Browser, other_port: int
) -> None:
    """``allow_origin="*"`` is for pages that hold a token. It does not make devices of their visitors."""
    server = start_jupyter("--ServerApp.allow_origin=*")
    page = browser.new_page()
    page.goto(f"http://evil.example:{other_port}/")
    socket = server.mount.replace("http", "ws", 1)
    for path in ("/ws/node", "/ws/gateway"):
        assert page.evaluate(SOCKET, socket + path) == "refused", path
    page.goto(server.mount + "/node")
    assert page.evaluate(SOCKET, f"{socket}/ws/node").startswith("heard ")
    page.close()
