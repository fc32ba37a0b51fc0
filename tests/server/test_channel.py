"""Turns over real sockets: who may ask, what the stream looks like, and that reading it is a turn's least concern."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ag_ui.core import BaseEvent, CustomEvent, TextMessageContentEvent
from support.calls import error_of
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync, until
from support.turns import Gate, Reader, ask, echo, kinds, register, say, text_of

from suzent_jupyter.protocol.agents import Turn

INBOUND = "/channels/suzent/inbound"


@sync
async def test_a_turn_is_streamed_and_kept(gateway: ThreadedGateway) -> None:
    agent = register(gateway, echo)
    device_id, peer = await grant(gateway, "Lab PC")
    async with gateway.http() as http:
        async with Reader(http, INBOUND, {"content": " hello there ", "from_id": "somebody"}, headers=peer) as reader:
            assert reader.response.headers["Content-Type"] == "text/event-stream"
            assert reader.response.headers["X-Accel-Buffering"] == "no"
            events = await reader.rest()
        conversation = f"suzent:{device_id}"
        assert kinds(events) == [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        run_id = events[0]["runId"]
        assert events[0] == {"type": "RUN_STARTED", "threadId": conversation, "runId": run_id}
        assert events[2] == {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hello"}
        assert reader.ids == [f"{run_id}:{seq}" for seq in range(6)]

        session = (await http.get("/channels/suzent/session", headers=peer)).json()
        assert (session["agent_id"], session["status"], session["message_count"]) == (conversation, "idle", 2)
        assert [(each["role"], each["content"]) for each in session["messages"]] == [
            ("user", "hello there"),
            ("assistant", "hellothere"),
        ]
        assert (session["omitted_message_count"], session["transcript_truncated"]) == (0, False)

        [listed] = (await http.get("/conversations")).json()["conversations"]
        assert (listed["title"], listed["folder"], listed["device_id"]) == ("⇄ Lab PC", "Social", device_id)
        whole = (await http.get(f"/conversations/{conversation}")).json()
        assert [each["outcome"] for each in whole["messages"]] == ["", "done"]
        assert whole["messages"][0]["detail"]["caller"]["device_id"] == device_id

    [turn] = agent.turns
    assert (turn.caller.kind, turn.caller.name, turn.unattended) == ("peer", "Lab PC", True)
    assert turn.may_use_asking_tools is False
    assert '"Lab PC"' in turn.note


@sync
async def test_terms_of_the_grant_reach_the_agent(gateway: ThreadedGateway) -> None:
    agent = register(gateway, echo)
    _, ticked = await grant(gateway, unattended_tools=True, commands=["camera.*"])
    _, devices_only = await grant(gateway, covers="devices")
    async with gateway.http() as http:
        await ask(http, INBOUND, {"content": "x"}, headers=ticked)
        await ask(http, "/chat", {"message": "I am the user"})
        for path, body in ((INBOUND, {"content": "x"}), ("/chat", {"message": "x"})):
            assert error_of(await http.post(path, json=body, headers=devices_only)) == (403, "not_granted")
        assert error_of(await http.get("/channels/suzent/session", headers=devices_only)) == (403, "not_granted")
        assert error_of(await http.post("/channels/suzent/stop", headers=devices_only)) == (403, "not_granted")
    assert [turn.may_use_asking_tools for turn in agent.turns] == [True, True]
    assert "camera.*" in agent.turns[0].note
    assert (agent.turns[1].caller.kind, agent.turns[1].unattended, agent.turns[1].note) == ("user", False, "")


@sync
async def test_a_peer_stays_in_its_own_namespace(gateway: ThreadedGateway) -> None:
    register(gateway, echo)
    mine, peer = await grant(gateway)
    others, _ = await grant(gateway, "Other")
    own = f"suzent:{mine}"
    async with gateway.http() as http:

        async def thread(path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
            async with Reader(http, path, body, headers=headers) as reader:
                if reader.response.status_code != 200:
                    return error_of(reader.response)
                return (await reader.rest())[0]["threadId"]

        for path, field in ((INBOUND, "content"), ("/chat", "message")):
            for chat_id, wanted in (
                (None, own),
                ("", own),
                (own, own),
                ("notes", f"{own}:notes"),
                (f"{own}:notes", f"{own}:notes"),
            ):
                assert await thread(path, {field: "x", "chat_id": chat_id}, peer) == wanted
            for foreign in (
                f"suzent:{others}",
                f"{own}:",
                f"{own}:a:b",
                f"{own}x",
                "chat:1",
                "a b",
                "x" * 65,
                "ü",
                ".",
            ):
                assert await thread(path, {field: "x", "chat_id": foreign}, peer) == (403, "foreign_conversation")
        assert (await thread("/chat", {"message": "x"})).startswith("chat:")
        assert await thread("/chat", {"message": "x", "chat_id": own}) == own
        assert await thread("/chat", {"message": "x", "chat_id": "a b"}) == (422, "invalid_request")
        assert await thread(INBOUND, {"content": "x", "chat_id": "chat:me"}) == "chat:me"

        for body in ({}, {"content": "  "}, {"content": 5}, {"content": "x" * 200_001}, {"content": "x", "chat_id": 5}):
            assert error_of(await http.post(INBOUND, json=body, headers=peer)) == (422, "invalid_request"), body
        assert error_of(await http.get("/conversations", headers=peer)) == (403, "forbidden")
        assert error_of(await http.get("/conversations/none")) == (404, "conversation_unknown")


@sync
async def test_nobody_without_a_token(gateway: ThreadedGateway) -> None:
    register(gateway, echo)
    async with gateway.http(headers={}) as http:
        answer = await http.post(INBOUND, json={"content": "x", "from_id": "x"})
        assert error_of(answer) == (401, "unauthorized")
    async with gateway.http() as http:
        assert (await http.get("/conversations")).json() == {"conversations": [], "count": 0}


HARD = 'line\u2028sep \u0085 \x00 emoji \U0001f600 "quoted" data: x\n\nid: 1\r\n'


@sync
async def test_any_text_comes_through_as_one_line(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        for event in say(HARD, "half \ud83d", "\ude00 lone \udfff"):
            yield event
        yield CustomEvent(name="odd", value={"\u2028": float("nan"), "none": None, "s": "\ud800"})
        yield CustomEvent(name="null", value=None)

    register(gateway, script)
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": HARD, "chat_id": "c"})
        assert text_of(events) == HARD + "half \ufffd" + "\ufffd lone \ufffd"
        odd, null = (event for event in events if event["type"] == "CUSTOM")
        assert odd["value"] == {"\u2028": None, "none": None, "s": "\ufffd"}
        assert null["value"] is None
        assert kinds(events)[-1] == "RUN_FINISHED"
        kept = (await http.get("/conversations/c")).json()["messages"]
    assert kept[0]["content"] == HARD.strip()
    assert kept[1]["content"] == HARD + "half \U0001f600 lone \ufffd"  # kept as a whole, the pair is one again


@sync
async def test_ten_thousand_events_and_a_reader_that_stops(gateway: ThreadedGateway) -> None:
    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        for event in say(*(f"{number} " for number in range(10_000))):
            yield event

    register(gateway, script)
    async with gateway.http() as http:
        body = json.dumps({"message": "x", "chat_id": "c"}).encode()
        with socket.socket() as stuck:  # asks, and then never reads
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", gateway.service.port))
            head = f"POST /chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token}\r\n"
            stuck.sendall(head.encode() + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

            async def answered() -> list[Any]:
                answer = await http.get("/conversations/c")
                return answer.json().get("messages", [])[1:]

            async with asyncio.timeout(20):
                while not (answers := await answered()):
                    pass
            assert answers[0]["content"].endswith(" 9999 ")
            run_id = answers[0]["run_id"]
            # Another reader has it all meanwhile.
            events = await ask(http, "/chat", {}, headers={**gateway.headers, "Last-Event-ID": f"{run_id}:0"})
            assert len(events) == 10_000 + 3
            assert text_of(events) == answers[0]["content"]


@sync
async def test_resume_at_every_position_and_by_nobody_else(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway()
    gate = Gate(gateway)
    agent = register(gateway, gate)
    _, peer = await grant(gateway)
    _, other = await grant(gateway, "Other")
    async with gateway.http() as http:
        async with Reader(http, INBOUND, {"content": "x"}, headers=peer) as reader:
            run_id = (await reader.next("RUN_STARTED"))["runId"]
            await reader.next("TEXT_MESSAGE_CONTENT")
        # The reader hung up; the turn goes on. A second one follows while it runs.
        async with Reader(http, INBOUND, {}, headers={**peer, "Last-Event-ID": f"{run_id}:1"}) as second:
            assert (await second.next())["delta"] == "begun"
            gate.open()
            await second.rest()
        whole = await ask(http, INBOUND, {"content": "not again"}, headers={**peer, "Last-Event-ID": f"{run_id}:0"})
        assert text_of(whole) == "begun through"
        assert gate.cancelled == 0
        for seq in range(len(whole) + 1):
            for path in (INBOUND, "/chat"):
                headers = {**peer, "Last-Event-ID": f"{run_id}:{seq}"}
                assert await ask(http, path, {"content": "again"}, headers=headers) == whole[seq:]
        assert await ask(http, "/chat", {}, headers={**gateway.headers, "Last-Event-ID": f"{run_id}:0"}) == whole

        async def refused(headers: dict[str, str], last: str) -> tuple[int, str]:
            return error_of(await http.post(INBOUND, json={"content": "x"}, headers={**headers, "Last-Event-ID": last}))

        assert await refused(other, f"{run_id}:0") == (410, "run_unknown")
        assert await refused(peer, "ffff:0") == (410, "run_unknown")
        for bad in (run_id, "", ":", f"{run_id}:-1", f"{run_id}:x", f"{run_id}:99", f"{run_id}:1:2"):
            assert await refused(peer, bad) == (422, "invalid_request")
        assert len(agent.turns) == 1


@sync
async def test_a_finished_turn_is_forgotten(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_kept": 0.05})
    register(gateway, echo)
    async with gateway.http() as http:
        [first, *_] = await ask(http, "/chat", {"message": "x"})
        runs = gateway.service.gateway.runs
        await until(lambda: not runs.snapshot(gateway.service.kernel_token._principal))
        headers = {**gateway.headers, "Last-Event-ID": f"{first['runId']}:0"}
        assert error_of(await http.post("/chat", headers=headers)) == (410, "run_unknown")


@sync
async def test_two_readers_see_the_same(gateway: ThreadedGateway) -> None:
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http, Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as one:
        started = await one.next()
        assert error_of(await http.post("/chat", json={"message": "y", "chat_id": "c"})) == (409, "conversation_busy")
        headers = {**gateway.headers, "Last-Event-ID": f"{started['runId']}:0"}
        async with Reader(http, "/chat", {}, headers=headers) as two:
            assert (await http.get("/conversations/c")).json()["status"] == "active"
            gate.open()
            assert await one.rest() == await two.rest()


@sync
async def test_heartbeats_and_guards_of_connections(make_gateway: Callable[..., ThreadedGateway]) -> None:
    short = {"heartbeat": 0.05, "request_timeout": 0.3, "body_timeout": 0.3, "idle_timeout": 0.3, "late_timeout": 0.3}
    gateway = make_gateway(limits=short)
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http, Reader(http, "/chat", {"message": "x"}) as reader:
        await reader.next("TEXT_MESSAGE_CONTENT")
        rest = asyncio.create_task(reader.rest())
        await until(lambda: reader.comments >= 20)  # a second: longer than every guard
        gate.open()
        assert kinds(await rest)[-1] == "RUN_FINISHED"


@sync
async def test_stop(gateway: ThreadedGateway) -> None:
    gate = Gate(gateway)
    register(gateway, gate)
    device_id, peer = await grant(gateway)
    _, other = await grant(gateway, "Other")
    conversation = f"suzent:{device_id}"
    async with gateway.http() as http:
        assert error_of(await http.post("/channels/suzent/stop", headers=peer)) == (409, "nothing_running")
        async with Reader(http, INBOUND, {"content": "x"}, headers=peer) as reader:
            await reader.next("TEXT_MESSAGE_CONTENT")
            assert error_of(await http.post("/channels/suzent/stop", headers=other)) == (409, "nothing_running")
            foreign = await http.post("/chat/stop", json={"chat_id": conversation}, headers=other)
            assert error_of(foreign) == (403, "foreign_conversation")
            assert error_of(await http.post("/chat/stop", json={})) == (422, "invalid_request")
            stopped = await http.post("/channels/suzent/stop", headers=peer)
            assert stopped.json() == {"stopped": True, "agent_id": conversation}
            assert gate.cancelled == 1
            *_, end, last = await reader.rest()
            assert end == {"type": "TEXT_MESSAGE_END", "messageId": "m"}
            assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
        answer = (await http.get(f"/conversations/{conversation}")).json()["messages"][-1]
        assert (answer["content"], answer["outcome"]) == ("begun", "stopped")
        async with Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as reader:
            await reader.next("TEXT_MESSAGE_CONTENT")
            assert (await http.post("/chat/stop", json={"chat_id": "c"})).json()["agent_id"] == "c"
            assert kinds(await reader.rest())[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("how", ["revoke", "pause"])
@sync
async def test_a_grant_that_ends_takes_its_turns_along(gateway: ThreadedGateway, how: str) -> None:
    gate = Gate(gateway)
    register(gateway, gate)
    device_id, peer = await grant(gateway)
    async with gateway.http() as http:
        asked = Reader(http, INBOUND, {"content": "x"}, headers=peer)
        async with asked as reader, Reader(http, "/chat", {"message": "x"}) as unharmed:
            await reader.next("TEXT_MESSAGE_CONTENT")
            await unharmed.next("TEXT_MESSAGE_CONTENT")
            if how == "revoke":
                await http.post(f"/nodes/devices/{device_id}/revoke")
            else:
                await http.post(f"/nodes/devices/{device_id}/status", json={"status": "paused"})
            last = (await reader.rest())[-1]
            assert (last["type"], last["code"]) == ("RUN_ERROR", "revoked")
            await until(lambda: gate.running == 1)
            kept = (await http.get(f"/conversations/suzent:{device_id}")).json()
            assert (kept["messages"][-1]["content"], kept["messages"][-1]["outcome"]) == ("begun", "revoked")
            gate.open()
            assert kinds(await unharmed.rest())[-1] == "RUN_FINISHED"


@sync
async def test_a_new_grant_inherits_no_conversation(gateway: ThreadedGateway) -> None:
    agent = register(gateway, echo)
    first, peer = await grant(gateway, identity="same")
    async with gateway.http() as http:
        await ask(http, INBOUND, {"content": "secret"}, headers=peer)
        await http.post(f"/nodes/devices/{first}/revoke")
        second, again = await grant(gateway, identity="same")
        assert second != first
        session = (await http.get("/channels/suzent/session", headers=again)).json()
        assert (session["messages"], session["message_count"]) == ([], 0)
        foreign = {"content": "x", "chat_id": f"suzent:{first}"}
        assert error_of(await http.post(INBOUND, json=foreign, headers=again)) == (403, "foreign_conversation")
        await ask(http, INBOUND, {"content": "x"}, headers=again)
    assert agent.turns[-1].history == []


@sync
async def test_no_agent_says_how_to_get_one(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        started, error = await ask(http, "/chat", {"message": "x", "chat_id": "c"})
        assert (started["type"], error["type"], error["code"]) == ("RUN_STARTED", "RUN_ERROR", "no_agent")
        assert "agent_model" in error["message"]
        assert "@sz.agent" in error["message"]
        kept = (await http.get("/conversations/c")).json()["messages"]
        assert [(each["content"], each["outcome"]) for each in kept] == [("x", ""), ("", "no_agent")]


@sync
async def test_the_end_of_the_gateway_ends_turns(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway()
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http, Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as reader:
        await reader.next("TEXT_MESSAGE_CONTENT")
        stopping = asyncio.create_task(asyncio.to_thread(gateway.stop))
        last = (await reader.rest())[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "stopping")
        async with asyncio.timeout(3):
            await stopping
    again = make_gateway(data_dir=gateway.config.data_dir)
    async with again.http() as http:
        answer = (await http.get("/conversations/c")).json()["messages"][-1]
        assert (answer["content"], answer["outcome"]) == ("begun", "stopping")


@sync
async def test_subscribers_follow_turns(gateway: ThreadedGateway) -> None:
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http, BareClient(gateway) as client:
        await client.send(type="subscribe", topics=["runs", "turns", "conversations"])
        for topic in ("runs", "turns", "conversations"):
            assert (await client.change(topic))["item"] == []
        async with Reader(http, "/chat", {"message": "x", "chat_id": "c"}) as reader:
            await reader.next("TEXT_MESSAGE_CONTENT")
            async with BareClient(gateway) as late:
                await late.send(type="subscribe", topics=["runs", "conversations"])
                [run] = (await late.change("runs", "snapshot"))["item"]
                assert (run["status"], run["agent"], run["events"]) == ("running", "scripted", 3)
                [conversation] = (await late.change("conversations", "snapshot"))["item"]
                assert (conversation["conversation_id"], conversation["status"]) == ("c", "active")
            gate.open()
            read = await reader.rest()
        changes: list[dict[str, Any]] = []
        while True:
            change = await client.recv("change")
            changes.append(change)
            if change["topic"] == "conversations" and change["item"]["status"] == "idle":
                break
        events = [each["item"] for each in changes if each["topic"] == "turns"]
        assert [each["seq"] for each in events] == list(range(len(events)))
        assert [each["event"] for each in events][3:] == read
        runs = [each["item"] for each in changes if each["topic"] == "runs"]
        assert [each["status"] for each in runs] == ["running", "running", "done"]


@sync
async def test_so_many_at_once(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"runs_in_flight": 2})
    gate = Gate(gateway)
    register(gateway, gate)
    async with gateway.http() as http:
        async with Reader(http, "/chat", {"message": "x"}) as one, Reader(http, "/chat", {"message": "x"}) as two:
            await one.next()
            await two.next()
            refused = await http.post("/chat", json={"message": "x"})
            assert error_of(refused) == (429, "too_many_turns")
            assert refused.headers["Retry-After"]
            gate.open()
            await one.rest()
            await two.rest()
        assert kinds(await ask(http, "/chat", {"message": "x"}))[-1] == "RUN_FINISHED"


@sync
async def test_history_is_what_went_before(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"history_messages": 3, "transcript_messages": 3})
    agent = register(gateway, echo)
    _, peer = await grant(gateway)
    async with gateway.http() as http:
        for word in ("one", "two", "three"):
            await ask(http, INBOUND, {"content": word}, headers=peer)
        session = (await http.get("/channels/suzent/session", headers=peer)).json()
        assert [each["content"] for each in session["messages"]] == ["two", "three", "three"]
        assert (session["message_count"], session["omitted_message_count"], session["transcript_truncated"]) == (
            6,
            3,
            True,
        )
    history = [(each.role, each.content) for each in agent.turns[-1].history]
    assert history == [("assistant", "one"), ("user", "two"), ("assistant", "two")]


@sync
async def test_chunks_become_messages(gateway: ThreadedGateway) -> None:
    from ag_ui.core import TextMessageChunkEvent

    async def script(turn: Turn) -> AsyncIterator[BaseEvent]:
        yield TextMessageChunkEvent(message_id="a", delta="one ")
        yield TextMessageChunkEvent(delta="two")
        yield TextMessageChunkEvent(message_id="b", delta="three")
        yield TextMessageContentEvent(message_id="c", delta="four")

    register(gateway, script)
    async with gateway.http() as http:
        events = (await ask(http, "/chat", {"message": "x", "chat_id": "c"}))[1:-1]
        assert [(each["type"].removeprefix("TEXT_MESSAGE_"), each["messageId"]) for each in events] == [
            ("START", "a"),
            ("CONTENT", "a"),
            ("CONTENT", "a"),
            ("END", "a"),
            ("START", "b"),
            ("CONTENT", "b"),
            ("END", "b"),
            ("START", "c"),
            ("CONTENT", "c"),
            ("END", "c"),
        ]
        answer = (await http.get("/conversations/c")).json()["messages"][-1]["content"]
        assert answer == "one two\n\nthree\n\nfour"
