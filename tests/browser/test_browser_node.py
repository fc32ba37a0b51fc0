"""The browser node in a real Chromium, on the listener and under a Jupyter server with an awkward base URL."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect
from support.browser_node import BrowserNode
from support.gateways import Addresses, JupyterServer, Process, ThreadedGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script><b>bold</b>'
Open = Callable[..., BrowserNode]


def picture(kind: str, size: tuple[int, int] = (40, 30)) -> str:
    data = io.BytesIO()
    Image.new("RGB", size, (243, 119, 38)).save(data, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"


@pytest.fixture
def open_node(browser: Browser) -> Iterator[Open]:
    """Open browser nodes, and check at the end that none did what a page must not do."""
    opened: list[BrowserNode] = []

    def make(server: Addresses, place: str = "", fragment: str = "", **options: Any) -> BrowserNode:
        opened.append(BrowserNode(browser, server, place or server.url, **options))
        return opened[-1].open(fragment)

    yield make
    for node in opened:
        node.check()
        node.close()


def play(node: BrowserNode) -> None:
    """Join and do everything a screen can."""
    page = node.page
    code = node.join("Living room TV")
    expect(page.locator("#command")).to_have_text(f"%suzent approve {code}")
    (pending,) = node.http.get("/nodes/pending").json()["pending"]
    assert (pending["display_name"], pending["pairing_code"]) == ("Living room TV", code)
    node.approve(code)
    node.joined()
    assert node.kept()["token"].startswith("szt_")

    assert node.invoke("screen.show", text="Coffee is ready")["result"] == {"shown": True, "characters": 15}
    expect(page.locator("#text")).to_have_text("Coffee is ready")
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        shown = node.invoke("screen.show", image=picture(kind))
        assert shown["result"] == {"shown": True, "image": {"width": 40, "height": 30}}, (kind, shown)
        assert page.locator("#picture").evaluate("image => image.naturalWidth") == 40
        expect(page.locator("#text")).to_be_hidden()
    assert node.invoke("screen.clear")["result"] == {"cleared": True}
    expect(page.locator("#picture")).to_be_hidden()
    expect(page.get_by_text("Ready. Nothing is shown yet.")).to_be_visible()

    info = node.invoke("device.info")["result"]
    assert info["name"] == "Living room TV"
    assert info["viewport"] == page.evaluate("({width: innerWidth, height: innerHeight})")

    hostile(node)


def hostile(node: BrowserNode) -> None:
    """Show what a stranger might send: text stays text, and only raster pictures are pictures."""
    page = node.page
    text = SCRIPT + "\u202e\x00</style>"
    assert node.invoke("screen.show", text=text)["success"]
    assert page.locator("#text").evaluate("box => box.textContent") == text
    assert page.locator("#stage :is(script, b, iframe, a)").count() == 0
    assert page.locator("#stage img").count() == 1
    large = (SCRIPT * 13_000)[:1_000_000]
    assert node.invoke("screen.show", text=large)["result"]["characters"] == 1_000_000
    assert page.locator("#text").evaluate("box => box.textContent.length") == 1_000_000
    svg = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=3"/>').decode()
    for image, why in (
        ("javascript:window.pwned=4", "data: URL"),
        (f"data:image/svg+xml;base64,{svg}", "data: URL"),
        ("http://203.0.113.9/x.png", "data: URL"),
        ("//203.0.113.9/x.png", "data: URL"),
        (" data:image/png;base64,AAAA", "data: URL"),
        ("data:text/html;base64,AAAA", "data: URL"),
        ("data:image/png,AAAA", "data: URL"),
        (f"data:image/png;base64,{svg}", "does not hold a PNG"),
        ("data:image/png;base64,%%%", "not valid base64"),
        (picture("PNG")[:70], "can't be decoded"),
    ):
        answer = node.invoke("screen.show", image=image)
        assert not answer["success"] and why in answer["error"], (image, answer)
    assert "Give text, image or both" in node.invoke("screen.show")["error"]
    # What was shown before is still there: a refused picture changes nothing.
    assert page.locator("#text").evaluate("box => box.textContent.length") == 1_000_000
    assert page.evaluate("window.pwned") is None


def test_on_the_listener(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway)
    play(node)
    assert {capability["name"] for capability in node.http.get("/nodes").json()["nodes"][0]["capabilities"]} == {
        "screen.show", "screen.clear", "device.info", "camera.snap", "location.get",
    }  # fmt: skip


def test_under_a_jupyter_server(start_jupyter: Callable[..., JupyterServer], open_node: Open) -> None:
    server = start_jupyter(base_url="/user/a@b/")
    node = open_node(server, server.mount)
    play(node)
    assert list(node.page.evaluate("Object.keys(localStorage)")) == ["suzent-node:/user/a@b/suzent"]
    node.page.goto(server.mount + "/node/")
    node.joined()


def test_markup_can_not_become_code(gateway: ThreadedGateway, browser: Browser) -> None:
    """Whatever gets into the page: nothing runs, and nothing can be sent anywhere."""
    node = BrowserNode(browser, gateway, gateway.url).open()
    page = node.page
    page.evaluate(
        """() => {
            const script = document.createElement('script');
            try { script.textContent = 'window.pwned = 1'; document.body.appendChild(script); } catch (error) {}
            try { document.body.innerHTML = '<img src=x onerror="window.pwned = 2">'; } catch (error) {}
            try { setTimeout('window.pwned = 3', 0); } catch (error) {}
            const image = document.createElement('img');
            try { image.setAttribute('onerror', 'window.pwned = 4'); } catch (error) {}
            image.src = '/nodes';
            document.body.appendChild(image);
            const frame = document.createElement('iframe');
            frame.src = '/node';
            document.body.appendChild(frame);
        }"""
    )
    for url in ("/nodes", "/api/contents", "http://203.0.113.9/"):
        assert page.evaluate("url => fetch(url).then(() => 'sent', error => 'refused')", url) == "refused"
    for url in (gateway.client_url, "ws://203.0.113.9/", gateway.node_url + "/../client"):
        refused = """url => new Promise(done => {
            try { const socket = new WebSocket(url); socket.onopen = () => done('open'); socket.onerror = () => done('refused'); }
            catch (error) { done('refused'); }
        })"""  # noqa: E501
        assert page.evaluate(refused, url) == "refused"
    broken = {violation.split()[0] for violation in page.evaluate("window.violations")}
    assert {"connect-src", "img-src", "require-trusted-types-for"} <= broken
    assert page.evaluate("window.pwned") is None
    node.close()


def test_the_token_is_kept_and_a_revoked_one_forgotten(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway)
    node.page.clock.install()
    node.open()
    node.pair("Tablet")
    first = node.kept()
    node.page.reload()
    node.joined()
    expect(node.page.locator("#bar-name")).to_have_text("Tablet")
    assert node.kept() == first
    assert node.invoke("screen.show", text="again")["success"]

    node.http.post(f"/nodes/devices/{node.device()['device_id']}/revoke")
    expect(node.page.get_by_role("alert")).to_contain_text("revoked")
    expect(node.status).to_have_text("Not joined")
    assert node.kept()["token"] == ""
    count = len(node.sockets)
    node.page.clock.run_for(120_000)
    assert len(node.sockets) == count
    node.page.reload()
    expect(node.page.get_by_role("button", name="Join")).to_be_enabled()
    assert len(node.sockets) == count
    # Asked for again, by the same installation.
    node.page.get_by_role("button", name="Join").click()
    assert node.code()
    assert node.kept()["identity"] == first["identity"]


def test_denied(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway)
    node.http.post(f"/nodes/pending/{node.join()}/deny")
    expect(node.page.get_by_role("alert")).to_contain_text("denied")
    expect(node.page.get_by_role("button", name="Join")).to_be_enabled()
    assert len(node.sockets) == 1


def test_two_windows_are_one_device(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway).pair()
    second = node.new_page()
    second.goto(node.url)
    expect(second.get_by_role("status")).to_have_text("Joined")
    expect(node.page.get_by_role("alert")).to_contain_text("another window")
    assert len(node.sockets) == 2
    assert node.kept()["token"]


def test_it_comes_back_after_a_restart(start_process: Callable[..., Process], open_node: Open) -> None:
    process = start_process()
    node = open_node(process)
    node.pair()
    port = int(process.url.rpartition(":")[2])
    process.kill()
    expect(node.status).to_contain_text("Trying again")
    expect(node.page.locator("#joined")).to_be_visible()
    again = start_process(port=port)
    assert again.url == process.url
    node.joined()
    node.http.headers.update(again.headers)
    assert node.invoke("screen.show", text="back")["success"]
    # The browser itself reports refused connections; nothing else may have gone wrong.
    assert all("ERR_CONNECTION_REFUSED" in text or "WebSocket" in text for text in node.complaints)
    node.complaints.clear()


def test_a_pairing_link(gateway: ThreadedGateway, open_node: Open) -> None:
    sent: list[str] = []
    node = open_node(gateway)
    node.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    node.page.goto("about:blank")
    node.open("#join=ticket-1_a&pin=x&id=g1")
    assert node.page.url == node.url
    assert node.sockets == []  # a link alone does not join: the person at the device does
    node.pair()
    assert '"ticket":"ticket-1_a"' in sent[0]
    node.page.reload()
    node.joined()
    assert not any("ticket" in frame for frame in sent[1:])


def test_camera(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway)
    node.context.grant_permissions(["camera"])
    node.pair()
    page = node.page
    question = page.get_by_role("alertdialog", name="Take a photo with this device’s camera?")

    call = node.start("camera.snap")
    expect(question).to_be_visible()
    expect(page.get_by_role("button", name="Don’t allow")).to_be_focused()
    page.keyboard.press("Escape")
    assert node.result(call)["error"] == "The person at this device did not allow it."

    call = node.start("camera.snap", max_size=64)
    page.get_by_role("button", name="Allow once").click()
    photo = node.result(call)["result"]
    assert photo["media_type"] == "image/jpeg"
    image = Image.open(io.BytesIO(base64.b64decode(photo["base64"])))
    assert (image.format, max(image.size)) == ("JPEG", 64)

    calls = [node.start("camera.snap"), node.start("camera.snap")]  # once was once
    page.get_by_role("button", name="Allow until this page is closed").click()
    assert all(node.result(each)["success"] for each in calls)
    assert node.result(node.start("camera.snap"))["success"]
    expect(question).to_be_hidden()
    page.reload()
    node.joined()
    call = node.start("camera.snap")
    expect(question).to_be_visible()
    page.get_by_role("button", name="Don’t allow").click()
    assert not node.result(call)["success"]


def test_a_question_ends_with_its_call(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway).pair()
    (one,) = node.http.get("/nodes").json()["nodes"]
    answer = node.http.post(f"/nodes/{one['node_id']}/invoke", json={"command": "location.get", "timeout": 1})
    assert answer.status_code == 504
    expect(node.page.get_by_role("alertdialog")).to_be_hidden()


def test_the_browsers_own_refusal(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway).pair()
    for command, word in (("camera.snap", "refused the camera"), ("location.get", "refused the location")):
        call = node.start(command)
        node.page.get_by_role("button", name="Allow once").click()
        assert word in node.result(call)["error"]


def test_location(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway, geolocation={"latitude": 48.8584, "longitude": 2.2945}, permissions=["geolocation"])
    node.pair()
    call = node.start("location.get")
    expect(node.page.get_by_role("alertdialog", name="Send this device’s location?")).to_be_visible()
    node.page.get_by_role("button", name="Allow once").click()
    place = node.result(call)["result"]
    assert (place["latitude"], place["longitude"]) == (48.8584, 2.2945)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", place["timestamp"])


VOICES = """
    // This machine has no voices: one that takes its time, with the interface of a browser's own.
    const speech = new EventTarget();
    speech.said = [];
    speech.getVoices = () => [{name: 'Test', lang: 'en'}];
    speech.speak = words => {
        speech.said.push(words.text);
        speech.now = words;
        if (words.text !== 'for ever') setTimeout(() => { words.onboundary({charIndex: 1}); words.onend(); }, 20);
    };
    speech.cancel = () => { speech.said.push('cancelled'); };
    Object.defineProperty(window, 'speechSynthesis', {value: speech});
    window.SpeechSynthesisUtterance = function (text) { this.text = text; };
"""


def test_speech(gateway: ThreadedGateway, open_node: Open) -> None:
    node = open_node(gateway, init=VOICES).pair()
    assert node.invoke("screen.speak", text="Hello")["result"] == {"spoken": "Hello"}
    (one,) = node.http.get("/nodes").json()["nodes"]
    long = {"command": "screen.speak", "params": {"text": "for ever"}, "timeout": 0.5}
    assert node.http.post(f"/nodes/{one['node_id']}/invoke", json=long).status_code == 504
    assert node.invoke("screen.speak", text="Next")["success"]
    assert node.page.evaluate("speechSynthesis.said") == ["Hello", "for ever", "cancelled", "Next"]


def test_vibration_on_a_phone(gateway: ThreadedGateway, open_node: Open) -> None:
    phone = {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "user_agent": "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36",
    }
    node = open_node(gateway, **phone)
    expect(node.page.get_by_label("Name of this device")).to_have_value("Android phone")
    node.pair("Phone")
    assert node.invoke("notify.vibrate", pattern=[10, 20, 10])["result"] == {"vibrated": True}
    assert "must be" in node.invoke("notify.vibrate", pattern=[-1])["error"]


@pytest.mark.parametrize("size", [(320, 568), (390, 844), (1920, 1080), (3840, 2160)])
def test_people_can_use_it(gateway: ThreadedGateway, open_node: Open, size: tuple[int, int]) -> None:
    """Names, roles, sizes and contrast, on the smallest phone and on a wall."""
    width, height = size
    node = open_node(gateway, viewport={"width": width, "height": height})
    page = node.page
    expect(page.get_by_role("button", name="Join")).to_be_enabled()
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.title()
    for view in ("join", "pending", "joined"):
        if view == "pending":
            code = node.join("A rather long name of a device in the living room upstairs")
        elif view == "joined":
            node.approve(code)
            node.joined()
            node.invoke("screen.show", text="Donaudampfschifffahrt is a long word to show")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            facts = page.evaluate(MEASURE)
            assert facts["overflow"] <= 0, view
            assert facts["nameless"] == [] and facts["ids"] == [], view
            assert all(side >= 44 for side in facts["targets"]), (view, facts["targets"])
            assert facts["contrast"] >= 4.5, (view, scheme, facts)
    page.get_by_role("button", name="Full screen").click()
    expect(page.locator("body")).to_have_class(re.compile(r"\bwall\b"))
    expect(page.get_by_role("banner")).to_be_hidden()
    stage = page.locator("#stage").bounding_box()
    assert stage is not None and stage["height"] >= page.evaluate("innerHeight") - 1
    assert page.locator("#text").evaluate("box => box.scrollWidth <= box.clientWidth")
    page.keyboard.press("a")
    page.get_by_role("button", name="Exit full screen").click()
    expect(page.get_by_role("banner")).to_be_visible()


MEASURE = """() => {
    const visible = node => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== 'hidden';
    const controls = [...document.querySelectorAll('button, input')].filter(visible);
    const light = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = node => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$/.test(color)) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    let contrast = 21;
    for (const node of document.querySelectorAll('body *')) {
        const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
        if (!own || !visible(node) || node.disabled || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(node.tagName)) continue;
        const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((x, y) => y - x);
        contrast = Math.min(contrast, (a + 0.05) / (b + 0.05));
    }
    const ids = [...document.querySelectorAll('[id]')].map(node => node.id);
    const pointed = [...document.querySelectorAll('[aria-labelledby], [aria-describedby], label[for]')].flatMap(node =>
        [node.getAttribute('aria-labelledby'), node.getAttribute('aria-describedby'), node.getAttribute('for')])
        .filter(Boolean);
    return {
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        nameless: controls.filter(node => !(node.textContent.trim() || (node.labels && node.labels.length))).map(n => n.id),
        ids: ids.filter((id, place) => ids.indexOf(id) !== place).concat(pointed.filter(id => !ids.includes(id))),
        targets: controls.map(node => Math.min(node.offsetHeight, node.offsetWidth)),
        contrast,
    };
}"""  # noqa: E501
