"""How a prompt is answered: by the first of those that are asked, in time, and for as long as they say."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from typing import Any

import pytest
from support.asked import Cast, Frame, Make, Seat, cast
from support.chats import Person
from support.running import sync, until


async def call(seat: Seat, call_id: Any, node: Seat, command: str = "guarded", **params: Any) -> None:
    await seat.send(type="invoke", id=call_id, node=node.node_id, command=command, params=params)


async def result(seat: Seat, call_id: Any) -> Frame:
    """Return how a call of a tab ended."""
    found = await until(lambda: [f for f in seat.frames if f["type"] == "result" and f["id"] == call_id], 20)
    return dict(found[0])


async def answer(everybody: Cast, prompt_id: str, account: str = "ada", **body: Any) -> tuple[int, Any]:
    reply = await everybody.http[account].post(f"/permissions/{prompt_id}", json={"decision": "allow", **body})
    return reply.status_code, reply.json()


@sync
async def test_twenty_prompts_at_once_answered_in_mixed_order(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-page", "ada-a") as everybody:
        tab, page, node = (everybody[name] for name in ("ada-tab", "ada-page", "ada-a"))
        for n in range(20):
            await call(tab, n, node, n=n)
        await until(lambda: all(len(seat.prompts()) == 20 for seat in (tab, page, node)), 20)
        prompts = tab.prompts()
        assert len({each["id"] for each in prompts}) == 20
        numbers = {each["id"]: int(each["summary"]["params"].split(":")[1].rstrip("}")) for each in prompts}
        assert sorted(numbers.values()) == list(range(20))
        chance = random.Random(6)
        order = list(numbers)
        chance.shuffle(order)
        allowed = {number for number in range(20) if chance.random() < 0.5}

        async def over(prompt_id: str) -> None:
            decision = "allow" if numbers[prompt_id] in allowed else "deny"
            match chance.randrange(4):
                case 0:
                    status, body = await answer(everybody, prompt_id, decision=decision)
                    assert status == 200 and body["permission"]["decision"] == decision
                case way:
                    await (tab, page, node)[way - 1].answer(prompt_id, decision)

        await asyncio.gather(*(over(each) for each in order))
        for n in range(20):
            ended = await result(tab, n)
            if n in allowed:
                assert ended["success"] and ended["result"] == {"n": n}
            else:
                assert ended["code"] == "permission_denied"
        # What was allowed ran, each once, and nothing else.
        assert sorted(each["params"]["n"] for each in node.calls) == sorted(allowed)
        history = {each["id"]: each for each in await everybody.history("ada")}
        assert {numbers[key] for key, each in history.items() if each["decision"] == "allow"} == allowed
        assert all(each["reason"] == "answered" for each in history.values()) and len(history) == 20
        await until(lambda: all(len(seat.closed()) >= 20 for seat in (tab, page, node)))
        # What was denied is told to everybody as well, and as what it was.
        for seat in (tab, page, node):
            told = {(numbers[each["id"]], each["decision"], each["reason"]) for each in seat.closed()}
            assert told == {(n, "allow" if n in allowed else "deny", "answered") for n in range(20)}
        assert await everybody.waiting("ada") == []


@sync
async def test_of_many_answers_at_the_same_time_one_counts(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-page", "ada-a") as everybody:
        tab, page, node = (everybody[name] for name in ("ada-tab", "ada-page", "ada-a"))
        await call(tab, "c", node)
        prompt_id = (await tab.prompt())["id"]
        await until(lambda: page.prompts() and node.prompts())
        said = await asyncio.gather(
            *(answer(everybody, prompt_id, decision="allow" if n % 2 else "deny") for n in range(10))
        )
        won = [body["permission"] for status, body in said if status == 200]
        lost = [(status, body["code"]) for status, body in said if status != 200]
        assert len(won) == 1 and set(lost) == {(409, "permission_resolved")}
        assert (await result(tab, "c"))["success"] == (won[0]["decision"] == "allow")
        (kept,) = await everybody.history("ada")
        assert kept["decision"] == won[0]["decision"] and kept["by"] == won[0]["by"]


@sync
async def test_nobody_answers_in_time(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", limits={"permission_ttl": 0.5}) as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        await call(tab, "c", node)
        prompt_id = (await tab.prompt())["id"]
        ended = await result(tab, "c")
        assert (ended["code"], ended["status"]) == ("permission_expired", 410)
        for seat in (tab, node):
            await until(lambda seat=seat: prompt_id in {each["id"] for each in seat.closed()})
            assert {(each["decision"], each["reason"]) for each in seat.closed()} == {("deny", "expired")}
            late = await seat.answer(prompt_id)
            assert late.get("code") == "permission_expired" or late["reason"] == "expired"
        assert (await answer(everybody, prompt_id))[1]["code"] == "permission_expired"
        assert node.calls == []
        (kept,) = await everybody.history("ada")
        assert (kept["decision"], kept["reason"], kept["by"]) == ("deny", "expired", "")


@sync
async def test_nobody_is_there_to_be_asked(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-mute", "ada-old") as everybody:
        http = everybody.http["ada"]
        for node in ("ada-mute", "ada-old"):
            reply = await http.post(f"/nodes/{everybody[node].node_id}/invoke", json={"command": "guarded"})
            assert (reply.status_code, reply.json()["code"]) == (403, "permission_needed")
            assert everybody[node].calls == []
        assert [each["reason"] for each in await everybody.history("ada")] == ["no_interface"] * 2
        rows = (await http.get("/audit")).json()["entries"]
        outcomes = [(each["action"], each["outcome"]) for each in rows if each["action"] in ("permission", "invoke")]
        assert sorted(outcomes) == [("invoke", "permission_needed")] * 2 + [("permission", "no_interface")] * 2


@sync
async def test_a_page_that_is_loaded_again_finds_the_prompt(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-page", "ada-mute") as everybody:
        node = everybody["ada-mute"]
        future = asyncio.ensure_future(
            everybody.http["ada"].post(f"/nodes/{node.node_id}/invoke", json={"command": "guarded"})
        )
        prompt = await everybody["ada-page"].prompt()
        await everybody["ada-page"].socket.ws.close()
        async with Person(everybody.gateway) as person:
            page = Seat("again", person)
            page.listen()
            assert (await page.prompt())["id"] == prompt["id"]
            assert (await page.answer(prompt["id"]))["decision"] == "allow"
            assert (await future).json()["success"]
            await page.close()


@pytest.mark.parametrize("decision", ["allow", "deny"])
@sync
async def test_an_answer_for_the_session_of_a_socket(make_gateway: Make, decision: str) -> None:
    async with cast(make_gateway, "ada-tab", "ada-page", "ada-a", "ada-b") as everybody:
        tab, node, other = (everybody[name] for name in ("ada-tab", "ada-a", "ada-b"))
        await call(tab, 0, node, n=0)
        first = await tab.prompt()
        await tab.answer(first["id"], decision, "session")
        await result(tab, 0)
        # Again: nobody is asked, and it is on record.
        await call(tab, 1, node, n=1)
        ended = await result(tab, 1)
        assert ended["success"] == (decision == "allow")
        assert ended.get("code") in (None, "permission_denied")
        newest = (await everybody.history("ada"))[0]
        assert (newest["decision"], newest["reason"], newest["by"]) == (decision, "remembered", first["by"] or "kernel")
        assert len(tab.prompts()) == 1
        # Not for another command, another node, another socket, or a request of its own.
        await call(tab, 2, other)
        assert (await tab.prompt())["node_id"] == other.node_id
        page = {"node_id": node.node_id, "command": "guarded", "params": {}}
        await everybody["ada-page"].send(type="node.invoke.request", id="p", **page)
        body = {"command": "guarded"}
        http = asyncio.ensure_future(everybody.http["ada"].post(f"/nodes/{node.node_id}/invoke", json=body))
        await until(lambda: len(tab.prompts()) == 4)
        for prompt in await everybody.waiting("ada"):
            await tab.answer(prompt["id"], "deny")
        assert (await http).json()["code"] == "permission_denied"


@sync
async def test_an_answer_for_the_session_of_a_conversation(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "lab", "ada-a") as everybody:
        tab, lab, node = (everybody[name] for name in ("ada-tab", "lab", "ada-a"))

        async def turn(session: str) -> str:
            before = len(lab.socket.runs)
            chat = {"id": f"q{before}", "message": "hi", "target_node_id": lab.node_id, "session_id": session}
            await tab.send(type="chat.send", **chat)
            await until(lambda: len(lab.socket.runs) > before, 20)
            return str(lab.socket.runs[-1]["run_id"])

        async def camera(run: str) -> asyncio.Future[Frame]:
            return lab.socket.start(node_id=node.node_id, command="camera.snap", run_id=run)[1]  # type: ignore[no-any-return]

        run = await turn("one")
        ended = await camera(run)
        prompt = await tab.prompt()
        assert prompt["conversation_id"] == "one"
        await tab.answer(prompt["id"], "allow", "session")
        assert (await ended)["ok"]
        assert (await (await camera(run)))["ok"] and len(tab.prompts()) == 1
        # A later turn of the same conversation, and one of another.
        everybody.go.set()
        await until(lambda: not everybody.gateway.service.gateway.runs._running, 20)
        everybody.go.clear()
        assert (await (await camera(await turn("one"))))["ok"] and len(tab.prompts()) == 1
        other = await turn("two")
        ended = await camera(other)
        prompt = await tab.prompt()
        assert prompt["conversation_id"] == "two"
        await tab.answer(prompt["id"], "deny")
        assert (await ended)["error"]["code"] == "permission_denied"
        # A revoked node takes what was allowed with it.
        permissions = everybody.gateway.service.gateway.permissions
        assert everybody.gateway.call(len, permissions._remembered) == 1
        assert (await everybody.http["ada"].post(f"/nodes/devices/{node.node_id}/revoke")).status_code == 200
        assert everybody.gateway.call(len, permissions._remembered) == 0


@sync
async def test_what_is_no_answer(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-phone") as everybody:
        tab, phone = everybody["ada-tab"], everybody["ada-phone"]
        await call(tab, "c", phone)
        prompt_id = (await phone.prompt())["id"]
        for seat in (tab, phone):
            for wrong in ({"decision": "maybe"}, {"decision": True}, {"decision": "allow", "remember": "always"}, {}):
                before = len(seat.frames)
                await seat.send(**{"type": "permission.response", "id": prompt_id, **wrong})
                await until(lambda seat=seat, before=before: [f for f in seat.frames[before:] if f["type"] == "error"])
                assert seat.frames[-1]["code"] == "invalid_request" and seat.frames[-1]["id"] == prompt_id
        for body in ({}, {"decision": "yes"}, {"decision": "allow", "remember": "forever"}, []):
            reply = await everybody.http["ada"].post(f"/permissions/{prompt_id}", json=body)
            assert reply.status_code == 422
        assert (await answer(everybody, "x" * 500))[1]["code"] == "permission_unknown"
        assert (await phone.answer(prompt_id))["type"] == "permission.resolved"
        assert (await result(tab, "c"))["success"]


@sync
async def test_a_paused_device_has_no_say(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", "ada-phone") as everybody:
        tab = everybody["ada-tab"]
        for name in ("ada-a", "ada-phone"):
            node = everybody[name]
            await call(tab, name, node)
            prompt_id = (await node.prompt())["id"]
            paused = {"status": "paused"}
            await everybody.http["ada"].post(f"/nodes/devices/{node.node_id}/status", json=paused)
            assert (await node.answer(prompt_id))["code"] == "paused"
            # Its owner may still say yes, but nothing runs there.
            assert (await answer(everybody, prompt_id))[0] == 200
            assert (await result(tab, name))["code"] == "paused"
            assert node.calls == []


@sync
async def test_too_many_prompts_of_one_account_leave_room_for_others(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "lab", "bob-tab", limits={"permissions_open": 3}) as everybody:
        lab, bob, ada = (everybody[name] for name in ("lab", "bob-tab", "ada-tab"))
        for n in range(4):
            await call(bob, n, lab)
        assert (await result(bob, 3))["code"] == "too_many_permissions"
        await call(ada, "hers", lab)
        await until(lambda: len(lab.prompts()) == 4)
        prompt = await ada.prompt()
        await ada.answer(prompt["id"])
        assert (await result(ada, "hers"))["success"]


@sync
async def test_a_device_keeps_room_for_its_owners_prompts(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "lab", "bob-tab") as everybody:
        lab, bob, ada = (everybody[name] for name in ("lab", "bob-tab", "ada-tab"))
        for n in range(40):
            await call(bob, n, lab)
        assert (await result(bob, 39))["code"] == "too_many_permissions"
        await call(ada, "hers", lab)
        await until(lambda: len(lab.prompts()) == 33, 20)
        assert lab.prompts()[-1]["relation"] == "web"


@sync
async def test_an_answer_that_can_not_be_kept_does_not_count(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab, node = everybody["ada-tab"], everybody["ada-a"]
        await call(tab, "c", node)
        prompt_id = (await tab.prompt())["id"]
        path = everybody.gateway.config.data_dir / "suzent.db"
        with sqlite3.connect(path) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON permissions BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        status, body = await answer(everybody, prompt_id)
        assert (status, body["code"]) == (503, "store_failed")
        assert node.calls == [] and [each["id"] for each in await everybody.waiting("ada")] == [prompt_id]
        # Neither is anything asked then.
        await call(tab, "d", node)
        assert (await result(tab, "d"))["code"] == "store_failed"
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TRIGGER full")
        assert (await answer(everybody, prompt_id))[0] == 200
        assert (await result(tab, "c"))["success"]


@sync
async def test_the_history_is_swept(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", limits={"permission_history": 0.3}) as everybody:
        tab = everybody["ada-tab"]
        await call(tab, "c", everybody["ada-a"])
        await tab.answer((await tab.prompt())["id"], "deny")
        await result(tab, "c")
        path = everybody.gateway.config.data_dir / "suzent.db"

        def rows() -> int:
            with sqlite3.connect(path) as connection:
                return int(connection.execute("SELECT count(*) FROM permissions").fetchone()[0])

        await until(lambda: rows() == 0)
        assert await everybody.history("ada") == []
