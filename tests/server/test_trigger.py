"""A prompt for a peer, from one gateway through another to its agent and back, with files either way."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui.core import BaseEvent
from support.calls import error_of
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.raw_server import CHUNKED_HEAD, STREAM_HEAD, RawServer, chunk, playing_suzent, whole
from support.running import sync, until
from support.turns import Gate, Reader, Scripted, echo, kinds, register, say, text_of
from support.two import Link, control, get, peers, post

from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.sse import EventReader

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 100
Pair = Callable[[], Awaitable[Link]]


@pytest.fixture
def pair(make_gateway: Callable[..., ThreadedGateway]) -> Pair:
    """Two gateways, of which one drives the other."""
    limits = {"heartbeat": 0.2, "attachment_bytes": 1 << 20}
    return lambda: control(make_gateway(limits=limits), make_gateway(limits=limits, account="bob"))


def prompted(link: Link, http: httpx.AsyncClient, prompt: str = "hello there", **options: Any) -> Reader:
    headers = options.pop("headers", {})
    return Reader(http, f"/nodes/peers/{link.peer_id}/trigger", {"prompt": prompt, **options}, headers=headers)


async def answer_of(gateway: ThreadedGateway, peer_id: str, **options: Any) -> list[dict[str, Any]]:
    """Return all events of a turn, with or without ids."""
    async with gateway.http() as http, asyncio.timeout(20):
        answer = await http.post(f"/nodes/peers/{peer_id}/trigger", json={"prompt": "hi", **options})
    assert answer.status_code == 200, answer.text
    assert answer.content.isascii()
    reader = EventReader()
    return [event.data for event in [*reader.feed(answer.content), *reader.close()]]


async def refused(gateway: ThreadedGateway, path: str, body: Any, **options: Any) -> tuple[int, str]:
    async with gateway.http() as http:
        return error_of(await http.post(path, json=body, **options))


@sync
async def test_words_come_through_as_they_are_said(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    agent = register(link.target, gate)
    async with link.controller.http() as http, prompted(link, http, chat_id="notes") as reader:
        assert reader.response.headers["content-type"] == "text/event-stream"
        assert (await reader.next("TEXT_MESSAGE_CONTENT"))["delta"] == "begun"
        gate.open()
        rest = await reader.rest()
    assert kinds(rest) == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    [turn] = agent.turns
    assert (turn.message, turn.caller.kind, turn.caller.device_id) == ("hello there", "peer", link.device_id)
    assert turn.conversation_id == f"suzent:{link.device_id}:notes"
    run_id = rest[-1]["runId"]
    assert reader.ids == [f"{run_id}:{seq}" for seq in range(6)]


@sync
async def test_silence_is_filled_with_comments(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    register(link.target, gate)
    async with link.controller.http() as http, prompted(link, http) as reader:
        waiting = asyncio.ensure_future(reader.rest())
        await until(lambda: reader.comments >= 5)  # more than four heartbeats: the peer's own keep it alive
        gate.open()
        assert kinds(await waiting)[-1] == "RUN_FINISHED"


@sync
async def test_a_turn_goes_on_without_its_reader_and_can_be_read_on(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    agent = register(link.target, gate)
    async with link.controller.http() as http:
        async with prompted(link, http) as reader:
            await reader.next("TEXT_MESSAGE_CONTENT")
        await asyncio.sleep(0)
        assert gate.cancelled == 0
        async with prompted(link, http, headers={"Last-Event-ID": reader.ids[-1]}) as again:
            gate.open()
            assert text_of(await again.rest()) == " through"
    assert len(agent.turns) == 1
    path, body = f"/nodes/peers/{link.peer_id}/trigger", {"prompt": "x"}
    odd = await refused(link.controller, path, body, headers={"Last-Event-ID": "x" * 200})
    assert odd == (422, "invalid_request")
    async with link.controller.http() as http:
        gone = await http.post(path, json=body, headers={"Last-Event-ID": "nosuchrun:1"})
    assert (gone.status_code, '"code":"run_unknown"' in gone.text) == (200, True)
    assert len(agent.turns) == 1


@sync
async def test_a_turn_is_stopped_over_there(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    register(link.target, gate)
    stop = f"/nodes/peers/{link.peer_id}/stop"
    assert await refused(link.controller, stop, {}) == (409, "nothing_running")
    async with link.controller.http() as http:
        for options in ({}, {"chat_id": "notes"}):
            async with prompted(link, http, **options) as reader:
                await reader.next("TEXT_MESSAGE_CONTENT")
                stopped = await post(link.controller, stop, options)
                assert stopped["stopped"]
                assert (await reader.rest())[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    await until(lambda: gate.cancelled == 2)


@sync
async def test_what_is_wrong_with_a_prompt_is_said_before_the_stream(pair: Pair, tmp_path: Path) -> None:
    link = await pair()
    agent = register(link.target, echo)
    ours, path = link.controller, f"/nodes/peers/{link.peer_id}/trigger"
    small, large = tmp_path / "a.txt", tmp_path / "large.bin"
    small.write_text("x")
    large.write_bytes(b"x" * 700_000)
    assert await refused(ours, "/nodes/peers/nobody/trigger", {"prompt": "x"}) == (404, "peer_unknown")
    assert await refused(ours, path, {"prompt": " "}) == (422, "invalid_request")
    assert await refused(ours, path, {"prompt": "x" * 200_001}) == (422, "invalid_request")
    assert await refused(ours, path, {}) == (422, "invalid_request")
    for files in (
        [str(tmp_path / "none.txt")], ["a.txt"], [str(tmp_path)], ["/dev/zero"], ["\0"], ["~nobody-here/x"],
        [str(small)] * 9, [str(large)] * 2,
    ):  # fmt: skip
        body = {"prompt": "x", "attachments": [{"path": file} for file in files]}
        assert await refused(ours, path, body) == (400, "attachment_refused"), files
    for mode in ("paused", "off"):
        await post(ours, f"/nodes/peers/{link.peer_id}/mode", {"mode": mode})
        assert await refused(ours, path, {"prompt": "x"}) == (409, "peer_off")
        assert await refused(ours, f"/nodes/peers/{link.peer_id}/stop", {}) == (409, "peer_off")
    assert agent.turns == []
    assert len(ours.service.gateway.peer_files) == 0


@sync
async def test_files_go_along_and_are_gone_afterwards(pair: Pair, tmp_path: Path) -> None:
    link = await pair()
    read: list[bytes] = []

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        read.extend(attachment.path.read_bytes() for attachment in turn.attachments)
        for event in say("read"):
            yield event

    agent = Scripted(script)
    link.target.call(link.target.service.gateway.agents.register, "bob", agent)
    file = tmp_path / "data é.csv"
    file.write_text("a,b\n1,2\n")
    sent = [{"path": str(file)}, {"path": str(file), "name": "../other.html", "media_type": "text/html"}]
    events = await answer_of(link.controller, link.peer_id, attachments=sent)
    assert kinds(events)[-1] == "RUN_FINISHED", events
    assert read == [file.read_bytes()] * 2
    attached = agent.turns[0].attachments
    assert [(each.name, each.media_type) for each in attached] == [
        ("data é.csv", "text/csv"),
        ("other.html", "application/octet-stream"),
    ]
    assert len(link.controller.service.gateway.peer_files) == 0
    await until(lambda: not any(each.path.parent.exists() for each in attached))
    audit = (await get(link.controller, "/audit"))["entries"]
    shown = {row["action"]: row for row in audit}
    assert shown["peer.trigger"]["outcome"] == "ok"
    assert shown["peer.trigger"]["detail"] == {"peer_id": link.peer_id, "files": [each.name for each in attached]}
    assert [row["actor"] for row in audit if row["action"] == "file.serve"] == ["transfer"] * 2


@sync
async def test_what_the_peer_refuses_is_the_end_of_the_stream(pair: Pair) -> None:
    link = await pair()
    [error] = [event for event in await answer_of(link.controller, link.peer_id) if event["type"] == "RUN_ERROR"]
    assert error["code"] == "no_agent"
    async with link.target.http() as http:
        await http.post(f"/nodes/devices/{link.device_id}/revoke")
    [error] = await answer_of(link.controller, link.peer_id)
    assert (error["type"], error["code"]) == ("RUN_ERROR", "peer_revoked")
    assert "`%suzent control Lab`" in error["hint"]
    assert (await peers(link.controller, refresh=False))[0]["outbound_status"] == "revoked"


@sync
async def test_a_turn_whose_grant_is_revoked_ends(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    register(link.target, gate)
    async with link.controller.http() as http, prompted(link, http) as reader, link.target.http() as there:
        await reader.next("TEXT_MESSAGE_CONTENT")
        await there.post(f"/nodes/devices/{link.device_id}/revoke")
        last = (await reader.rest())[-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "revoked")


@sync
async def test_a_turn_whose_peer_is_removed_here_ends(pair: Pair) -> None:
    link = await pair()
    gate = Gate(link.target)
    register(link.target, gate)
    async with link.controller.http() as http, asyncio.timeout(10):
        asking = asyncio.create_task(answer_of(link.controller, link.peer_id))
        await until(lambda: gate.running == 1)
        await post(link.controller, f"/nodes/peers/{link.peer_id}/remove")
        last = (await asking)[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "revoked")
        audit = (await http.get("/audit")).json()["entries"]
    assert [row["outcome"] for row in audit if row["action"] == "peer.trigger"] == ["revoked"]
    assert gate.running == 1  # it goes on over there, as without its reader


@sync
async def test_a_busy_peer_is_said_to_be_busy(make_gateway: Callable[..., ThreadedGateway]) -> None:
    link = await control(make_gateway(), make_gateway(limits={"runs_in_flight": 1}))
    gate = Gate(link.target)
    register(link.target, gate)
    async with link.controller.http() as http, prompted(link, http) as reader:
        await reader.next("TEXT_MESSAGE_CONTENT")
        [error] = await answer_of(link.controller, link.peer_id, chat_id="another")
    assert error["code"] == "too_many_turns" and error["message"].startswith("Lab says:")


# -- peers of other kinds --


async def played(ours: ThreadedGateway, server: RawServer) -> str:
    """Take a played gateway as a peer; returns its id."""
    asked = await post(ours, "/nodes/control", {"base_url": server.url})
    async with ours.http() as http, asyncio.timeout(10):
        while True:
            query = {"request_id": asked["request_id"], "base_url": server.url}
            status = (await http.get("/nodes/control-status", params=query)).json()
            if status["status"] == "approved":
                return str(status["peer_id"])
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([whole("200 OK", b"<html>", "text/html")], "bad_peer_answer"),
        ([whole("307 Go", b"", more="Location: http://localhost:1/\r\n")], "bad_peer_answer"),
        ([STREAM_HEAD, b"data: " + b"x" * (1 << 20) + b"xx"], "bad_peer_answer"),
        ([CHUNKED_HEAD, chunk(b'data: {"type":"RUN_STARTED"}\n')], "peer_unreachable"),
        ([], "peer_unreachable"),
        ([None], "peer_unreachable"),
        ([STREAM_HEAD, None], "peer_unreachable"),
    ],
)
def test_hostile_peers_end_the_stream_with_an_error(
    make_gateway: Callable[..., ThreadedGateway], parts: list[bytes | None], code: str
) -> None:
    async def inbound(head: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            if part is None:
                await asyncio.sleep(60)
            else:
                writer.write(part)

    async def work() -> list[dict[str, Any]]:
        ours = make_gateway(limits={"peer_timeout": 1.0, "heartbeat": 0.1, "run_ttl": 2.0})
        async with RawServer(playing_suzent(inbound)) as server:
            return await answer_of(ours, await played(ours, server))

    events = asyncio.run(work())
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", code)


@sync
async def test_a_suzent_server_without_blank_lines_or_an_end(gateway: ThreadedGateway, tmp_path: Path) -> None:
    text = b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a\xe2\x80\xa8b"}\n'
    bodies: list[dict[str, Any]] = []

    async def inbound(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED_HEAD + chunk(text + b"data: [DONE]\n") + b"0\r\n\r\n")

    file = tmp_path / "a.txt"
    file.write_text("x")
    async with RawServer(playing_suzent(inbound)) as server:
        peer_id = await played(gateway, server)
        events = await answer_of(gateway, peer_id, chat_id="c", attachments=[{"path": str(file)}])
        bodies += [json.loads(body) for head, body in server.requests if b"/inbound " in head]
    assert kinds(events) == ["TEXT_MESSAGE_CONTENT", "RUN_FINISHED"]
    assert events[0]["delta"] == "a\u2028b"
    [body] = bodies
    [attachment] = body.pop("attachments")
    assert body == {"content": "hi", "chat_id": "c"}
    assert attachment["url"] == f"{gateway.url}/nodes/peer-files/{attachment['id']}"
    assert sorted(attachment) == ["expires_at", "id", "media_type", "name", "size", "token", "url"]
    assert (attachment["name"], attachment["media_type"], attachment["size"]) == ("a.txt", "text/plain", 1)


# -- files of a peer --


@sync
async def test_a_photo_of_a_peers_camera_is_fetched_through_us(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    link = await pair()
    photo = tmp_path / "snap é.png"

    def take(command: str, params: dict[str, Any]) -> dict[str, Any]:
        photo.write_bytes(PNG)
        return {"file": str(photo), "format": "png"}

    async with BareDevice(link.target.node_url, "Camera", [{"name": "camera.snap"}]) as device:
        await link.target.pair(device)
        device.answer(take)
        answer = await post(link.controller, f"/nodes/peers/{link.peer_id}/invoke", {"command": "camera.snap"})
    file = answer["result"]["file"]
    assert file["url"] == f"/nodes/peers/{link.peer_id}/files/{file['id']}"
    async with link.controller.http() as http:
        fetched = await http.get(file["url"])
        assert (fetched.status_code, fetched.content) == (200, PNG)
        assert fetched.headers["content-type"] == "image/png"
        assert fetched.headers["content-disposition"].endswith("filename*=UTF-8''snap%20%C3%A9.png")
        for wrong in ("pf_none", "..%2f..%2fdevices", "%2e%2e"):
            answer = await http.get(f"/nodes/peers/{link.peer_id}/files/{wrong}")
            assert error_of(answer) == (404, "file_unknown")
    async with link.controller.http(headers={}) as stranger:
        assert (await stranger.get(file["url"])).status_code == 401


FILES: dict[str, tuple[bytes, int, str]] = {
    "revoked": (whole("401 No", b"{}"), 502, "peer_revoked"),
    "a redirect": (whole("302 Found", b"", more="Location: http://localhost:1/\r\n"), 502, "bad_peer_answer"),
    "too large": (whole("200 OK", b"x").replace(b"Length: 1", b"Length: 999999999"), 413, "too_large"),
    "an error page": (whole("500 No", b"<html>", "text/html"), 502, "bad_peer_answer"),
    "nothing": (b"", 502, "peer_unreachable"),
}


@pytest.mark.parametrize(("said", "status", "code"), FILES.values(), ids=FILES)
def test_a_peer_that_gives_no_file(gateway: ThreadedGateway, said: bytes, status: int, code: str) -> None:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)

    async def work() -> tuple[int, str]:
        async with RawServer(playing_suzent(serve)) as server, gateway.http() as http:
            answer = await http.get(f"/nodes/peers/{await played(gateway, server)}/files/pf_1")
            return error_of(answer)

    assert asyncio.run(work()) == (status, code)


@sync
async def test_a_peers_file_is_passed_on_as_harmless_bytes(gateway: ThreadedGateway) -> None:
    evil = 'Content-Disposition: inline; filename="../../x\x7f.html"\r\nSet-Cookie: a=b\r\nX-Evil: 1\r\n'
    answers = [
        whole("200 OK", b"<script>", "text/html; charset=utf-8", evil),
        whole("200 OK", b"abcdef")[:-3],
        CHUNKED_HEAD + chunk(b"abc") + b"0\r\n\r\n",
        CHUNKED_HEAD + chunk(b"abc"),
    ]

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    async with RawServer(playing_suzent(serve)) as server, gateway.http() as http:
        url = f"/nodes/peers/{await played(gateway, server)}/files/pf_1"
        first = await http.get(url)
        assert first.content == b"<script>"
        assert first.headers["content-type"] == "application/octet-stream"
        assert first.headers["content-disposition"] == "attachment; filename=\"x.html\"; filename*=UTF-8''x.html"
        assert not {"set-cookie", "x-evil"} & set(first.headers)
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(url)
        assert (await http.get(url)).content == b"abc"
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(url)
