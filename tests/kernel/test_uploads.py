"""Files of calls and prompts: sent ahead as they are read, named by reference, fetched by real nodes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateways import Addresses, ThreadedGateway
from support.hosts import threaded
from support.kept import digest, kept_files
from support.played_chats import Node, sent
from support.played_gateway import PlayedGateway
from support.waiting import wait_for

import suzent_jupyter as sz
from suzent_jupyter.gateway.artifacts.storage import Draft
from suzent_jupyter.kernel import Gateway, KernelError
from suzent_jupyter.kernel.errors import CallCancelled, ContentError, UsageError
from suzent_jupyter.kernel.results import Binary
from suzent_jupyter.kernel.uploads import Uploads
from suzent_jupyter.node import NodeHost
from suzent_jupyter.protocol.agents import Turn

from .conftest import Shell
from .test_real_kernel import Kernel, environment, start_kernel  # noqa: F401 - fixtures

MIB = 1024 * 1024
Start = Callable[..., NodeHost]


def by_path(file: Path) -> dict[str, Any]:
    return {"size": file.stat().st_size, "sha256": digest(file.read_bytes()), "path": str(file)}


def by_bytes(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": digest(data)}


def kinds(value: Any) -> Any:
    return value


def read_files(message: str, turn: Turn) -> str:
    """Tell what came along."""
    each = [f"{a.name}|{a.media_type}|{a.size}|{digest(a.path.read_bytes())}" for a in turn.attachments]
    return "\n".join(each) or "nothing"


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Start]:
    """Start a node on a thread of its own, and approve it."""
    with threaded(tmp_path) as start:

        def with_capabilities(gateway: Addresses, name: str = "Lab", **options: Any) -> NodeHost:
            options.setdefault("capabilities", [by_path, by_bytes, kinds])
            return start(gateway, name, **options)

        yield with_capabilities


def file_of(tmp_path: Path, size: int, name: str = "scan one.bin") -> tuple[Path, bytes]:
    data = os.urandom(size)
    path = tmp_path / name
    path.write_bytes(data)
    return path, data


def test_large_parameters_go_ahead(gateway: ThreadedGateway, gw: Gateway, start_node: Start, tmp_path: Path) -> None:
    start_node(gateway)
    path, data = file_of(tmp_path, 30_000_000)
    want = {"size": len(data), "sha256": digest(data)}
    node = gw["Lab"]
    found = node.by_path(file=sz.File(path)).data
    assert {key: found[key] for key in want} == want and found["path"] != str(path)
    assert node.by_bytes(data=data).data == want
    assert node.by_bytes(data=Binary(data, "image/tiff", "x.tif")).data == want
    assert len(kept_files(gateway)) == 1  # the same content
    assert asyncio.run(node.ainvoke("by_path", {"file": sz.File(path)})).data["sha256"] == digest(data)

    parts = node.kinds(value={"files": [memoryview(data), sz.File(path), b"small", sz.File(path)]}).data["files"]
    assert [parts[0]["name"], parts[1]["name"], parts[3]["name"]] == ["", "scan one.bin", "scan one.bin"]
    assert all(each["sha256"] == digest(data) for each in (parts[0], parts[1], parts[3]))
    assert parts[2].data == b"small"


def test_small_files_and_paths_stay_as_they_were(
    gateway: ThreadedGateway, gw: Gateway, start_node: Start, tmp_path: Path
) -> None:
    start_node(gateway)
    path, data = file_of(tmp_path, 65_536)
    node = gw["Lab"]
    assert node.by_path(file=sz.File(path)).data["sha256"] == digest(data)
    assert node.by_path(file=path).data["path"] == str(path)  # a path is one over there
    assert not kept_files(gateway)
    path.write_bytes(data + b"1")
    assert node.by_path(file=sz.File(path)).data["size"] == 65_537
    assert len(kept_files(gateway)) == 1


@pytest.mark.parametrize("protocol", ["multinode", "device"])
def test_files_of_a_prompt(
    gateway: ThreadedGateway, gw: Gateway, shell: Shell, start_node: Start, tmp_path: Path, protocol: str
) -> None:
    host = start_node(gateway, agent=read_files, capabilities=[], protocol=protocol)
    large, data = file_of(tmp_path, 30_000_000, "big.png")
    small, few = file_of(tmp_path, 1000, "small.csv")
    lines = [f"big.png|image/png|{len(data)}|{digest(data)}", f"small.csv|text/csv|1000|{digest(few)}"]
    if protocol == "device":  # no chats there, but a call of its agent
        answer = gw.invoke(
            str(host.node_id), "agent.run", {"message": "look", "attachments": [sz.File(large), sz.File(small)]}
        )
        assert answer.data == "\n".join(lines)
        return
    assert gw.chat("look", attachments=[large, str(small).replace("/", "\\")]).text == "\n".join(lines)
    assert asyncio.run(gw.achat("look", attachments=[sz.File(small)])).text == lines[1]
    answer = shell.run(f'%suzent chat --attach "{small}" look --attach {large}')
    assert sorted(answer.text.splitlines()) == sorted(lines)
    assert gw.chat("nothing along").text == "nothing"
    wait_for(lambda: not list((gateway.config.data_dir / "attachments").iterdir()))


def test_what_can_not_be_sent(gateway: ThreadedGateway, gw: Gateway, start_node: Start, tmp_path: Path) -> None:
    start_node(gateway, agent=read_files, protocol="multinode", capabilities=[])
    for wrong in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(UsageError, match="can't be read"):
            gw.chat("look", attachments=[wrong])
        with pytest.raises(UsageError, match="can't be read"):
            sz.File(wrong)
    with pytest.raises(UsageError, match="can't be attached"):
        gw.chat("look", attachments=[5])
    path, _ = file_of(tmp_path, 200_000)
    with pytest.raises(KernelError) as caught:
        gw.chat("look", attachments=[path] * 9)
    assert caught.value.code == "attachment_refused"
    assert gw.chat("look", attachments=path).text.startswith("scan one.bin|")  # one alone need be no list


@pytest.mark.parametrize("change", ["longer", "shorter"])
def test_a_file_that_changes_while_it_is_sent(
    gateway: ThreadedGateway, gw: Gateway, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = file_of(tmp_path, 300_000)
    file = sz.File(path)
    monkeypatch.setattr(sz.File, "__len__", lambda self: len(data))
    path.write_bytes(data + b"x" if change == "longer" else data[:-1])
    with pytest.raises(ContentError, match="changed while it was sent"):
        gw._uploads.attachments([file])
    wait_for(lambda: not kept_files(gateway))


def test_a_gateway_that_keeps_nothing_gets_it_inside(played: PlayedGateway, played_gw: Gateway, tmp_path: Path) -> None:
    Node(played, "Seen")
    path, data = file_of(tmp_path, 200_000)
    assert played_gw.chat("look", attachments=[path]).text == "Seen"
    [file] = sent(played, "chat.send")[0]["attachments"]
    assert base64.b64decode(file["base64"]) == data and file["name"] == "scan one.bin"
    assert played_gw._uploads.ready({"x": data}) == {"x": data}


class Held:
    """A store that takes the first piece of a file, and the rest when it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        original = Draft.write

        def write(draft: Draft, data: bytes) -> None:
            original(draft, data)
            self.begun.set()
            self.let_go.wait(20)

        monkeypatch.setattr(Draft, "write", write)


def test_a_cancelled_task_ends_the_sending(
    gateway: ThreadedGateway, gw: Gateway, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_node(gateway)
    held = Held(monkeypatch)

    async def main() -> None:
        call = asyncio.create_task(gw.ainvoke("Lab", "by_bytes", {"data": os.urandom(60 * MIB)}))
        await asyncio.to_thread(held.begun.wait, 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    held.let_go.set()
    wait_for(lambda: not kept_files(gateway))
    uploads, stop = Uploads(gw._rest), [False, False, True]
    with pytest.raises(CallCancelled):
        uploads.ready({"data": os.urandom(5 * MIB)}, stopped=lambda: stop.pop(0) if stop else True)
    wait_for(lambda: not kept_files(gateway))


@pytest.mark.usefixtures("environment")
def test_a_real_kernel_shows_how_far_it_is_and_can_be_interrupted(
    gateway: ThreadedGateway,
    start_kernel: Callable[[], Kernel],  # noqa: F811
    start_node: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_node(gateway, agent=read_files, protocol="multinode")
    path, data = file_of(tmp_path, 30_000_000, "film.mp4")
    kernel = start_kernel()
    kernel.run("%load_ext suzent_jupyter\nimport suzent_jupyter as sz")
    assert kernel.run(f"answer = %suzent chat look --attach '{path}'\nanswer.text")["status"] == "ok", kernel.text
    assert f"film.mp4|video/mp4|{len(data)}|{digest(data)}" in kernel.text
    shown = [
        output
        for output in kernel.outputs
        if "film.mp4" in str(output.get("data", "")) and "text/plain" in output["data"]
    ]
    lines = [output["data"]["text/plain"] for output in shown]
    assert re.fullmatch(r"Sending film\.mp4 \[-{24}\]   0% of 30\.0 MB", lines[0])
    assert [line for line in lines if re.fullmatch(r"Sent film\.mp4, 30\.0 MB in [0-9.]+ s", line)]
    assert shown[0]["type"] == "display_data" and shown[1]["type"] == "update_display_data"  # one line, written anew
    # Small ones show nothing.
    small, _ = file_of(tmp_path, 100_000, "small.bin")
    kernel.run(f"small = sz.File('{small}')\nresult = %suzent invoke Lab by_path file=$small\nresult.data['size']")
    assert "100000" in kernel.text and "Sending" not in kernel.text

    held = Held(monkeypatch)
    before = len(kept_files(gateway))
    request = kernel.start(
        f"big = sz.File('{file_of(tmp_path, 60 * MIB, 'other.mp4')[0]}')\n%suzent invoke Lab by_path file=$big"
    )
    assert held.begun.wait(20), kernel.finish(request) and kernel.text
    kernel.manager.interrupt_kernel()
    assert kernel.finish(request)["ename"] == "KeyboardInterrupt"
    assert "Sending other.mp4: stopped" in kernel.text
    held.let_go.set()
    wait_for(lambda: len(kept_files(gateway)) == before)
    monkeypatch.undo()


def test_the_digest_is_compared(gateway: ThreadedGateway, gw: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "finish", lambda draft: (draft._file.close(), hashlib.sha256(b"other").hexdigest())[1])
    with pytest.raises(ContentError, match="not what was sent"):
        gw._uploads.attachments([os.urandom(100_000)])


def test_nobody_has_all_of_a_file_in_memory(
    gateway: ThreadedGateway, gw: Gateway, start_node: Start, tmp_path: Path
) -> None:
    def size_of(file: Path) -> int:
        return file.stat().st_size

    start_node(gateway, capabilities=[size_of])  # sender, gateway and node are all in this process
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(100 * MIB)
    gw.invoke("Lab", "size_of", {"file": sz.File(path)})  # what loads on first use
    with path.open("r+b") as file:
        file.write(b"another")
    tracemalloc.start()
    try:
        assert gw.invoke("Lab", "size_of", {"file": sz.File(path)}, timeout=120).data == 100 * MIB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
