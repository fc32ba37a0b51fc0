"""Permission prompts at a device: shown by its own function, answered by their ids; and what its agent asks for."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chats import begin, read, text_of
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.hosts import HOST_COMMAND, make_host, running
from support.played_multinode import Visit, played_multinode
from support.running import sync, until

from suzent_jupyter.cli.conformance.played_gateway import played_gateway
from suzent_jupyter.node import NodeHost, this_node
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.permissions import PermissionInfo

Record = dict[str, Any]
PROMPT = {
    "type": "permission.request",
    "id": "Ab3fxyz",
    "tool": "camera.snap",
    "summary": {"command": "camera.snap", "params": '{"format":"png"}', "params_bytes": 16},
    "caller": "ada\x1b[2J",
    "expires_at": "2030-01-01T00:00:00+00:00",
    "something": "new",
}


@asynccontextmanager
async def joined(tmp_path: Path, url: str, **options: Any) -> AsyncIterator[NodeHost]:
    options.setdefault("capabilities", [])
    host = make_host(url, tmp_path / "vault", "Lab", **options)
    async with running(host):
        yield host


@asynccontextmanager
async def visited(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Visit, NodeHost]]:
    async with played_multinode() as gateway, joined(tmp_path, gateway.url, protocol="multinode", **options) as host:
        visit = await gateway.visit()
        await visit.welcome()
        await until(lambda: host.status == "connected")
        yield visit, host


@pytest.mark.parametrize(
    ("answer", "decision", "remember"),
    [(True, "allow", "once"), ("session", "allow", "session"), (False, "deny", "once"), ("what?", "deny", "once")],
)
@sync
async def test_an_answer_goes_back_under_its_id(tmp_path: Path, answer: Any, decision: str, remember: str) -> None:
    seen: list[PermissionInfo] = []

    def ask(prompt: PermissionInfo) -> Any:
        seen.append(prompt)
        return answer

    async with visited(tmp_path, on_permission=ask) as (visit, _):
        assert "permissions" in visit.connect["features"]
        await visit.send(PROMPT)
        response = await visit.next("permission.response")
        assert response == {
            "type": "permission.response", "id": "Ab3fxyz", "decision": decision, "remember": remember
        }  # fmt: skip
    assert (seen[0].caller, seen[0].summary.params) == ("ada", '{"format":"png"}')


@sync
async def test_all_that_the_gateway_shows_is_shown_here(tmp_path: Path) -> None:
    seen: list[PermissionInfo] = []
    async with visited(tmp_path, on_permission=seen.append) as (visit, _):
        params = json.dumps({"note": "x" * 16_000, "line": "rm -rf /home"})
        await visit.send({**PROMPT, "summary": {"command": "camera.snap", "params": params}})
        await until(lambda: seen)
        assert seen[0].summary.params == params


@sync
async def test_a_device_of_the_other_protocol_is_asked_likewise(tmp_path: Path) -> None:
    async def ask(prompt: PermissionInfo) -> bool:
        return True

    async with played_gateway() as gateway, joined(tmp_path, gateway.url, on_permission=ask):
        visit = await gateway.visit()
        assert "permissions" in visit.connect_frame["features"]
        await visit.welcome()
        await visit.send(PROMPT)
        assert (await visit.next("permission.response"))["decision"] == "allow"


@sync
async def test_without_a_way_to_ask_nothing_is_announced_and_nothing_answered(tmp_path: Path) -> None:
    async with visited(tmp_path) as (visit, host):
        assert "permissions" not in visit.connect["features"]
        await visit.send(PROMPT)
        asked = asyncio.create_task(host.nodes())
        request = await visit.next("node.list")  # it goes on, and what it says next is this
        await visit.send({"type": "node.list", "id": request["id"], "nodes": []})
        assert await asked == []
        assert not [frame for frame in visit.frames if frame["type"] == "permission.response"]


@sync
async def test_a_prompt_that_is_closed_elsewhere_is_answered_no_more(tmp_path: Path) -> None:
    cancelled, started = asyncio.Event(), asyncio.Event()

    async def ask(prompt: PermissionInfo) -> bool | None:
        if prompt.id == "second":
            return True
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return None

    async with visited(tmp_path, on_permission=ask) as (visit, _):
        await visit.send(PROMPT)
        await asyncio.wait_for(started.wait(), 10)
        await visit.send({"type": "permission.resolved", "id": PROMPT["id"], "decision": "deny", "reason": "answered"})
        await asyncio.wait_for(cancelled.wait(), 10)
        await visit.send({**PROMPT, "id": "second"})
        assert (await visit.next("permission.response"))["id"] == "second"


@sync
async def test_a_callback_that_fails_or_leaves_it_to_others_answers_nothing(tmp_path: Path) -> None:
    def ask(prompt: PermissionInfo) -> bool | None:
        if prompt.id == "broken":
            raise RuntimeError("no screen")
        return None if prompt.id == "others" else False

    async with visited(tmp_path, on_permission=ask) as (visit, _):
        for prompt_id in ("broken", "others", "mine"):
            await visit.send({**PROMPT, "id": prompt_id})
        await visit.send({"type": "permission.request", "id": "bad", "tool": 3})
        assert (await visit.next("permission.response"))["id"] == "mine"
        assert [each["id"] for each in visit.frames if each["type"] == "permission.response"] == ["mine"]


@pytest.mark.parametrize(
    ("resolved", "code"),
    [
        ({"decision": "allow", "reason": "answered"}, ""),
        ({"decision": "deny", "reason": "answered"}, "permission_denied"),
        ({"decision": "deny", "reason": "expired"}, "permission_expired"),
        ({"decision": "deny", "reason": "no_interface"}, "permission_needed"),
        ({"reason": "answered"}, "permission_denied"),
    ],
)
@sync
async def test_an_agent_asks_for_a_tool_of_its_own(tmp_path: Path, resolved: Record, code: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"12345")

    async def answer(message: str) -> str:
        try:
            await this_node().permit("write_file", {"path": "x"}, description="Write a file.", files=[path])
        except SuzentError as error:
            return error.code
        return "written"

    async with visited(tmp_path, agent=answer) as (visit, _):
        await visit.chat("r1", "go")
        request = await visit.next("permission.request")
        assert (request["run_id"], request["tool"]) == ("r1", "write_file")
        summary = request["summary"]
        assert (summary["params"], summary["params_bytes"]) == ('{"path":"x"}', 12)
        assert summary["files"] == [{"name": "data.csv", "size": 5}] and len(summary["sha256"]) == 64
        await visit.send({"type": "permission.resolved", "id": request["id"], **resolved})
        events = await visit.ended_run("r1")
        assert text_of(events) == (code or "written")


@sync
async def test_the_device_and_the_notebook_are_both_asked_and_the_first_answer_counts(
    make_gateway: Callable[..., ThreadedGateway], tmp_path: Path
) -> None:
    gateway = make_gateway()
    shown: list[PermissionInfo] = []
    closed = asyncio.Event()

    async def ask(prompt: PermissionInfo) -> bool:
        shown.append(prompt)
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        return False

    async def answer(message: str) -> str:
        await this_node().permit("write_file", {"path": "notes.txt"})
        return "written"

    url = gateway.node_url.replace("/ws/node", "/ws/gateway")
    async with joined(tmp_path, url, protocol="multinode", agent=answer, on_permission=ask) as host:
        await until(lambda: host.pairing_code)
        await gateway.approve(host.pairing_code)
        await until(lambda: host.status == "connected")
        async with BareClient(gateway) as notebook, BareClient(gateway) as watcher:
            await notebook.send(type="subscribe", topics=["permissions"])
            assert (await notebook.recv("change"))["item"] == []
            accepted = await begin(notebook)
            while (change := await notebook.recv("change"))["kind"] != "added":
                pass
            await until(lambda: shown)
            item = change["item"]
            assert item["id"] == shown[0].id and item["tool"] == "write_file" and item["relation"] == "web"
            assert item["summary"]["params"] == '{"path":"notes.txt"}'
            await notebook.send(type="permission.response", id=item["id"], decision="allow")
            await watcher.send(type="chat.watch", id=1, run_id=accepted["run_id"])
            assert text_of(await read(watcher, accepted["run_id"])) == "written"
        await asyncio.wait_for(closed.wait(), 10)


# -- on a terminal

LAMP = """
from suzent_jupyter.node import capability

@capability("lamp.set")
def lamp(level: int) -> int:
    return level
"""


class Terminal:
    """`jupyter suzent node host` with somebody who reads and types."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, start: str) -> str:
        assert self._process.stdout is not None
        while True:
            read = (await asyncio.wait_for(self._process.stdout.readline(), 30)).decode()
            assert read, "the host has ended"
            if read.startswith(start):
                return read.rstrip("\n")

    async def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n".encode())
        await self._process.stdin.drain()


@asynccontextmanager
async def terminal(tmp_path: Path, *options: str) -> AsyncIterator[tuple[Terminal, Any]]:
    (tmp_path / "lamp.py").write_text(LAMP)
    async with played_gateway() as gateway:
        arguments = ["--url", gateway.url, "--module", "lamp.py", "--no-builtin", *options]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOST_COMMAND, "node", "host", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
            env={**os.environ, "SUZENT_KEYRING": "off", "SUZENT_DATA_DIR": str(tmp_path / "data"), "NO_COLOR": "1"},
        )  # fmt: skip
        try:
            visit = await gateway.visit()
            await visit.welcome(token="szt_secret", node_id="node-1")
            yield Terminal(process), visit
        finally:
            if process.returncode is None:
                process.terminate()
            assert await asyncio.wait_for(process.wait(), 20) == 0


@sync
async def test_answers_on_the_terminal_name_their_prompt(tmp_path: Path) -> None:
    async with terminal(tmp_path, "--ask") as (person, visit):
        assert "permissions" in visit.connect_frame["features"]
        for prompt_id in ("aaaa1111", "bbbb2222", "cccc3333"):
            await visit.send({**PROMPT, "id": prompt_id})
        assert await person.line("[aaaa]") == "[aaaa] ada wants to run camera.snap here."
        assert await person.line("  with") == '  with {"format":"png"}'
        assert "y aaaa (once)" in await person.line("  Allow")
        await person.line("[cccc]")
        await person.type("y")
        assert "the code of a prompt; there wait: aaaa, bbbb, cccc" in await person.line("Type")
        await person.type("s BBBB")
        response = await visit.next("permission.response")
        assert (response["id"], response["decision"], response["remember"]) == ("bbbb2222", "allow", "session")
        await visit.send({"type": "permission.resolved", "id": "aaaa1111", "decision": "deny", "reason": "expired"})
        assert "is closed" in await person.line("[aaaa]")
        await person.type("y aaaa")
        assert "no prompt 'aaaa' now; there wait: cccc" in await person.line("There is")
        await person.type("no cccc")
        response = await visit.wait_for(lambda frame: frame.get("id") == "cccc3333")
        assert (response["type"], response["decision"]) == ("permission.response", "deny")


@sync
async def test_prompts_as_json_lines(tmp_path: Path) -> None:
    async with terminal(tmp_path, "--ask", "--json") as (person, visit):
        await visit.send(PROMPT)
        shown = json.loads(await person.line('{"event": "permission"'))
        assert shown["code"] == "ab3f" and shown["permission"]["summary"]["command"] == "camera.snap"
        await person.type("n ab3f")
        assert (await visit.next("permission.response"))["decision"] == "deny"


@sync
async def test_where_there_is_no_terminal_nobody_is_asked(tmp_path: Path) -> None:
    async with terminal(tmp_path) as (_, visit):
        assert "permissions" not in visit.connect_frame["features"]
