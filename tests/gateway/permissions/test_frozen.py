"""What was shown is what runs: nothing that happens between asking and running can change it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

import pytest
from support.asked import Cast, Frame, Make, Seat, cast
from support.running import sync, until

ORIGINAL = {"line": "ls", "n": 1}


async def result(seat: Seat, call_id: Any) -> list[Frame]:
    return list(await until(lambda: [f for f in seat.frames if f["type"] == "result" and f["id"] == call_id], 20))


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


async def ask(everybody: Cast, node: str, params: Any = None, command: str = "guarded", **more: Any) -> Frame:
    """Call a node and return the prompt."""
    params = ORIGINAL if params is None else params
    target = everybody[node].node_id
    await everybody["ada-tab"].send(type="invoke", id="c", node=target, command=command, params=params, **more)
    return await everybody["ada-tab"].prompt()


@sync
async def test_the_caller_sends_the_id_again_with_something_else(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        prompt = await ask(everybody, "ada-a")
        assert json.loads(prompt["summary"]["params"]) == ORIGINAL
        assert prompt["summary"]["sha256"] == digest(ORIGINAL)
        before = len(tab.frames)
        again = {"node": node.node_id, "command": "guarded", "params": {"line": "rm -rf /"}}
        await tab.send(type="invoke", id="c", **again)
        await until(lambda: [f for f in tab.frames[before:] if f["type"] == "error" and f["code"] == "bad_frame"])
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["result"] == ORIGINAL
        assert [each["params"] for each in node.calls] == [ORIGINAL]


@sync
async def test_an_app_node_sends_the_id_again_with_something_else(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-b", "ada-a") as everybody:
        caller, node = everybody["ada-b"], everybody["ada-a"]
        request = {"node_id": node.node_id, "command": "guarded"}
        call_id, future = caller.socket.start(params=ORIGINAL, **request)
        prompt = await node.prompt()
        await caller.send(type="node.invoke.request", id=call_id, params={"line": "rm"}, **request)
        await until(lambda: [f for f in caller.frames if f["type"] == "error" and f["code"] == "bad_frame"])
        await node.answer(prompt["id"])
        assert (await future)["result"] == ORIGINAL
        assert [each["params"] for each in node.calls] == [ORIGINAL]


@sync
async def test_the_same_key_waits_with_the_first_call_and_another_body_is_refused(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        prompt = await ask(everybody, "ada-a", idempotency_key="k")
        same = {"node": node.node_id, "command": "guarded", "idempotency_key": "k"}
        await tab.send(type="invoke", id="same", params=ORIGINAL, **same)
        await tab.send(type="invoke", id="other", params={"line": "rm"}, **same)
        assert (await result(tab, "other"))[0]["code"] == "idempotency_conflict"
        assert len(tab.prompts()) == 1
        await tab.answer(prompt["id"])
        for call_id in ("c", "same"):
            assert (await result(tab, call_id))[0]["result"] == ORIGINAL
        await tab.send(type="invoke", id="later", params=ORIGINAL, **same)
        assert (await result(tab, "later"))[0]["result"] == ORIGINAL
        assert len(node.calls) == 1 and len(tab.prompts()) == 1


@sync
async def test_the_node_changes_its_schema_meanwhile(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        prompt = await ask(everybody, "ada-a")
        schema = {
            "type": "object",
            "properties": {"line": {"type": "string", "default": "rm"}, "n": {"type": "string"}},
        }
        changed = {"name": "guarded", "requires_permission": False, "input_schema": schema, "description": "harmless"}
        await node.send(type="node.update", node={"capabilities": [changed]})
        await node.caught_up()
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["result"] == ORIGINAL
        assert [each["params"] for each in node.calls] == [ORIGINAL]


@sync
async def test_the_node_drops_the_command_meanwhile(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        prompt = await ask(everybody, "ada-a")
        await node.send(type="node.update", node={"capabilities": [{"name": "echo"}]})
        await node.caught_up()
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["code"] == "unknown_command"
        assert node.calls == []


@sync
async def test_its_approval_is_withdrawn_meanwhile(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        prompt = await ask(everybody, "ada-a")
        device = everybody.gateway.service.gateway.devices.by_id(node.node_id)
        assert device is not None
        device.approved = ["echo"]
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["code"] == "pending_reapproval"
        assert node.calls == []


@sync
async def test_the_command_is_forbidden_meanwhile(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab = everybody["ada-tab"]
        prompt = await ask(everybody, "ada-a")
        await everybody.http["ada"].post("/nodes/config", json={"denied_commands": ["guarded"]})
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["code"] == "command_denied"
        assert everybody["ada-a"].calls == []


@sync
async def test_names_that_stand_there_twice_are_sent_once_as_they_were_shown(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-phone") as everybody:
        tab, phone = everybody["ada-tab"], everybody["ada-phone"]
        params = '{"line": "rm -rf /", "line": "ls", "n": 1}'
        text = f'{{"type":"invoke","id":"c","node":"{phone.node_id}","command":"guarded","params":{params}}}'
        await tab.socket.ws.send(text)
        prompt = await tab.prompt()
        assert json.loads(prompt["summary"]["params"]) == ORIGINAL
        raw: list[str] = []
        phone._reading.cancel()  # type: ignore[union-attr]
        await asyncio.gather(phone._reading, return_exceptions=True)  # type: ignore[arg-type]
        await tab.answer(prompt["id"])
        async with asyncio.timeout(10):
            while not (raw and '"invoke"' in raw[-1]):
                raw.append(str(await phone.socket.ws.recv()))
        assert "rm -rf" not in raw[-1] and raw[-1].count('"line"') == 1
        frame = json.loads(raw[-1])
        assert frame["params"] == ORIGINAL and prompt["summary"]["sha256"] == digest(frame["params"])


@sync
async def test_the_deadline_begins_when_it_is_allowed(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-phone") as everybody:
        tab, phone = everybody["ada-tab"], everybody["ada-phone"]
        prompt = await ask(everybody, "ada-phone", timeout=0.4)
        (progress,) = await until(lambda: [f for f in tab.frames if f["type"] == "progress"])
        assert progress["message"] == "Waiting for somebody's permission." and progress["id"] == "c"
        assert progress["data"] == {"waits_for": "permission", "expires_at": prompt["expires_at"]}
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await until(lambda: loop.time() > begun + 0.5)
        assert not [f for f in tab.frames if f["type"] == "result"]
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["success"]
        assert 0 < phone.calls[0]["timeout"] <= 0.4


PHOTO = base64.b64encode(bytes(range(256)) * 40).decode()


@pytest.mark.parametrize("size", [1, 300_000])
@sync
async def test_files_and_long_texts_are_told_apart_from_what_is_said(make_gateway: Make, size: int) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        params = {
            "files": [{"media_type": "image/png", "base64": PHOTO, "name": "a\u202eb.png"}],
            "icon": f"data:image/gif;base64,{PHOTO}",
            "text": "x" * 10_000 + "the end",
            "hidden": "a\u202eb\u200bc\n",
            "many": ["y" * 100] * (size // 100),
            "last": "seen?",
        }
        prompt = await ask(everybody, "ada-a", params)
        summary = prompt["summary"]
        assert summary["files"] == [
            {"name": "ab.png", "media_type": "image/png", "size": 10_240},
            {"name": "", "media_type": "image/gif", "size": 10_240},
        ]
        assert PHOTO[:100] not in summary["params"] and "the end" in summary["params"]
        assert "\u202e" not in summary["params"] and "\\u202e" in summary["params"]
        assert len(summary["params"]) < 20_000
        assert summary["sha256"] == digest(params)
        assert summary["params_bytes"] == len(json.dumps(params, separators=(",", ":"), ensure_ascii=False).encode())
        await tab.answer(prompt["id"])
        assert (await result(tab, "c"))[0]["result"] == params
        assert node.calls[0]["params"] == params


@sync
async def test_what_does_not_fit_is_refused_before_anybody_is_asked(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        target = {"node": node.node_id}
        await tab.send(type="invoke", id="none", command="none", **target)
        await tab.send(type="invoke", id="list", command="guarded", params=[1], **target)
        await tab.send(type="invoke", id="time", command="guarded", timeout=-1, **target)
        codes = [(await result(tab, each))[0]["code"] for each in ("none", "list", "time")]
        assert codes == ["unknown_command", "invalid_request", "invalid_timeout"]
        await tab.caught_up()
        assert everybody.asked() == set()
