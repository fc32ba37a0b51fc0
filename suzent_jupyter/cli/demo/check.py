"""``jupyter suzent demo --check``: what a person would do with the demo, without a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .run import DEVICES, Demo, DemoError

if TYPE_CHECKING:
    from ...kernel.gateway import Gateway

T = TypeVar("T")

_JOIN_SECONDS = 60.0
_CELL_SECONDS = 120


def check_demo(demo: Demo) -> int:
    """Approve, describe and invoke, then run the quickstart; print each step and return the exit status."""
    from ...kernel import KernelError, connect

    try:
        with connect(demo.runtime["url"], demo.runtime["token"]) as gateway:
            _check_devices(gateway)
        _run_notebook(demo)
    except (KernelError, DemoError) as error:
        print(f"FAILED  {error}", file=sys.stderr)
        return 1
    print("All of it works.")
    return 0


def _check_devices(gateway: Gateway) -> None:
    _say("gateway", f"reached at {gateway.url}")
    names = {name for name, _, _ in DEVICES}
    pending = _wait(
        lambda: [item for item in gateway.records("pending") if item["display_name"] in names],
        lambda found: len(found) == len(names),
        "both devices wait for approval",
    )
    for item in pending:
        answer = gateway.approve(item["pairing_code"])
        _say("approve", f"{item['pairing_code']}: {answer['message']}")
    for node in gateway:
        _say("describe", f"{node.name}: {', '.join(node.commands)}")

    photo = gateway.invoke("MyPhone", "camera.snap", {"format": "png"})
    width, height = photo.image.size
    _say("invoke", f"MyPhone camera.snap: {photo.image.format} of {width} by {height} pixels")
    place = gateway.invoke("MyPhone", "location.get").data
    _say("invoke", f"MyPhone location.get: {place['latitude']}, {place['longitude']}")
    series = gateway.invoke("Lab PC", "sensor.read", {"samples": "120"}).frame
    if len(series) != 120:
        raise DemoError(f"sensor.read gave {len(series)} rows instead of 120.")
    _say("invoke", f"Lab PC sensor.read: {len(series)} rows of {', '.join(series.columns)}")
    info = gateway.invoke("Lab PC", "system.info").data
    _say("invoke", f"Lab PC system.info: {info['os']['name']}, {info['cpu']['threads']} processors")
    reports: list[str] = []
    gateway.invoke(
        "Lab PC", "speaker.speak", {"text": "one two three"}, on_progress=lambda p: reports.append(p.message or "")
    )
    _say("invoke", f"Lab PC speaker.speak: progress {', '.join(reports)}")


def _run_notebook(demo: Demo) -> None:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(demo.notebook, as_version=4)
    url, token = demo.runtime["url"], demo.runtime["token"]
    environment = {**os.environ, "SUZENT_BASE_URL": url.replace("://", f"://suzent:{token}@", 1)}
    client = NotebookClient(
        notebook, timeout=_CELL_SECONDS, resources={"metadata": {"path": str(demo.notebook.parent)}}
    )
    try:
        client.execute(env=environment, stderr=subprocess.DEVNULL)  # kernels talk about their transport there
    except CellExecutionError as error:
        raise DemoError(f"{demo.notebook.name}: {error.ename}: {error.evalue}") from None
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    images = sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))
    _say("notebook", f"{demo.notebook.name}: {len(cells)} cells run, {images} images shown")


def _wait(look: Callable[[], T], enough: Callable[[T], bool], what: str) -> T:
    end = time.monotonic() + _JOIN_SECONDS
    while not enough(found := look()):
        if time.monotonic() > end:
            raise DemoError(f"Waited {_JOIN_SECONDS:.0f} s in vain until {what}.")
        time.sleep(0.05)
    return found


def _say(step: str, text: str) -> None:
    print(f"{step:<9} {text}", flush=True)
