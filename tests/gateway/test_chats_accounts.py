"""A chat of one account on the node of another: the node works for it, and all else of it is the asker's alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support.calls import error_of
from support.chats import Person, begin, code, read, text_of
from support.client import BareClient
from support.device import BareDevice
from support.executing import Work, Worker, hang
from support.gateways import Addresses, ThreadedGateway
from support.running import sync, until

TOPICS = ["conversations", "runs", "turns"]
Make = Callable[..., ThreadedGateway]


class Bobs(Addresses):
    """The same gateway as bob reaches it."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        self.token = gateway.token_of("bob", gateway.config.org)
        self.url, self.service = gateway.url, gateway.service


@dataclass
class House:
    gateway: ThreadedGateway
    bobs: Bobs
    lab: Worker
    bob: BareClient

    async def share(self, scope: str, node: str = "Lab") -> None:
        async with self.gateway.http() as http:
            answer = await http.post(f"/nodes/{node}/scope", json={"scope": scope})
            assert answer.json()["scope"] == scope, answer.text


@asynccontextmanager
async def house(make_gateway: Make, work: Work, **limits: Any) -> AsyncIterator[House]:
    """Of one organisation: ada, whose node Lab has an agent and is shared, and bob, who is connected."""
    gateway = make_gateway(org="lab", limits=limits)
    gateway.service.gateway.waiting_account = None
    bobs = Bobs(gateway)
    async with Worker(gateway, "Lab", work) as lab, BareClient(bobs) as bob:
        each = House(gateway, bobs, lab, bob)
        await each.share("enterprise")
        yield each


@sync
async def test_the_node_knows_for_whom_it_works_and_its_owner_hears_nothing(make_gateway: Make) -> None:
    go = asyncio.Event()

    async def wait(node: Worker, run: dict[str, Any]) -> str:
        await go.wait()
        return "done for bob"

    async with house(make_gateway, wait) as home, BareClient(home.gateway) as ada, BareClient(home.bobs) as bob2:
        for client in (ada, bob2):
            await client.send(type="subscribe", topics=TOPICS)
            for topic in TOPICS:
                assert (await client.change(topic))["kind"] == "snapshot"
        accepted = await begin(home.bob, message="for me")
        run_id, conversation = accepted["run_id"], accepted["session_id"]
        await until(lambda: home.lab.runs)
        run = home.lab.runs[0]
        assert run["is_remote_session"] is True
        assert (run["caller"]["kind"], run["caller"]["name"]) == ("user", "bob")
        assert run["turn"]["may_use_asking_tools"] is False
        assert run["turn"]["history"] == []

        def errors() -> list[str]:
            return [each["code"] for each in home.lab.frames if each["type"] == "error"]

        # Neither its owner nor the node itself may look on or stop it, while it runs and afterwards.
        async def nothing_to_see() -> None:
            before = len(errors())
            for kind in ("chat.watch", "chat.abort"):
                assert await code(ada, type=kind, run_id=run_id) == "run_unknown"
                await home.lab.send({"type": kind, "id": "x", "run_id": run_id})
            await until(lambda: len(errors()) == before + 2)
            assert set(errors()) == {"run_unknown"}
            async with home.gateway.http() as http:
                assert (await http.get("/conversations")).json()["conversations"] == []
                assert error_of(await http.get(f"/conversations/{conversation}"))[0] == 404

        await nothing_to_see()
        go.set()
        assert text_of(await read(home.bob, run_id)) == "done for bob"
        await nothing_to_see()
        # Of all that bob's other socket was told nothing came to ada: the next she hears is her own answer.
        heard = set()
        while heard != set(TOPICS):
            heard.add((await bob2.recv("change"))["topic"])
        await ada.send(type="chat.watch", id="next", run_id="none")
        assert (await ada.recv())["id"] == "next"
        async with home.bobs.http() as http:
            kept = (await http.get(f"/conversations/{conversation}")).json()
        assert [each["content"] for each in kept["messages"]] == ["for me", "done for bob"]
        # One of the same name that she begins is another one.
        hers = await begin(ada, session_id=conversation, message="mine")
        await until(lambda: len(home.lab.runs) == 2)
        assert home.lab.runs[1]["turn"]["history"] == [] and not home.lab.runs[1]["is_remote_session"]
        # Nor does the node, which may keep something of its own by that name, take the one for the other.
        assert home.lab.runs[1]["session_id"] == conversation != home.lab.runs[0]["session_id"]
        await read(ada, hers["run_id"])


@sync
async def test_what_it_may_do_is_what_bob_may_and_who_is_there_is_asked(make_gateway: Make) -> None:
    able = [{"name": "echo"}, {"name": "camera.snap"}]

    async def uses(node: Worker, run: dict[str, Any]) -> str:
        own = {"run_id": run["run_id"]}
        codes = [
            await node.code_of(name, command=command, **own)
            for name in ("Bobs", "Lab2", "Private")
            for command in ("echo", "camera.snap")
        ]
        return " ".join(codes)

    async with (
        house(make_gateway, uses) as home,
        Worker(home.bobs, "Bobs", capabilities=able),
        Worker(home.gateway, "Lab2", capabilities=able),
        Worker(home.gateway, "Private", capabilities=able),
    ):
        await home.share("enterprise", "Lab2")
        accepted = await begin(home.bob)
        async with home.bobs.http() as bob, home.gateway.http() as ada:
            # His own node: he is asked, and nobody else. Before Lab2 nobody can be.
            while not (waiting := (await bob.get("/permissions")).json()["permissions"]):
                await asyncio.sleep(0.01)
            (prompt,) = waiting
            assert (prompt["node_name"], prompt["tool"], prompt["caller"]) == (
                "Bobs",
                "camera.snap",
                "bob (bob's token)",
            )
            assert (await ada.get("/permissions")).json()["count"] == 0
            url = f"/permissions/{prompt['id']}"
            assert error_of(await ada.post(url, json={"decision": "allow"})) == (404, "permission_unknown")
            assert (await bob.post(url, json={"decision": "allow"})).json()["success"]
        said = text_of(await read(home.bob, accepted["run_id"]))
        assert said == "ok ok ok permission_needed node_not_found node_not_found"


@sync
async def test_what_comes_back_by_way_of_anothers_agent_is_still_anothers(make_gateway: Make) -> None:
    """What ada's node has bob's own node do was written over there: bob's node treats it as what it is."""
    able = [{"name": "echo"}, {"name": "camera.snap"}]

    async def passes_on(node: Worker, run: dict[str, Any]) -> str:
        result = await node.call("Bobs", agent="show me", run_id=run["run_id"])
        return str(result.get("result") or result["error"]["code"])

    async def snaps(node: Worker, run: dict[str, Any]) -> str:
        own = {"run_id": run["run_id"]}
        return " ".join([await node.code_of("Cam", command=command, **own) for command in ("echo", "camera.snap")])

    async with (
        house(make_gateway, passes_on) as home,
        Worker(home.bobs, "Bobs", snaps) as bobs,
        Worker(home.bobs, "Cam", capabilities=able),
        BareClient(home.bobs) as asked,
    ):
        await asked.send(type="subscribe", topics=["permissions"])

        async def decide(decision: str) -> None:
            """What his camera is wanted for is for bob himself to say."""
            prompt = (await asked.change("permissions", "added"))["item"]
            assert (prompt["tool"], prompt["relation"], prompt["node_name"]) == ("camera.snap", "web", "Cam")
            await asked.send(type="permission.response", id=prompt["id"], decision=decision)

        accepted = await begin(home.bob, target_node_id="Lab")
        await decide("deny")
        assert text_of(await read(home.bob, accepted["run_id"])) == "ok permission_denied"
        (run,) = bobs.runs
        assert run["is_remote_session"] is True
        assert (run["turn"]["may_use_asking_tools"], run["turn"]["history"]) == (False, [])
        # Asked by bob himself it may.
        mine = await begin(home.bob, target_node_id="Bobs")
        await decide("allow")
        assert text_of(await read(home.bob, mine["run_id"])) == "ok ok"
        assert bobs.runs[1]["is_remote_session"] is False and bobs.runs[1]["turn"]["may_use_asking_tools"] is True


@sync
async def test_a_device_of_the_others_is_no_executor(make_gateway: Make) -> None:
    async with (
        house(make_gateway, hang) as home,
        BareDevice(home.gateway.node_url, "Phone", [{"name": "agent.run"}, {"name": "echo"}]) as phone,
        BareClient(home.gateway) as ada,
    ):
        await home.gateway.pair(phone)
        await home.share("enterprise", "Phone")
        # The newest node of all, and seen; but only Lab can be told that nobody may be asked.
        assert (await begin(home.bob))["node_name"] == "Lab"
        assert await code(home.bob, type="chat.send", message="hi", target_node_id="Phone") == "not_executable"
        async with Worker(home.bobs, "Bobs") as bobs:
            assert await bobs.code_of("Phone", agent="hi") == "permission_needed"
        await home.share("account")
        assert await code(home.bob, type="chat.send", message="hi") == "no_executor"
        assert (await begin(ada))["node_name"] == "Phone"
        assert (await phone.recv("invoke"))["command"] == "agent.run"


@sync
async def test_a_node_that_is_taken_back_stops_working_for_others(make_gateway: Make) -> None:
    async with house(make_gateway, hang) as home, BareClient(home.gateway) as ada, Person(home.bobs) as bob2:
        hers = (await begin(ada))["run_id"]
        accepted = await begin(home.bob)
        await bob2.send(type="chat.watch", id="w", run_id=accepted["run_id"])
        await until(lambda: len(home.lab.runs) == 2)
        await home.share("account")
        for client in (home.bob, bob2):
            last = (await read(client, accepted["run_id"]))[-1]
            assert (last["code"], last["message"]) == ("node_disconnected", "Lab is no longer shared.")
        await until(lambda: home.lab.aborted == [accepted["run_id"]])
        assert await code(home.bob, type="chat.send", message="hi", target_node_id="Lab") == "node_not_found"
        async with home.bobs.http() as http:
            kept = (await http.get(f"/conversations/{accepted['session_id']}")).json()
        assert (kept["status"], kept["messages"][-1]["outcome"]) == ("idle", "node_disconnected")
        assert not home.gateway.service.gateway.runs._runs[hers].over


@sync
async def test_one_account_does_not_take_the_turns_of_all(make_gateway: Make) -> None:
    async with house(make_gateway, hang, runs_in_flight=8) as home, BareClient(home.gateway) as ada:
        for _ in range(6):
            await begin(home.bob)
        assert await code(home.bob, type="chat.send", message="hi") == "too_many_turns"
        for _ in range(2):
            await begin(ada)
        assert await code(ada, type="chat.send", message="hi") == "too_many_turns"


@sync
async def test_others_leave_room_on_a_node_for_its_owner(make_gateway: Make) -> None:
    async with house(make_gateway, hang, calls_in_flight=4) as home, BareClient(home.gateway) as ada:
        for _ in range(3):
            await begin(home.bob)
        await until(lambda: len(home.lab.runs) == 3)
        one_more = await begin(home.bob, target_node_id="Lab")
        end = (await read(home.bob, one_more["run_id"]))[-1]
        assert (end["type"], end["code"]) == ("RUN_ERROR", "node_busy")
        await begin(ada)
        await until(lambda: len(home.lab.runs) == 4)
        assert not home.lab.runs[-1]["is_remote_session"]
