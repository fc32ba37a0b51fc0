"""``GET /node``: what is served, under which headers, to whom."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from support.calls import error_of
from support.gateways import JupyterServer, ThreadedGateway
from support.running import sync

from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.server import page
from suzent_jupyter.server.page import node_page

SOURCE = Path(page.__file__).parent
SCRIPTS = sorted(SOURCE.glob("script/*.js"))


def policy(headers: httpx.Headers | dict[str, str]) -> dict[str, list[str]]:
    found = {}
    for directive in dict(headers).get("content-security-policy", "").split(";"):
        name, *values = directive.split()
        assert name not in found
        found[name] = values
    return found


def check_page(answer: httpx.Response, *sockets: str) -> None:
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Set-Cookie" not in answer.headers
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers.get_list("Content-Security-Policy") == [answer.headers["Content-Security-Policy"]]
    found = policy(answer.headers)
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    assert found == {
        "default-src": ["'none'"],
        "script-src": [f"'{digest(script)}'"],
        "style-src": [f"'{digest(style)}'"],
        "connect-src": list(sockets),
        "img-src": ["data:", "blob:"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["'none'"],
    }


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@sync
async def test_on_the_listener(gateway: ThreadedGateway) -> None:
    place = gateway.url.removeprefix("http://")
    async with httpx.AsyncClient() as http:
        for path in ("/node", "/node/"):
            answer = await http.get(gateway.url + path, headers={"Cookie": "a=b", "Authorization": "Bearer szt_dead"})
            check_page(answer, f"ws://{place}/ws/node", f"wss://{place}/ws/node")
        assert error_of(await http.post(gateway.url + "/node")) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("192.168.1.10:25314", 200),
        ("[fe80::1]:25314", 200),
        ("laptop.tail1234.ts.net:25314", 200),
        ("gw.example:443", 200),  # configured
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("ts.net.evil.example", 403),
        ("evilts.net", 403),
        ("127.1", 403),
        ("localhost;", 400),
        ("localhost script-src", 400),
        ("a,b", 400),
        ("x'y", 400),
        ("user@localhost", 400),
        ("localhost:port", 400),
        ("local..host", 400),
        ("[::1", 400),
        ("*", 400),
        ("*.example", 400),
    ],
)
@sync
async def test_the_host_header(make_gateway: Callable[..., ThreadedGateway], host: str, status: int) -> None:
    gateway = make_gateway(allowed_hosts=("gw.example",))
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{gateway.url}/node", headers={"Host": host})
        assert answer.status_code == status
        if status == 200:
            connect = policy(answer.headers)["connect-src"]
            assert connect == (["'self'"] if "[" in host else [f"ws://{host}/ws/node", f"wss://{host}/ws/node"])
        elif answer.content:  # Tornado itself refuses the strangest ones, without a body
            assert error_of(answer) == (status, "forbidden_host" if status == 403 else "bad_host")


@sync
async def test_a_web_page_under_a_foreign_name_reaches_nothing(gateway: ThreadedGateway) -> None:
    """DNS rebinding: the page's origin and our address have become one, and even a token does not help."""
    port = gateway.service.port
    browser = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
    async with httpx.AsyncClient() as http:
        for headers in (browser, {**browser, **gateway.headers}, {"Host": "evil.example", "Sec-Fetch-Site": "none"}):
            assert error_of(await http.get(f"{gateway.url}/nodes", headers=headers)) == (403, "forbidden_host")
            upgrade = {
                **headers,
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            for path in ("/ws/node", "/ws/client"):
                assert error_of(await http.get(gateway.url + path, headers=upgrade)) == (403, "forbidden_host")
        # A program may call us whatever it likes.
        headers = {**gateway.headers, "Host": "gpu-box.lab.example"}
        assert (await http.get(f"{gateway.url}/nodes", headers=headers)).status_code == 200


@pytest.mark.parametrize("base_url", ["/", "/user/a@b/"])
def test_under_a_jupyter_server(start_jupyter: Callable[..., JupyterServer], base_url: str) -> None:
    server = start_jupyter(base_url=base_url)
    place = server.root_url.removeprefix("http://").partition("/")[0]
    path = f"{base_url}suzent/ws/node".replace("@", "%40")
    check_page(httpx.get(server.mount + "/node"), f"ws://{place}{path}", f"wss://{place}{path}")
    refused = httpx.get(server.mount + "/node", headers={"Host": "evil.example"})
    assert error_of(refused) == (403, "forbidden")


def test_behind_a_proxy_that_tells(start_jupyter: Callable[..., JupyterServer]) -> None:
    server = start_jupyter("--ServerApp.trust_xheaders=True", "--ServerApp.allow_remote_access=True")
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7", "Host": "hub.example"}
    check_page(httpx.get(server.mount + "/node", headers=headers), "wss://hub.example/suzent/ws/node")
    for host in ("hub.example;x", "hub.example evil", "a,b"):
        answer = httpx.get(server.mount + "/node", headers={**headers, "Host": host})
        assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/x;y,z'/suzent/node", "/a%3Bb%0d%0aX:y/suzent/node", '/a b"/node', "/é/node"])
def test_no_path_ends_the_policy(path: str) -> None:
    headers = node_page("https", "gw.example", path).headers
    found = policy({"content-security-policy": headers["Content-Security-Policy"]})
    (socket,) = found["connect-src"]
    assert re.fullmatch(r"wss://gw\.example/[A-Za-z0-9%/._~-]*/ws/node", socket)
    assert len(found) == 10
    with pytest.raises(SuzentError):
        node_page("https", "gw.example; script-src *", path)


class Elements(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, "", ""))
        self.found.extend((tag, name, value or "") for name, value in attrs)


def test_the_page_holds_every_script() -> None:
    content = node_page("http", "localhost", "/node").content.decode()
    assert len(SCRIPTS) > 1
    for path in SCRIPTS:
        assert content.count(path.read_text()) == 1, path.name
        assert len(path.read_text().splitlines()) < 250, path.name


def test_the_sources_hold_nothing_dangerous() -> None:
    script = "\n".join(path.read_text() for path in SCRIPTS)
    for word in (
        "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "import(", "fetch(",
        "XMLHttpRequest", "document.cookie", "javascript:", "srcdoc", "postMessage", "http://", "https://",
    ):  # fmt: skip
        assert word not in script, word
    for line in script.splitlines():
        code = line.partition("//")[0] if "://" not in line else line
        assert "?." not in re.sub(r'"[^"]*"|/\^?[^/]+/', "", code) and "??" not in code, line
    parser = Elements()
    parser.feed((SOURCE / "node.html").read_text())
    for tag, name, value in parser.found:
        assert not name.startswith("on") and name not in ("style", "src", "action"), (tag, name)
        assert name != "href" or value.startswith("data:"), value
    style = (SOURCE / "node.css").read_text()
    assert "url(" not in style and "@import" not in style


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    root = SOURCE.parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = [SOURCE / "node.html", SOURCE / "node.css", *SCRIPTS]
    assert {path.relative_to(root).as_posix() for path in sources} <= names
