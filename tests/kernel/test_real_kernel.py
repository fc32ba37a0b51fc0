"""A real kernel process: its event loop, its interrupt, its completion, and notebooks run as programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from queue import Empty
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from support.gateways import ThreadedGateway
from support.played_chats import Node, sent
from support.played_gateway import PlayedGateway, TurnHandler
from support.waiting import wait_for

from .conftest import Phone


class Kernel:
    """A kernel and a client of it."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=dict(os.environ))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self.outputs: list[dict[str, Any]] = []

    def start(self, code: str) -> str:
        self.outputs.clear()
        return str(self.client.execute(code))

    def finish(self, request: str, seconds: float = 30) -> dict[str, Any]:
        """Wait for a request's reply and gather its outputs until the kernel is idle."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            self.outputs.append({"type": message["msg_type"], **message["content"]})
        while (reply := self.client.get_shell_msg(timeout=10))["parent_header"].get("msg_id") != request:
            pass
        return dict(reply["content"])

    def read_until(self, text: str) -> None:
        """Gather outputs until one shows ``text``."""
        while text not in self.text:
            message = self.client.get_iopub_msg(timeout=20)
            if message["msg_type"] != "execute_input":
                self.outputs.append({"type": message["msg_type"], **message["content"]})

    def run(self, code: str) -> dict[str, Any]:
        return self.finish(self.start(code))

    @property
    def text(self) -> str:
        return json.dumps(self.outputs)

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def start_kernel() -> Iterator[Callable[[], Kernel]]:
    kernels: list[Kernel] = []

    def start() -> Kernel:
        kernels.append(Kernel())
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.stop()


@pytest.fixture
def environment(gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the extension sets for kernels."""
    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))


@pytest.mark.usefixtures("environment")
def test_a_notebook_session(start_kernel: Callable[[], Kernel], phone: Phone, gateway: ThreadedGateway) -> None:
    kernel = start_kernel()
    assert kernel.run("%load_ext suzent_jupyter\n%suzent")["status"] == "ok"
    assert "MyPhone" in kernel.text
    # The kernel's loop is running while the magic blocks, and calls may be awaited beside it.
    code = """
import asyncio, suzent_jupyter as sz
asyncio.get_running_loop()
photo = %suzent invoke MyPhone camera.snap
gw = sz.connect()
many = await asyncio.gather(*(gw.ainvoke("MyPhone", "echo", {"n": n}) for n in range(50)))
[result.data["n"] for result in many] == list(range(50)), gw["MyPhone"].echo(x=1).data
"""
    assert kernel.run(code)["status"] == "ok", kernel.text
    assert "(True, {'x': 1})" in kernel.text
    kernel.run("photo")
    assert "image/png" in kernel.outputs[-1]["data"]
    # Completion through the kernel's own protocol.
    line = "%suzent describe MyP"

    def matches() -> Any:
        request = kernel.client.complete(line, len(line))
        while (reply := kernel.client.get_shell_msg(timeout=10))["parent_header"].get("msg_id") != request:
            pass
        return reply["content"]["matches"] == ["MyPhone"]

    wait_for(matches)
    # Interrupting the cell cancels the call on the device.
    before = len(phone.got("invoke"))
    request = kernel.start("%suzent invoke MyPhone silence --timeout 60")
    wait_for(lambda: len(phone.got("invoke")) > before)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "KeyboardInterrupt"
    wait_for(lambda: phone.got("cancel"))
    # Also one that is awaited in the kernel's own loop, which nothing wakes meanwhile.
    before = len(phone.got("invoke"))
    awaited = "import suzent_jupyter as sz\nhere = sz.connect()\nawait here.ainvoke('MyPhone', 'silence', timeout=60)"
    request = kernel.start(awaited)
    wait_for(lambda: len(phone.got("invoke")) > before)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "CancelledError"
    wait_for(lambda: len(phone.got("cancel")) == 2)
    assert kernel.run("%suzent invoke MyPhone echo still=works")["status"] == "ok"
    # Progress is one display that is written anew.
    kernel.run("%suzent invoke MyPhone slow")
    kinds = [output["type"] for output in kernel.outputs if "step" in json.dumps(output)]
    assert kinds == ["display_data", "update_display_data", "update_display_data"]
    # A failure is one line, and an error to whoever runs the notebook.
    reply = kernel.run("%suzent describe nobody")
    assert (reply["status"], reply["ename"]) == ("error", "NodeNotFound")
    error = next(output for output in kernel.outputs if output["type"] == "error")
    assert len(error["traceback"]) == 1
    assert "%suzent list" in error["traceback"][0]
    assert gateway.token not in kernel.text


HOSTILE = (
    "# Title\n<img src=x onerror=alert(1)> [x](javascript:alert(1)) [y](https://example.org/) "
    "<svg onload=alert(1)> ![z](http://e/z.png)\n"
)


async def hostile(turn: TurnHandler, body: dict[str, Any]) -> None:
    await turn.started()
    await turn.text("Let me see.")
    await turn.event("TOOL_CALL_START", toolCallId="t", toolCallName="<img src=x onerror=alert(2)>")
    await turn.event("TOOL_CALL_ARGS", toolCallId="t", delta="<svg onload=alert(3)>")
    await turn.event("TOOL_CALL_RESULT", toolCallId="t", content="<script>alert(4)</script>")
    for char in HOSTILE:
        await turn.text(char, message="m2")
    if "wait" in body["prompt"]:
        await turn.gateway.stopped.wait()
    await turn.finished()


def drawn(kernel: Kernel) -> list[dict[str, Any]]:
    """Return the displays of a cell as a front end holds them in the end."""
    shown: dict[str, dict[str, Any]] = {}
    for output in kernel.outputs:
        if output["type"] in ("display_data", "update_display_data"):
            shown[output["transient"]["display_id"]] = output["data"]
    return list(shown.values())


def test_a_peers_answer_streams_in(
    start_kernel: Callable[[], Kernel], played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", played.url.replace("://", f"://suzent:{played.token}@"))
    played.add_peer("Lab PC", hostile)
    kernel = start_kernel()
    kernel.run("%load_ext suzent_jupyter")
    reply = kernel.run("%%suzent trigger 'Lab PC'\nWhat is\nthere?")
    assert reply["status"] == "ok", kernel.text
    assert played.asked("/trigger")[-1]["prompt"] == "What is\nthere?"
    tools, answer = drawn(kernel)
    assert set(tools) == {"text/plain", "text/html"} and set(answer) == {"text/plain", "text/markdown"}
    assert tools["text/html"].count("<details>") == 2 and "&lt;script&gt;" in tools["text/html"]
    assert answer["text/markdown"].startswith("Let me see.") and "# Title" in answer["text/markdown"]
    assert "[y](https://example.org/)" in answer["text/markdown"]
    for output in kernel.outputs:
        for kind in ("text/markdown", "text/html"):
            text = output.get("data", {}).get(kind, "")
            assert not any(tag in text for tag in ("<img", "<svg", "<script"))
            assert kind == "text/html" or ("](javascript" not in text and "![" not in text)
    # The cell's value is one short line, since the answer stands above it; another cell draws it.
    value = next(output for output in kernel.outputs if output["type"] == "execute_result")
    assert set(value["data"]) == {"text/plain"} and "Answer of Lab PC" in value["data"]["text/plain"]
    kernel.run("answer = %suzent trigger 'Lab PC' Really?")
    assert "Really?" in played.asked("/trigger")[-1]["prompt"]
    assert len(drawn(kernel)) == 2 and not [each for each in kernel.outputs if each["type"] == "execute_result"]
    kernel.run("answer")
    assert "# Title" in kernel.outputs[-1]["data"]["text/markdown"]
    # Interrupting the cell stops the turn; what came stays.
    request = kernel.start("%suzent trigger 'Lab PC' wait")
    kernel.read_until("# Title")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "KeyboardInterrupt"
    assert len(played.asked("/stop")) == 1
    assert "Stopped here." in drawn(kernel)[-1]["text/markdown"] and "# Title" in drawn(kernel)[-1]["text/plain"]
    error = next(output for output in kernel.outputs if output["type"] == "error")
    assert error["traceback"] == ["Interrupted: the turn on Lab PC is stopped."]
    code = "import suzent_jupyter as sz\ngw = sz.connect()\n(await gw.atrigger('Lab PC', 'Hi')).text[:11]"
    assert kernel.run(code)["status"] == "ok" and "Let me see." in kernel.text  # beside the kernel's own loop


def test_a_nodes_answer_streams_in_and_is_interrupted(
    start_kernel: Callable[[], Kernel], played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", played.url.replace("://", f"://suzent:{played.token}@"))
    Node(played, "# Title\n", "<script>x</script>")
    kernel = start_kernel()
    kernel.run("%load_ext suzent_jupyter")
    reply = kernel.run("%%suzent chat --node 'Lab PC'\nWhat is\nthere?")
    assert reply["status"] == "ok", kernel.text
    assert sent(played, "chat.send")[-1]["message"] == "What is\nthere?"
    first = next(output for output in kernel.outputs if output["type"] == "display_data")
    assert first["data"]["text/plain"].startswith("→ Lab PC, by tier 2 (shared words)")
    shown = next(output for output in kernel.outputs if "text/markdown" in output.get("data", {}))
    assert "# Title" in kernel.text and "<script" not in shown["data"]["text/markdown"]
    Node(played, "Thinking", end={})
    request = kernel.start("%suzent chat how are you?")
    kernel.read_until("Thinking")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "KeyboardInterrupt"
    error = next(output for output in kernel.outputs if output["type"] == "error")
    assert error["traceback"] == ["Interrupted: the run on Lab PC is stopped."]
    assert sent(played, "chat.abort")[0]["run_id"] == "r-1"
    # Awaited in the kernel's own loop, which nothing wakes while the agent thinks.
    played.waiting = False
    request = kernel.start("import suzent_jupyter as sz\ngw = sz.connect()\nawait gw.achat('Hi')")
    wait_for(lambda: played.waiting)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "CancelledError"
    assert len(sent(played, "chat.abort")) == 2
    Node(played, "beside the loop")
    code = "import suzent_jupyter as sz\ngw = sz.connect()\n(await gw.achat('Hi')).text"
    assert kernel.run(code)["status"] == "ok" and "beside the loop" in kernel.text  # beside the kernel's own loop


def test_an_answer_is_kept_in_the_notebook(played: PlayedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", played.url.replace("://", f"://suzent:{played.token}@"))
    played.add_peer("Lab", hostile)
    book = notebook("%load_ext suzent_jupyter", "%suzent trigger Lab Hi")
    NotebookClient(book, timeout=60).execute()
    tools, answer, value = book.cells[1].outputs
    assert "details" in tools["data"]["text/html"] and "# Title" in answer["data"]["text/markdown"]
    assert value["output_type"] == "execute_result"
    nbformat.validate(book)


def notebook(*cells: str) -> Any:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return book


@pytest.mark.usefixtures("environment")
def test_a_notebook_run_as_a_program(phone: Phone, gateway: ThreadedGateway) -> None:
    book = notebook(
        "%load_ext suzent_jupyter",
        "%suzent list",
        "%suzent invoke MyPhone camera.snap",
        "%suzent host-token script",
        "import suzent_jupyter as sz\nsz.connect()",
        "%suzent approve AAAAAA",
    )
    with pytest.raises(CellExecutionError, match="No device waits"):
        NotebookClient(book, timeout=60).execute()
    assert book.cells[2].outputs[0]["data"]["image/png"]
    saved = nbformat.writes(book)
    assert gateway.token not in saved
    tokens = [part for part in saved.replace("\\", " ").split('"') if "szt_" in part]
    assert all("…" in part for part in tokens), "a host token was saved"


def test_without_a_server(start_kernel: Callable[[], Kernel]) -> None:
    kernel = start_kernel()
    began = time.monotonic()
    reply = kernel.run("%load_ext suzent_jupyter\n%suzent list")
    assert reply["ename"] == "NoGateway"
    assert "jupyter suzent gateway" in kernel.text
    assert time.monotonic() - began < 15


def test_plain_ipython_without_a_server() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", "%load_ext suzent_jupyter\n%suzent"],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "No gateway is running. Start one with `jupyter suzent gateway`" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert time.monotonic() - began < 20


def test_a_terminal_prints_an_answer_once(played: PlayedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", played.url.replace("://", f"://suzent:{played.token}@"))
    played.add_peer("Lab", hostile)
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", "%load_ext suzent_jupyter\n%suzent trigger Lab Hi"],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout.count("# Title") == 1, done.stdout + done.stderr
    assert "<Answer of Lab" in done.stdout
    assert played.asked("/trigger")[-1]["prompt"] == "Hi"
