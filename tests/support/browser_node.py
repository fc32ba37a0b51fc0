"""The browser node in a real browser, and what its test may not miss: violations, errors, requests to anywhere else."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from .gateways import Addresses
from .waiting import wait_for

_CODE = re.compile(r"^[2-9A-Z]{6}$")
_WATCH = """
    window.violations = [];
    document.addEventListener(
        'securitypolicyviolation', e => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));
"""


class BrowserNode:
    """One page of the browser node; the gateway behind it is driven over REST.

    Parameters
    ----------
    server : Addresses
        Where REST calls go, with full authority.
    place : str
        URL under which ``/node`` is.
    """

    def __init__(self, browser: Browser, server: Addresses, place: str, init: str = "", **options: Any) -> None:
        self.server = server
        self.url = f"{place}/node"
        self.context: BrowserContext = browser.new_context(**options)
        self.context.add_init_script(_WATCH + init)
        self.http = httpx.Client(base_url=server.url, headers=server.headers, timeout=60)
        self._pool = ThreadPoolExecutor(4)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.sockets: list[str] = []
        self.page = self.new_page()

    def new_page(self) -> Page:
        """Return one more page with the same storage."""
        page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.sockets.append(socket.url))
        return page

    def open(self, fragment: str = "") -> BrowserNode:
        self.page.goto(self.url + fragment)
        return self

    def join(self, name: str = "Wall") -> str:
        """Join under a name; return the pairing code shown."""
        self.page.get_by_label("Name of this device").fill(name)
        self.page.get_by_role("button", name="Join").click()
        return self.code()

    def code(self) -> str:
        code = self.page.locator("#code")
        expect(code).to_have_text(_CODE, timeout=20_000)
        return code.inner_text()

    def pair(self, name: str = "Wall") -> BrowserNode:
        """Join, and be approved."""
        self.approve(self.join(name))
        self.joined()
        return self

    def approve(self, code: str) -> None:
        answer = self.http.post(f"/nodes/pending/{code}/approve")
        assert answer.status_code == 200, answer.text

    def joined(self) -> None:
        expect(self.status).to_have_text("Joined", timeout=40_000)

    @property
    def status(self) -> Any:
        return self.page.get_by_role("status")

    def device(self) -> dict[str, Any]:
        (device,) = self.http.get("/nodes/devices").json()["devices"]
        return dict(device)

    def kept(self) -> dict[str, Any]:
        """Return what the page keeps in the browser."""
        return dict(self.page.evaluate("JSON.parse(Object.values(localStorage)[0] || '{}')"))

    def invoke(self, command: str, /, **params: Any) -> dict[str, Any]:
        (node,) = self.http.get("/nodes").json()["nodes"]
        answer = self.http.post(f"/nodes/{node['node_id']}/invoke", json={"command": command, "params": params})
        return dict(answer.json())

    def start(self, command: str, /, **params: Any) -> Future[dict[str, Any]]:
        """Invoke in the background, while the test goes on with the page."""
        return self._pool.submit(self.invoke, command, **params)

    def result(self, call: Future[dict[str, Any]]) -> dict[str, Any]:
        """Return the answer of a call, while the browser is still listened to."""

        def done() -> bool:
            self.page.wait_for_timeout(20)  # lets Playwright handle what the browser says
            return call.done()

        wait_for(done, 30, "the call to end")
        return call.result()

    def check(self) -> None:
        """Fail for whatever a page must never do."""
        assert self.complaints == []
        assert self.page.evaluate("window.violations") == []
        home = urlsplit(self.url)
        for url in self.requests + self.sockets:
            parts = urlsplit(url)
            assert parts.scheme in ("data", "blob") or parts.netloc == home.netloc, url
        for url in self.sockets:
            assert urlsplit(url).path.endswith("/ws/node"), url
        names = {cookie["name"] for cookie in self.context.cookies()}
        assert names == set()

    def close(self) -> None:
        self.context.close()
        self.http.close()
        self._pool.shutdown()
