"""Two gateway processes with a kernel each: what a person reads in the cells of either when something ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.gateways import Process
from support.waiting import wait_for

from .test_real_kernel import Kernel, start_kernel

__all__ = ["start_kernel"]

AGENT = """
import asyncio, pathlib, suzent_jupyter as sz
@sz.agent
async def answer(message: str):
    yield "**first** <b>of all</b>\\n"
    if message.startswith("wait"):
        path = pathlib.Path(message.removeprefix("wait ").strip())
        path.with_suffix(".begun").touch()
        try:
            await asyncio.sleep(60)
        finally:
            path.with_suffix(".ended").touch()
    yield f"heard {message}"
"""


def error_of(kernel: Kernel) -> str:
    """Return the one line that a failed cell shows."""
    (error,) = (output for output in kernel.outputs if output["type"] == "error")
    (line,) = error["traceback"]
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


@pytest.mark.timeout(150)
def test_what_people_read(
    start_process: Callable[..., Process],
    start_kernel: Callable[[], Kernel],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    def kernel_of(process: Process) -> Kernel:
        monkeypatch.setenv("SUZENT_BASE_URL", process.url.replace("://", f"://suzent:{process.token}@"))
        kernel = start_kernel()
        assert kernel.run("%load_ext suzent_jupyter")["status"] == "ok", kernel.text
        return kernel

    desk_gateway, lab_gateway = start_process(name="desk"), start_process(name="lab")
    desk, lab = kernel_of(desk_gateway), kernel_of(lab_gateway)

    def waiting(name: str) -> str:
        """Begin a cell whose turn waits over there."""
        request = desk.start(f"%suzent trigger Lab wait {tmp_path / name}")
        wait_for((tmp_path / f"{name}.begun").exists)
        desk.read_until("first")
        return request

    assert desk.run(f"request = %suzent control {lab_gateway.url} --name Lab\nrequest.code")["status"] == "ok"
    code = desk.outputs[-1]["data"]["text/plain"].strip("'")
    assert lab.run(f"%suzent approve {code}")["status"] == "ok", lab.text
    desk.run("request.wait(20)")

    # Nobody there answers: both ways to change that, each once.
    assert desk.run("%suzent trigger Lab hi")["status"] == "error"
    line = error_of(desk)
    assert line.startswith("Lab: ") and line.count("agent_model") == line.count("@sz.agent") == 1

    assert lab.run(AGENT)["status"] == "ok", lab.text
    assert desk.run("%%suzent trigger Lab\nhi")["status"] == "ok", desk.text
    drawn = [output["data"]["text/markdown"] for output in desk.outputs if "text/markdown" in output.get("data", {})]
    markdown = drawn[-1]
    assert "**first**" in markdown and "heard hi" in markdown and "<b>" not in markdown

    # The cell is interrupted: the function over there ends.
    request = waiting("one")
    desk.manager.interrupt_kernel()
    assert desk.finish(request)["ename"] == "KeyboardInterrupt"
    assert error_of(desk) == "Interrupted: the turn on Lab is stopped."
    wait_for((tmp_path / "one.ended").exists)

    # Paused there, switched off here.
    lab.run("import suzent_jupyter as sz\ngw = sz.connect()\ngrant = gw.peers['peer_id'].iloc[0]\ngw.pause(grant)")
    desk.run("%suzent trigger Lab hi")
    assert "revoked or paused there" in error_of(desk) and "`%suzent control Lab`" in error_of(desk)
    lab.run("gw.resume(grant)")
    desk.run("%suzent mode Lab off")
    desk.run("%suzent trigger Lab hi")
    assert error_of(desk) == "Lab is switched off. `%suzent mode Lab trigger` lets you drive it again."
    desk.run("%suzent mode Lab trigger")

    # Revoked in the middle; asked again.
    request = waiting("two")
    lab.run("gw.revoke(grant)")
    assert desk.finish(request)["ename"] == "TurnFailed"
    assert error_of(desk) == "Lab: Control was revoked. `%suzent control Lab` asks it for control again."
    wait_for((tmp_path / "two.ended").exists)
    desk.run("request = %suzent control Lab\nrequest.code")
    code = desk.outputs[-1]["data"]["text/plain"].strip("'")
    assert lab.run(f"%suzent approve {code}")["status"] == "ok", lab.text
    desk.run("request.wait(20)")
    assert desk.run("%suzent trigger Lab hi")["status"] == "ok", desk.text

    # The kernel that answers is killed; then its gateway; then ours.
    request = waiting("three")
    lab.manager.shutdown_kernel(now=True)
    assert desk.finish(request)["ename"] == "TurnFailed"
    assert error_of(desk).startswith("Lab: ") and "Start the notebook" in error_of(desk)
    lab.client.stop_channels()
    lab = kernel_of(lab_gateway)
    assert lab.run(AGENT)["status"] == "ok", lab.text
    request = waiting("four")
    lab_gateway.kill()
    assert desk.finish(request)["ename"] == "TurnFailed"
    assert "broke off in the middle of its answer" in error_of(desk)
    desk.run("%suzent trigger Lab hi")
    assert f"Nothing answers at {lab_gateway.url}" in error_of(desk)
    desk_gateway.kill()
    desk.run("%suzent trigger Lab hi")
    assert len(error_of(desk)) < 400 and "127.0.0.1" in error_of(desk)
    assert desk_gateway.token not in desk.text
