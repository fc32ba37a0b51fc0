"""The tools of this gateway's own model ask the people of whoever asks: nothing runs before they have said yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.grants import grant
from support.model_server import ModelServer
from support.model_turns import calling
from support.running import sync
from support.turns import ask, text_of

Make = Callable[..., ThreadedGateway]
WRITING = calling("write_file", {"path": "notes.txt", "content": "a new line"})
LOOKING = calling("invoke_node", {"node": "MyPhone", "command": "camera.snap", "params": {"n": 1}})


async def next_prompt(http: httpx.AsyncClient) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while not (waiting := (await http.get("/permissions")).json()["permissions"]):
            await asyncio.sleep(0.01)
    (prompt,) = waiting
    return dict(prompt)


async def answered(http: httpx.AsyncClient, decision: str) -> tuple[dict[str, Any], str]:
    """Run a turn and answer what it asks; return the prompt and what the model was told."""
    turn = asyncio.ensure_future(ask(http, "/chat", {"message": "go", "chat_id": "c1"}))
    prompt = await next_prompt(http)
    assert not turn.done()
    answer = await http.post(f"/permissions/{prompt['id']}", json={"decision": decision})
    assert answer.status_code == 200, answer.text
    return prompt, text_of(await turn)


@pytest.mark.parametrize("decision", ["allow", "deny"])
@sync
async def test_writing_a_file(make_gateway: Make, model_server: ModelServer, tmp_path: Path, decision: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    gateway = make_gateway(agent_model=WRITING, contents=AsyncLargeFileManager(root_dir=str(root)))
    async with gateway.http() as http, BareClient(gateway):
        prompt, said = await answered(http, decision)
        assert (prompt["tool"], prompt["relation"], prompt["node_id"]) == ("write_file", "web", "")
        assert json.loads(prompt["summary"]["params"]) == {"path": "notes.txt", "content": "a new line"}
        assert prompt["conversation_id"] == "c1" and prompt["run_id"]
        if decision == "allow":
            assert (root / "notes.txt").read_text() == "a new line"
        else:
            assert list(root.iterdir()) == [] and "permission_denied" in said


@pytest.mark.parametrize("decision", ["allow", "deny"])
@sync
async def test_calling_a_device(make_gateway: Make, model_server: ModelServer, decision: str) -> None:
    called: list[Any] = []
    gateway = make_gateway(agent_model=LOOKING)
    async with (
        BareDevice(gateway.node_url, capabilities=[{"name": "camera.snap"}]) as phone,
        gateway.http() as http,
        BareClient(gateway),
    ):
        await gateway.pair(phone)
        phone.answer(lambda command, params: called.append(params))
        prompt, said = await answered(http, decision)
        assert (prompt["tool"], prompt["relation"], prompt["node_id"]) == ("camera.snap", "web", phone.node_id)
        assert called == ([{"n": 1}] if decision == "allow" else [])
        assert ("permission_denied" in said) is (decision == "deny")


@sync
async def test_nobody_is_there(make_gateway: Make, model_server: ModelServer) -> None:
    gateway = make_gateway(agent_model=LOOKING)
    async with BareDevice(gateway.node_url, capabilities=[{"name": "camera.snap"}]) as phone, gateway.http() as http:
        await gateway.pair(phone)
        assert "permission_needed" in text_of(await ask(http, "/chat", {"message": "go"}))
        (kept,) = (await http.get("/permissions?history=1")).json()["permissions"]
        assert (kept["decision"], kept["reason"]) == ("deny", "no_interface")


@sync
async def test_a_turn_that_is_stopped_asks_no_more(make_gateway: Make, model_server: ModelServer) -> None:
    gateway = make_gateway(agent_model=LOOKING)
    async with (
        BareDevice(gateway.node_url, capabilities=[{"name": "camera.snap"}]) as phone,
        gateway.http() as http,
        BareClient(gateway) as tab,
    ):
        await gateway.pair(phone)
        turn = asyncio.ensure_future(ask(http, "/chat", {"message": "go", "chat_id": "c1"}))
        prompt = await next_prompt(http)
        assert (await http.post("/chat/stop", json={"chat_id": "c1"})).status_code == 200
        await turn
        late = await http.post(f"/permissions/{prompt['id']}", json={"decision": "allow"})
        assert late.json()["code"] == "permission_expired"
        await tab.send(type="permission.response", id=prompt["id"], decision="allow")
        assert (await tab.recv("error"))["code"] == "permission_expired"
        (kept,) = (await http.get("/permissions?history=1")).json()["permissions"]
        assert (kept["decision"], kept["reason"]) == ("deny", "cancelled")


@pytest.mark.parametrize(("unattended", "says"), [(True, None), (False, None), (False, False), (False, True)])
@sync
async def test_a_peers_turn_asks_nobody(
    make_gateway: Make, model_server: ModelServer, unattended: bool, says: bool | None
) -> None:
    called: list[Any] = []
    gateway = make_gateway(agent_model=LOOKING)
    capability = {"name": "camera.snap"} | ({} if says is None else {"requires_permission": says})
    async with (
        BareDevice(gateway.node_url, capabilities=[capability]) as phone,
        gateway.http() as http,
        BareClient(gateway) as tab,
    ):
        await gateway.pair(phone)
        phone.answer(lambda command, params: called.append(params))
        await tab.send(type="subscribe", topics=["permissions"])
        await tab.change("permissions")
        _, headers = await grant(gateway, unattended_tools=unattended)
        async with gateway.http(headers=headers) as peer:
            said = text_of(await ask(peer, "/chat", {"message": "go"}))
            assert (await peer.get("/permissions")).status_code == 403
        allowed = unattended or says is False
        assert called == ([{"n": 1}] if allowed else [])
        assert ("not_granted" in said) is not allowed
        kept = [(each["decision"], each["reason"]) for each in await history(http)]
        assert kept == ([] if says is False else [("allow", "granted") if allowed else ("deny", "no_interface")])
        await tab.send(type="chat.watch", id="now", run_id="none")
        assert (await tab.recv())["id"] == "now"  # of all that the tab heard nothing


async def history(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await http.get("/permissions?history=1")).json()["permissions"])
