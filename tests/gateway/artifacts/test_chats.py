"""Files that come with a prompt: references for nodes that know them, and from callers that kept them here before."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from typing import Any

import pytest
from support.chats import read, text_of
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.kept import digest, fetched, kept_files, knowing, part, token_of
from support.running import sync, until

MIB = 1024 * 1024
BLOB = os.urandom(64 * 1024 + 1)
MakeGateway = Callable[..., ThreadedGateway]


async def work(node: Worker, run: dict[str, Any]) -> str:
    return "seen"


async def chat(gateway: ThreadedGateway, *files: Any, token: str | None = None) -> str:
    """Send a prompt; return the answer's text, or the code of what refused it."""
    async with BareClient(gateway, token) as client:
        await client.send(type="chat.send", id="q", message="look", attachments=list(files))
        while (frame := await client.recv(seconds=30))["type"] not in ("chat.accepted", "error"):
            pass
        if frame["type"] == "error":
            return str(frame["code"])
        events = await read(client, frame["run_id"])
        return text_of(events) or str(events[-1].get("code"))


async def posted(gateway: ThreadedGateway, data: bytes, **query: str) -> dict[str, Any]:
    async with gateway.http() as http:
        answer = await http.post("/artifacts", content=data, params=query)
        return dict(answer.json()["artifact"])


@sync
async def test_an_app_node_gets_references_for_what_is_large(gateway: ThreadedGateway) -> None:
    large = os.urandom(12 * MIB)  # more than goes inside a frame
    url = f"data:image/jpeg;base64,{base64.b64encode(BLOB).decode()}"
    async with Worker(gateway, "App", work, features=["artifacts"]) as app:
        files = [part(BLOB[:-1], name="small.png"), part(large, name="../large.png"), {"url": url, "name": "u.jpg"}]
        assert await chat(gateway, *files) == "seen"
        small, big, from_url = app.runs[0]["attachments"]
        assert small == part(BLOB[:-1], name="small.png")
        for reference, data, name in ((big, large, "large.png"), (from_url, BLOB, "u.jpg")):
            assert "base64" not in reference
            assert (reference["name"], reference["size"], reference["sha256"]) == (name, len(data), digest(data))
            assert (await fetched(gateway, reference["url"])).content == data
        assert from_url["media_type"] == "image/jpeg"
        assert "Left out" not in app.runs[0]["turn"]["note"]
        assert await chat(gateway, part(large, name="again.png")) == "seen"
        assert app.runs[1]["attachments"][0]["name"] == "again.png"
        assert len(kept_files(gateway)) == 2


@sync
async def test_a_device_agent_gets_them_too(gateway: ThreadedGateway) -> None:
    large = os.urandom(12 * MIB)
    capabilities = [{"name": "agent.run"}]
    async with knowing(gateway, "Agent", capabilities=capabilities, features=["agent", "artifacts"]) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params["attachments"]) or "seen")
        hub = gateway.service.gateway
        reference = await posted(gateway, large, name="a.bin")
        turn = await _turn(gateway, hub, large)
        assert turn == "seen"
        [[file]] = got
        assert (file["sha256"], file["size"]) == (digest(large), len(large))
        assert (await fetched(gateway, file["url"])).content == large
        assert reference["sha256"] == file["sha256"]


async def _turn(gateway: ThreadedGateway, hub: Any, data: bytes) -> str:
    """Have the device's agent answer a turn that comes with a file."""
    from suzent_jupyter.gateway.answering.device_agent import DeviceAgent
    from suzent_jupyter.protocol.agents import Turn, TurnAttachment

    path = gateway.config.data_dir / "a.bin"
    path.write_bytes(data)
    principal = gateway.service.kernel_token._principal
    session = next(iter(hub.registry))
    attachment = TurnAttachment(name="a.bin", media_type="application/octet-stream", size=len(data), path=path)
    turn = Turn(run_id="r", conversation_id="c", message="look", attachments=[attachment])

    async def answer() -> str:
        said = [event async for event in DeviceAgent(hub, principal, session).run(turn)]
        return "".join(getattr(event, "delta", "") for event in said)

    return await asyncio.to_thread(gateway.run, answer())


@sync
async def test_other_nodes_get_what_goes_inside(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "App", work) as app:
        reference = await posted(gateway, BLOB, name="kept.png")
        assert await chat(gateway, part(BLOB, name="a.png"), {**reference, "media_type": "image/png"}) == "seen"
        assert app.runs[0]["attachments"] == [part(BLOB, name="a.png"), part(BLOB, name="kept.png")]


@sync
async def test_references_in_a_prompt_are_the_callers_own(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(org="lab")
    bob = await token_of(gateway, "bob", "lab")
    reference = await posted(gateway, BLOB)
    nowhere = {**reference, "url": "https://example.org/x", "sha256": "0" * 64}
    unsigned = {**reference, "url": reference["url"].partition("?")[0]}
    async with Worker(gateway, "App", work) as app:
        assert await chat(gateway, {**reference, "sha256": "0" * 64}) == "artifact_unknown"
        assert await chat(gateway, nowhere) == "attachment_refused"
        assert await chat(gateway, {**reference, "size": 60 * MIB}) == "attachment_refused"
        assert app.runs == []
        assert await chat(gateway, unsigned) == "seen"
        async with gateway.http() as http:
            assert (await http.post("/nodes/App/scope", json={"scope": "enterprise"})).status_code == 200
        assert await chat(gateway, unsigned, token=bob) == "artifact_unknown"
        assert len(app.runs) == 1
        assert await chat(gateway, reference, token=bob) == "seen"  # whoever has the address has the file
        assert app.runs[1]["is_remote_session"] is True
        [path] = kept_files(gateway)
        path.write_bytes(BLOB[::-1])
        assert await chat(gateway, unsigned) == "artifact_corrupt"
        assert len(app.runs) == 2
        folder = gateway.config.data_dir / "attachments"
        await until(lambda: list(folder.iterdir()) == [])


@pytest.mark.parametrize(
    "file",
    [
        {"name": "a", "media_type": "image/png", "base64": "!" * 100_000},
        {"name": "a", "media_type": "image/png", "base64": part(BLOB)["base64"][:-5] + "====="},
        {"name": "a", "url": "data:image/png;base64,A=A="},
        {"name": "a", "url": "data:image/png,plain"},
        {"name": "a", "url": "https://example.org/"},
        "data:image/png;base64,AAAA",
        {"name": "a"},
    ],
)
@sync
async def test_what_is_no_file_is_refused(gateway: ThreadedGateway, file: Any) -> None:
    async with Worker(gateway, "App", work, features=["artifacts"]) as app:
        assert await chat(gateway, part(BLOB), file) == "attachment_refused"
        assert app.runs == []
        assert kept_files(gateway) == []


@pytest.mark.parametrize("down", [False, True])
@sync
async def test_a_prompt_whose_files_cannot_be_kept_is_not_sent(
    make_gateway: MakeGateway, tmp_path: Any, down: bool
) -> None:
    (tmp_path / "file").write_text("no directory")
    options: dict[str, Any] = {"artifact_url": f"file://{tmp_path / 'file'}/below"} if down else {}
    gateway = make_gateway(limits={"artifact_store_bytes": 100_000}, **options)
    async with Worker(gateway, "App", work, features=["artifacts"]) as app:
        code = await chat(gateway, part(BLOB), part(BLOB[::-1]))
        assert code == ("artifact_store_failed" if down else "artifact_store_full")
        assert app.runs == []
        assert await chat(gateway, part(b"small")) == "seen"


@sync
async def test_devices_and_apps_are_asked_for_what_they_announced(gateway: ThreadedGateway) -> None:
    async with (
        knowing(gateway) as device,
        BareDevice(gateway.node_url, "Plain", features=[]) as plain,
        Worker(gateway, "App", features=["artifacts"]),
    ):
        for each in (device, plain):
            await gateway.pair(each)
        async with gateway.http() as http:
            nodes = {node["display_name"]: node["features"] for node in (await http.get("/nodes")).json()["nodes"]}
        assert nodes == {"Scope": ["artifacts", "cancel"], "Plain": [], "App": ["artifacts"]}
