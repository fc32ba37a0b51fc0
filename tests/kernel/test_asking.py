"""Prompts in the cell that waits for them: real kernels and their stdin channel, a real gateway, real nodes."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nbclient import NotebookClient
from support.gateways import ThreadedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, NotAllowed
from suzent_jupyter.node import this_node
from suzent_jupyter.protocol.errors import SuzentError

from .conftest import Phone
from .test_chat_gateway import Start, start_node
from .test_real_kernel import Kernel, notebook

__all__ = ["start_node"]

ABLE = [
    {"name": "guarded", "description": "Open the door.", "requires_permission": True},
    {"name": "camera.snap"},
    {"name": "echo"},
]
LOAD = "%load_ext suzent_jupyter\nimport asyncio, suzent_jupyter as sz\ngw = sz.connect()"


class Notebook(Kernel):
    """A kernel with somebody who types."""

    def wait_to_type(self) -> dict[str, Any]:
        """Return the next question."""
        return dict(self.client.get_stdin_msg(timeout=30))

    def type(self, text: str, to: dict[str, Any] | None = None) -> None:
        """Type a line, as a front end that says to which question, or as one that does not."""
        if to is None:
            self.client.input(text)
        else:
            self.client.stdin_channel.send(self.client.session.msg("input_reply", {"value": text}, parent=to))

    def nothing_to_type(self) -> bool:
        """Tell whether nothing is asked."""
        return not self.client.stdin_channel.msg_ready()

    @property
    def printed(self) -> str:
        return "".join(output.get("text", "") for output in self.outputs if output["type"] == "stream")


@pytest.fixture
def door(gateway: ThreadedGateway, make_phone: Callable[..., Phone]) -> Phone:
    phone = make_phone(gateway, "Door", capabilities=ABLE)
    phone.answers["guarded"] = lambda params: {"opened": params}
    return phone.approve()


@pytest.fixture
def start_notebook(gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Notebook]]:
    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
    started: list[Notebook] = []

    def start() -> Notebook:
        started.append(Notebook())
        assert started[-1].run(LOAD)["status"] == "ok", started[-1].text
        return started[-1]

    yield start
    for each in started:
        each.stop()


def open_prompt(gw: Gateway) -> dict[str, Any]:
    """Return the one prompt that waits."""
    (prompt,) = wait_for(gw.waiting_permissions, 20)
    return dict(prompt)


def invoked(phone: Phone) -> list[Any]:
    return [frame["params"] for frame in phone.got("invoke")]


def test_a_direct_call_asks_in_its_cell(door: Phone, gw: Gateway, start_notebook: Callable[[], Notebook]) -> None:
    book = start_notebook()
    request = book.start("%suzent invoke Door guarded 'key=back <door>'")
    question = book.wait_to_type()
    prompt = open_prompt(gw)
    assert question["content"]["prompt"] == "Allow it?  y = once, s = for this notebook's calls, N = no: "
    book.read_until("back <door>")
    who, what, where = prompt["caller"], "wants to run guarded on Door", prompt["expires_at"][11:19]
    assert f"Permission needed until {where} UTC: {who} {what}.\n  Open the door.\n" in book.printed
    assert 'with {"key":"back <door>"}' in book.printed.replace('": "', '":"')
    assert invoked(door) == []
    book.type("perhaps")
    book.wait_to_type()
    book.type(" Y ")
    assert book.finish(request)["status"] == "ok", book.text
    assert "back <door>" in book.text and "guarded on Door: allowed." in book.printed
    assert invoked(door) == [{"key": "back <door>"}]

    for typed in ("n", ""):
        request = book.start("gw['Door'].guarded(key='front')")
        book.wait_to_type()
        book.type(typed)
        assert book.finish(request)["ename"] == "NotAllowed"
    assert "guarded on Door: not allowed." in book.printed and len(invoked(door)) == 1
    refused = book.start("%suzent invoke Door guarded key=front")
    book.wait_to_type()
    book.type("no")
    book.finish(refused)
    (error,) = (output for output in book.outputs if output["type"] == "error")
    (line,) = error["traceback"]
    assert "was not allowed" in line and "%suzent permissions --history" in line

    request = book.start("gw['Door'].guarded(n=1), gw['Door'].guarded(n=2)")
    book.wait_to_type()
    book.type("s")
    assert book.finish(request)["status"] == "ok"
    assert invoked(door)[1:] == [{"n": 1}, {"n": 2}] and book.nothing_to_type()
    history = gw.permission_history()
    assert history["reason"].tolist() == ["remembered", "answered", "answered", "answered", "answered", "answered"]
    assert history["decision"].tolist() == ["allow", "allow", "deny", "deny", "deny", "allow"]


def test_what_is_answered_elsewhere(door: Phone, gw: Gateway, start_notebook: Callable[[], Notebook]) -> None:
    book = start_notebook()
    request = book.start("gw['Door'].guarded(n=1)")
    first = book.wait_to_type()
    gw.answer(open_prompt(gw)["id"][:6], "allow")
    assert book.finish(request)["status"] == "ok", book.text
    assert "guarded on Door: allowed by a notebook or a terminal of yours." in book.printed

    # Its box may stand there still: a line counts only if it says what it answers.
    request = book.start("gw['Door'].guarded(n=2)")
    second = book.wait_to_type()
    code = open_prompt(gw)["id"][:6]
    assert f"y {code} = once" in second["content"]["prompt"]
    book.type("y")
    third = book.wait_to_type()
    book.type("y", to=first)
    book.type("n", to=second)
    book.type(f"n {'0' * 6 if code != '0' * 6 else '1' * 6}")
    fourth = book.wait_to_type()
    assert invoked(door) == [{"n": 1}] and third["header"]["msg_id"] != fourth["header"]["msg_id"]
    book.type(f"Y {code}")
    assert book.finish(request)["status"] == "ok"

    # A front end that says it need not have it typed.
    request = book.start("gw['Door'].guarded(n=3)")
    book.type("y", to=book.wait_to_type())
    assert book.finish(request)["status"] == "ok"
    assert invoked(door) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_only_what_the_cell_waits_for(door: Phone, gw: Gateway, start_notebook: Callable[[], Notebook]) -> None:
    book = start_notebook()

    def call() -> None:
        with contextlib.suppress(NotAllowed):
            gw.invoke("Door", "guarded", {"whose": "the other's"})

    other = threading.Thread(target=call)
    other.start()
    theirs = open_prompt(gw)
    request = book.start("await asyncio.gather(gw.ainvoke('Door', 'guarded', {'whose': 'mine'}), asyncio.sleep(0))")
    book.wait_to_type()
    book.read_until("mine")
    book.type("y")
    assert book.finish(request)["status"] == "ok"
    assert "other's" not in book.text and [each["id"] for each in gw.waiting_permissions()] == [theirs["id"]]
    assert invoked(door) == [{"whose": "mine"}]
    gw.answer(theirs["id"], "deny")
    other.join(20)


def test_awaited_calls_and_tasks_left_behind(
    door: Phone, gw: Gateway, start_notebook: Callable[[], Notebook], start_node: Start, gateway: ThreadedGateway
) -> None:
    async def writes(message: str) -> str:
        await this_node().permit("write_file", {"path": message}, description="Write a file.")
        return f"wrote {message}"

    start_node(gateway, "Desk", writes)
    book = start_notebook()
    request = book.start("""
ticks = 0
async def tick():
    global ticks
    while True:
        ticks += 1
        await asyncio.sleep(0.01)
ticking = asyncio.create_task(tick())
both = await asyncio.gather(gw.ainvoke("Door", "guarded", {"n": 1}), gw.ainvoke("Door", "guarded", {"n": 2}))
answer = await gw.achat("notes.txt", node="Desk")
ticking.cancel()
print(answer.text, "after", ticks > 20, len(both))
""")
    for _ in range(3):
        book.wait_to_type()
        time.sleep(0.15)  # somebody thinks; the loop goes on
        book.type("y")
    assert book.finish(request)["status"] == "ok", book.text
    assert "wrote notes.txt after True 2" in book.printed
    assert 'with {"path":"notes.txt"}' in book.printed.replace('": "', '":"')
    assert sorted(each["n"] for each in invoked(door)) == [1, 2]

    # Nobody waits in a cell that is over: it is said, and answered elsewhere.
    book.run("left = asyncio.create_task(gw.ainvoke('Door', 'guarded', {'n': 3}))")
    prompt = open_prompt(gw)
    book.read_until(f"jupyter suzent answer {prompt['id'][:6]} allow")
    assert book.nothing_to_type()
    gw.answer(prompt["id"], "allow")
    assert book.run("(await left).data")["status"] == "ok"


def test_a_chat_asks_for_all_that_is_done_in_it(
    door: Phone, gw: Gateway, start_notebook: Callable[[], Notebook], start_node: Start, gateway: ThreadedGateway
) -> None:
    async def looks(message: str) -> str:
        photo = await this_node().ainvoke("Door", "camera.snap", {"of": message})
        return f"saw {sorted(photo)}"

    async def delegates(message: str) -> str:
        try:
            return str(await this_node().ask("Eye", message))
        except SuzentError as error:
            return error.code

    start_node(gateway, "Eye", looks, "Looks.")
    start_node(gateway, "Boss", delegates, "Delegates.")
    book = start_notebook()
    request = book.start("answer = %suzent chat the garden --node Boss\nprint(answer.text)")
    assert "for this conversation" in book.wait_to_type()["content"]["prompt"]
    prompt = open_prompt(gw)
    assert prompt["run_id"] != prompt["top_run_id"], "the camera is used in a turn of that turn"
    book.type("y")
    assert book.finish(request)["status"] == "ok", book.text
    assert "wants to run camera.snap on Door" in book.printed and "saw ['base64'" in book.printed

    # An interrupt stops the cell and what it runs; nobody has denied anything.
    request = book.start("%suzent chat the street --node Eye")
    book.wait_to_type()
    book.manager.interrupt_kernel()
    assert book.finish(request)["ename"] == "KeyboardInterrupt"
    wait_for(lambda: not gw.waiting_permissions(), 20)
    ended = gw.permission_history().iloc[0]
    assert (ended["decision"], ended["reason"], ended["by"]) == ("deny", "cancelled", "")
    assert len(invoked(door)) == 1
    # What was asked there is asked no more, and the next cell asks anew.
    request = book.start("gw.chat('the sky', node='Eye').text")
    book.wait_to_type()
    book.type(f"n {open_prompt(gw)['id'][:8]}")
    assert book.finish(request)["status"] == "error" or "saw" not in book.text
    assert len(invoked(door)) == 1


def test_where_nobody_can_type(door: Phone, gw: Gateway, gateway: ThreadedGateway) -> None:
    book = notebook(LOAD, "%suzent invoke Door guarded n=1")
    running = threading.Thread(target=lambda: NotebookClient(book, timeout=60).execute())
    # A notebook that is run as a program: its environment is that of this process.
    with environment(gateway):
        running.start()
        prompt = open_prompt(gw)
    wait_for(lambda: "stream" in [output["output_type"] for output in book.cells[1].outputs], 20)
    gw.answer(prompt["id"], "allow")
    running.join(60)
    said = "".join(output.get("text", "") for output in book.cells[1].outputs if output["output_type"] == "stream")
    first, second = said.splitlines()
    assert first.startswith("Permission needed until ") and f"%suzent answer {prompt['id'][:6]} allow" in first
    assert second == "guarded on Door: allowed by a notebook or a terminal of yours."
    assert invoked(door) == [{"n": 1}]


@contextlib.contextmanager
def environment(gateway: ThreadedGateway) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
        yield


def test_nobody_answers(
    make_gateway: Callable[..., ThreadedGateway], make_phone: Callable[..., Phone], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = make_gateway(limits={"permission_ttl": 2.0})
    make_phone(gateway, "Door", capabilities=ABLE).approve()
    with environment(gateway):
        book = Notebook()
    try:
        book.run(LOAD)
        request = book.start("%suzent invoke Door guarded")
        book.wait_to_type()
        assert book.finish(request)["ename"] == "NotAllowed"
        assert "guarded on Door: not allowed; nobody answered in time." in book.printed
        (error,) = (output for output in book.outputs if output["type"] == "error")
        assert len(error["traceback"]) == 1 and "Nobody allowed" in error["traceback"][0]
    finally:
        book.stop()


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX")
def test_plain_ipython_asks_on_its_terminal(door: Phone, gw: Gateway, gateway: ThreadedGateway) -> None:
    mine, theirs = pty.openpty()
    env = {**os.environ, "SUZENT_BASE_URL": gateway.url.replace("://", f"://suzent:{gateway.token}@"), "TERM": "dumb"}
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    os.close(theirs)
    seen = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(mine, 4096):
                seen.extend(data)

    threading.Thread(target=read, daemon=True).start()

    def until(text: str) -> str:
        wait_for(lambda: text.encode() in seen, 30, seen.decode)
        said = seen.decode()
        seen.clear()
        return said

    def enter(text: str) -> None:
        os.write(mine, text.encode() + b"\n")

    try:
        until("In [1]: ")
        enter("%load_ext suzent_jupyter")
        until("In [2]: ")
        enter("%suzent invoke Door guarded n=1")
        said = until("N = no: ")
        assert "wants to run guarded on Door." in said and '"n":' in said
        enter("y")
        assert "guarded on Door: allowed." in until("In [3]: ")
        assert invoked(door) == [{"n": 1}]
        # Answered elsewhere while somebody types.
        enter("%suzent invoke Door guarded n=2")
        until("N = no: ")
        os.write(mine, b"y")
        gw.answer(open_prompt(gw)["id"], "deny")
        assert "not allowed by a notebook or a terminal of yours." in until("In [4]: ")
        os.write(mine, b"\x15\n")  # away with what was typed
        # An interrupt is one.
        enter("%suzent invoke Door guarded n=3")
        until("= no: ")
        process.send_signal(signal.SIGINT)
        until("Interrupted")
        assert invoked(door) == [{"n": 1}]
    finally:
        process.kill()
        process.wait(20)
        os.close(mine)
