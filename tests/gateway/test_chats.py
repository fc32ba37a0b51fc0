"""Chats over real sockets: who answers, who watches, who may stop, and what happens when somebody goes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from support.chats import Person, begin, code, read, text_of
from support.client import BareClient
from support.executing import Worker, hang, hello
from support.gateways import ThreadedGateway
from support.running import sync, until


@sync
async def test_a_chat_is_answered_kept_and_gone_on_with(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A", hello) as node, BareClient(gateway) as client, gateway.http() as http:
        accepted = await begin(client, 7)
        assert (accepted["id"], accepted["node_id"], accepted["node_name"]) == (7, node.node_id, "A")
        assert accepted["tier"] == "recent" and accepted["routing"]["choice"]["reason"] == "the only node there is"
        assert text_of(await read(client, accepted["run_id"])) == "A answers hi"
        again = await begin(client, message="more", session_id=accepted["session_id"], target_node_id="A")
        assert again["tier"] == "manual" and again["session_id"] == accepted["session_id"]
        await read(client, again["run_id"])
        kept = (await http.get(f"/conversations/{accepted['session_id']}")).json()
        assert [each["content"] for each in kept["messages"]] == ["hi", "A answers hi", "more", "A answers more"]
        assert kept["messages"][2]["detail"]["routing"]["choice"]["tier"] == "manual"
        assert kept["target_node_id"] == node.node_id
        assert [each["content"] for each in node.runs[1]["turn"]["history"]] == ["hi", "A answers hi"]


@sync
async def test_watchers_on_several_sockets_and_from_any_event(gateway: ThreadedGateway) -> None:
    go = asyncio.Event()

    async def wait(node: Worker, run: dict[str, Any]) -> str:
        await go.wait()
        return "said"

    async with Worker(gateway, "A", wait), BareClient(gateway) as one, BareClient(gateway) as two:
        run_id = (await begin(one))["run_id"]
        await two.send(type="chat.watch", id="w", run_id=run_id)
        assert (await two.recv("chat.event"))["seq"] == 0
        await two.send(type="chat.unwatch", run_id=run_id)
        await two.send(type="chat.watch", id="w", run_id=run_id, seq=1)
        go.set()
        whole = await read(one, run_id)
        assert await read(two, run_id, 1) == whole[1:]
        await two.send(type="chat.watch", id="w", run_id=run_id, seq=2)
        assert await read(two, run_id, 2) == whole[2:]


@sync
async def test_what_is_refused_and_with_whose_id(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        assert await code(client, type="chat.send", message="hi") == "no_executor"
        assert await code(client, type="chat.send", message="hi", target_node_id="x") == "node_not_found"
        assert await code(client, type="chat.send", message=" ") == "invalid_request"
        assert await code(client, type="chat.send", message="hi", session_id="a b") == "invalid_request"
        assert await code(client, type="chat.watch", run_id="none") == "run_unknown"
        assert await code(client, type="chat.watch", run_id="none", seq=-1) == "invalid_request"
        assert await code(client, type="chat.abort", run_id="none") == "run_unknown"
        for files in ({}, [1], [{"name": "x"}], [{"base64": "A"}] * 9, "x"):
            expected = "no_executor" if files == {} else "attachment_refused"
            assert await code(client, type="chat.send", message="hi", attachments=files) == expected, files
        async with Worker(gateway, "A", hang):
            bad = [{"name": "x", "base64": "%%%"}]
            assert await code(client, type="chat.send", message="hi", attachments=bad) == "attachment_refused"
            accepted = await begin(client)
            busy = await code(client, type="chat.send", message="hi", session_id=accepted["session_id"])
            assert busy == "conversation_busy"


@sync
async def test_files_reach_the_node_and_are_cleared(gateway: ThreadedGateway) -> None:
    data = base64.b64encode(b"\x00\xffdata").decode()
    async with Worker(gateway, "A", hello) as node, BareClient(gateway) as client:
        file = {"name": "../x.bin", "media_type": "application/pdf", "base64": data}
        await read(client, (await begin(client, attachments=[file]))["run_id"])
        (came,) = node.runs[0]["attachments"]
        assert came["base64"] == data and "/" not in came["name"]
        folder = gateway.config.data_dir / "attachments"
        await until(lambda: not list(folder.iterdir()))


@sync
async def test_abort_by_another_socket_of_the_account(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A", hang) as node, BareClient(gateway) as one, BareClient(gateway) as two:
        run_id = (await begin(one))["run_id"]
        await until(lambda: node.runs)
        await two.send(type="chat.abort", run_id=run_id)
        assert (await read(one, run_id))[-1]["type"] == "RUN_FINISHED"
        await until(lambda: node.aborted == [run_id])


@sync
async def test_a_node_that_goes_ends_its_runs(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        async with Worker(gateway, "A", hang) as node:
            run_id = (await begin(client))["run_id"]
            await until(lambda: node.runs)
        assert (await read(client, run_id))[-1]["code"] == "node_disconnected"


@sync
async def test_a_run_expires(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"run_ttl": 0.3, "run_kept": 0.2})
    async with Worker(gateway, "A", hang), BareClient(gateway) as client:
        run_id = (await begin(client))["run_id"]
        assert (await read(client, run_id))[-1]["code"] == "run_expired"
        await until(lambda: run_id not in gateway.service.gateway.runs._runs)
        assert await code(client, type="chat.watch", run_id=run_id) == "run_unknown"


@sync
async def test_text_that_was_said_stays_when_the_node_goes(gateway: ThreadedGateway) -> None:
    async def some(node: Worker, frame: dict[str, Any]) -> str:
        own = {"type": "chat.event", "run_id": frame["run_id"]}
        for number in range(5):
            event = {"type": "TEXT_MESSAGE_CONTENT", "delta": f"{number} ", "messageId": "m"}
            await node.send({**own, "seq": number, "event": event})
        await asyncio.Event().wait()
        return ""

    async with BareClient(gateway) as client, gateway.http() as http:
        async with Worker(gateway, "A", some):
            accepted = await begin(client)
            while (await client.recv("chat.event"))["event"]["type"] != "TEXT_MESSAGE_CONTENT":
                pass
        while (event := (await client.recv("chat.event"))["event"])["type"] != "RUN_ERROR":
            pass
        assert event["code"] == "node_disconnected"
        kept = (await http.get(f"/conversations/{accepted['session_id']}")).json()["messages"][-1]
        assert kept["outcome"] == "node_disconnected" and "0 1 2 3 4 ".startswith(kept["content"])


@sync
async def test_a_stopping_gateway_tells_its_watchers(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway()
    async with Worker(gateway, "A", hang) as node, BareClient(gateway) as client:
        accepted = await begin(client)
        await until(lambda: node.runs)
        await asyncio.to_thread(gateway.stop)
        assert (await read(client, accepted["run_id"]))[-1]["code"] == "stopping"
    again = make_gateway(gateway.config.data_dir)
    async with BareClient(again) as client, again.http() as http:
        assert await code(client, type="chat.watch", run_id=accepted["run_id"]) == "run_unknown"
        kept = (await http.get(f"/conversations/{accepted['session_id']}")).json()
        assert kept["status"] == "idle" and kept["messages"][-1]["outcome"] == "stopping"


@sync
async def test_a_slow_socket_holds_up_nobody_and_takes_little_memory(gateway: ThreadedGateway) -> None:
    big = "x" * 400_000

    async def much(node: Worker, frame: dict[str, Any]) -> str:
        own = {"type": "chat.event", "run_id": frame["run_id"]}
        for seq in range(30):
            await node.send({**own, "seq": seq, "event": {"type": "CUSTOM", "name": "n", "value": big}})
        end = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
        await node.send({**own, "seq": 30, "event": end})
        await asyncio.Event().wait()
        return ""

    async with Worker(gateway, "A", much), BareClient(gateway) as one, BareClient(gateway, max_queue=1) as slow:
        accepted = await begin(slow)
        await one.send(type="chat.watch", id="w", run_id=accepted["run_id"])
        events = await read(one, accepted["run_id"])
        assert len(events) == 32
        links = [link for link in gateway.service.gateway._clients if hasattr(link, "_chats")]
        assert max(link._outbox.unsent for link in links) < 1_500_000
        assert await read(slow, accepted["run_id"]) == events


@sync
async def test_a_node_in_a_turn_asks_as_part_of_it(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"dispatch_depth": 1})

    async def asks(node: Worker, frame: dict[str, Any]) -> str:
        for number, target in enumerate(("A", "B")):
            send = {"type": "chat.send", "id": str(number), "message": "on", "target_node_id": target}
            await node.send(send)
        await until(lambda: sum(each["type"] == "error" for each in node.frames) == 2)
        return " ".join(each["code"] for each in node.frames if each["type"] == "error")

    async with Worker(gateway, "B", hello), Worker(gateway, "A", asks), BareClient(gateway) as client:
        run_id = (await begin(client, target_node_id="A"))["run_id"]
        assert text_of(await read(client, run_id)) == "dispatch_cycle dispatch_too_deep"


@sync
async def test_a_node_that_goes_in_a_tool_call_ends_its_run(gateway: ThreadedGateway) -> None:
    async def tool(node: Worker, frame: dict[str, Any]) -> str:
        event = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look"}
        await node.send({"type": "chat.event", "run_id": frame["run_id"], "seq": 0, "event": event})
        await asyncio.Event().wait()
        return ""

    async with BareClient(gateway) as client:
        async with Worker(gateway, "A", tool):
            await begin(client)
            while (await client.recv("chat.event"))["event"]["type"] != "TOOL_CALL_START":
                pass
        while (event := (await client.recv("chat.event"))["event"])["type"] != "RUN_ERROR":
            pass
        assert event["code"] == "node_disconnected"


@sync
async def test_finished_runs_are_bounded_by_count_and_keep_no_prompt(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("suzent_jupyter.gateway.answering.runs._KEPT_TURNS", 2)
    async with Worker(gateway, "A", hello), BareClient(gateway) as client:
        ids = []
        for _ in range(4):
            ids.append((await begin(client))["run_id"])
            await read(client, ids[-1])
        runs = gateway.service.gateway.runs._runs
        await until(lambda: list(runs) == ids[2:])
        assert all(run.prompt.text == "" and run.prompt.agent is None for run in runs.values())
        assert await code(client, type="chat.watch", run_id=ids[0]) == "run_unknown"


@sync
async def test_over_the_gateways_own_socket(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A", hello) as node, Person(gateway) as one, BareClient(gateway) as two:
        assert await code(one, type="chat.watch", run_id="none", id=3) == "run_unknown"
        accepted = await begin(one, 7, target_node_id="A")
        whole = await read(one, accepted["run_id"])
        assert (accepted["id"], accepted["tier"], text_of(whole)) == (7, "manual", "A answers hi")
        for other in (one, two):
            await other.send(type="chat.watch", id="w", run_id=accepted["run_id"], seq=2)
            assert await read(other, accepted["run_id"], 2) == whole[2:]
        node.work = hang
        later = (await begin(one, session_id=accepted["session_id"]))["run_id"]
        busy = await code(one, type="chat.send", message="hi", session_id=accepted["session_id"])
        assert busy == "conversation_busy"
        await one.send(type="chat.unwatch", run_id=later)
        await one.send(type="chat.abort", run_id=later)
        # Nothing of a turn that is watched no more comes before what is asked next is answered.
        assert await code(one, type="chat.watch", run_id="none", id="last") == "run_unknown"
        await one.send(type="chat.watch", id="w", run_id=later)
        assert (await read(one, later))[-1]["outcome"]["type"] == "cancelled"


@sync
async def test_another_node_takes_what_the_chosen_one_left(
    make_gateway: Callable[..., ThreadedGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = make_gateway()
    hub, here = gateway.service.gateway, asyncio.get_running_loop()
    choose = hub.chooser.choose
    leaving: list[Worker] = []

    async def choose_and_go(*arguments: Any, **named: Any) -> Any:
        decision = await choose(*arguments, **named)
        if leaving and decision.choice is not None and decision.choice.node_id == leaving[-1].node_id:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(leaving[-1].ws.close(), here))
            await until(lambda: hub.registry.by_id(leaving[-1].node_id) is None)
            leaving.pop()
        return decision

    monkeypatch.setattr(hub.chooser, "choose", choose_and_go)
    async with Worker(gateway, "A", hello), Worker(gateway, "B", hello) as b, BareClient(gateway) as client:
        leaving.append(b)
        accepted = await begin(client)
        assert not leaving
        assert (accepted["node_name"], accepted["routing"]["choice"]["node_id"]) == ("A", accepted["node_id"])
        assert text_of(await read(client, accepted["run_id"])) == "A answers hi"
        # One that was asked for by its name is not replaced.
        async with Worker(gateway, "C", hello) as c:
            leaving.append(c)
            assert await code(client, type="chat.send", message="hi", target_node_id="C") == "node_not_found"
        async with (
            Worker(gateway, "D", hello) as d,
            Worker(gateway, "E", hello) as e,
            Worker(gateway, "F", hello) as f,
        ):
            leaving.extend([d, e, f])
            assert await code(client, type="chat.send", message="hi") == "no_executor"
            assert not leaving
        assert (await begin(client))["node_name"] == "A"


@sync
async def test_a_socket_watches_so_many_and_no_more(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(limits={"watchers": 2})
    async with Worker(gateway, "A", hang), BareClient(gateway) as one, BareClient(gateway) as two:
        first, _second = [(await begin(one))["run_id"] for _ in range(2)]
        other = (await begin(two))["run_id"]
        assert await code(one, type="chat.send", message="hi") == "too_many_turns"
        assert await code(one, type="chat.watch", run_id=other) == "too_many_turns"
        assert len(gateway.service.gateway.runs._running) == 3
        await one.send(type="chat.watch", id="w", run_id=first)  # again is no other one
        assert (await one.recv("chat.event"))["seq"] == 0
        await one.send(type="chat.unwatch", run_id=first)
        await one.send(type="chat.watch", id="w", run_id=other)
        await two.send(type="chat.abort", run_id=other)
        await read(one, other)
        await begin(one)  # one that is over takes no room


@sync
async def test_a_token_that_is_revoked_watches_nothing_more(gateway: ThreadedGateway) -> None:
    go = asyncio.Event()

    async def wait(node: Worker, run: dict[str, Any]) -> str:
        await go.wait()
        return "said"

    async with Worker(gateway, "A", wait), Worker(gateway, "W") as paused, gateway.http() as http:
        made = (await http.post("/nodes/host-token", json={"name": "script"})).json()
        async with BareClient(gateway) as ada, Person(gateway, made["token"]) as script:
            adas = (await begin(ada))["run_id"]
            scripts = (await begin(script))["run_id"]
            await script.send(type="chat.watch", id="w", run_id=adas)
            await ada.send(type="chat.watch", id="w", run_id=scripts)
            await paused.send({"type": "chat.watch", "id": "p", "run_id": adas})
            await until(lambda: any(each["type"] == "chat.event" for each in paused.frames))
            await http.post(f"/nodes/devices/{made['device_id']}/revoke")
            assert (await script.closed())[0] == 4003
            assert (await read(ada, scripts))[-1]["code"] == "revoked"
            await http.post(f"/nodes/devices/{paused.node_id}/status", json={"status": "paused"})
            go.set()
            assert text_of(await read(ada, adas, 1)) == "said"
            await until(lambda: any(each.get("id") == "p" for each in paused.frames))
        (error,) = [each for each in paused.frames if each["type"] == "error"]
        assert (error["id"], error["code"]) == ("p", "unauthorized")
        assert sum(each["type"] == "chat.event" for each in paused.frames) == 1
