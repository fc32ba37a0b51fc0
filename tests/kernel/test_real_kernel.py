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
