"""``node.invoke.request`` between nodes over real sockets: commands, agents, whose rights, how deep, how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.executing import Worker, hang, hello
from support.gateways import ThreadedGateway
from support.keyed import Key
from support.running import sync, until


def asks(name: str, *, named: bool = True) -> Any:
    """Return the work of an agent that asks another one and says how that went."""

    async def work(node: Worker, run: dict[str, Any]) -> str:
        own = {"run_id": run["run_id"]} if named else {}
        result = await node.call(name, agent=run["message"], **own)
        return str(result["result"]) if result["ok"] else f"refused: {result['error']['code']}"

    return work


@sync
async def test_a_node_calls_a_command_and_hears_progress(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A") as a, Worker(gateway, "B") as b:
        result = await a.call("B", command="echo", params={"x": "ü"}, timeout_ms=5000)
        assert (result["ok"], result["result"]) == (True, {"x": "ü"})
        assert [f["fraction"] for f in a.frames if f["type"] == "node.invoke.progress"] == [0.5]
        asked = next(f for f in b.frames if f["type"] == "node.invoke.request")
        assert 4000 < asked["timeout_ms"] <= 5000
        for request, code in (
            ({"command": "no.such"}, "unknown_command"),
            ({}, "invalid_request"),
            ({"command": "echo", "agent": "x"}, "invalid_request"),
            ({"command": "agent.run"}, "invalid_request"),
            ({"command": "echo", "timeout_ms": 0}, "invalid_timeout"),
            ({"command": "echo", "timeout_ms": True}, "invalid_timeout"),
            ({"agent": "x"}, "not_executable"),
            ({"command": "echo", "run_id": "nope"}, "run_unknown"),
        ):
            assert await a.code_of("B", **request) == code, request
        assert await a.code_of("Nobody", command="echo") == "node_not_found"


@sync
async def test_a_node_has_the_agent_of_another_work_in_a_conversation_of_its_own(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A") as a, Worker(gateway, "B", hello) as b, gateway.http() as http:
        assert (await a.call("B", agent="this"))["result"] == "B answers this"
        turn = b.runs[0]["turn"]
        assert turn["chain"] == [a.node_id, b.node_id]
        assert '"A"' in turn["note"]
        assert not b.runs[0]["is_remote_session"]
        listed = (await http.get("/conversations")).json()["conversations"]
        assert [(each["folder"], each["target_node_id"]) for each in listed] == [("Dispatched", b.node_id)]


@pytest.mark.parametrize("named", [True, False])
@sync
async def test_three_agents_in_a_row_and_no_fourth(gateway: ThreadedGateway, named: bool) -> None:
    async with (
        Worker(gateway, "P", role="web") as person,
        Worker(gateway, "A", asks("B", named=named)),
        Worker(gateway, "B", asks("C", named=named)),
        Worker(gateway, "C", asks("D", named=named)),
        Worker(gateway, "D", hello) as d,
    ):
        assert (await person.call("A", agent="x"))["result"] == "refused: dispatch_too_deep"
        assert d.runs == []
        assert (await person.call("B", agent="x"))["result"] == "D answers x"


@pytest.mark.parametrize("named", [True, False])
@sync
async def test_an_agent_that_waits_is_not_asked(gateway: ThreadedGateway, named: bool) -> None:
    async with (
        Worker(gateway, "P", role="web") as person,
        Worker(gateway, "A", asks("B", named=named)) as a,
        Worker(gateway, "B", asks("A", named=named)),
    ):
        assert (await person.call("A", agent="x"))["result"] == "refused: dispatch_cycle"
        assert len(a.runs) == 1
        assert await a.code_of("A", agent="myself") == "dispatch_cycle"


@sync
async def test_a_second_socket_with_the_same_key_is_no_way_round(gateway: ThreadedGateway) -> None:
    # A page whose key becomes a node's while it is open; a node's key opens no page.
    key = Key()

    async def goes_round(node: Worker, run: dict[str, Any]) -> str:
        codes = [
            await page.code_of("A", agent="once more"),
            await page.code_of("A", agent="once more", run_id=run["run_id"]),
            await page.code_of("A", command="agent.run", params={"message": "once more"}),
            await page.code_of("B", command="echo"),
        ]
        return " ".join(codes)

    async with (
        Worker(gateway, "P", role="web") as person,
        Worker(gateway, "A", role="web", key=key) as page,
        Worker(gateway, "A", goes_round, key=key) as a,
        Worker(gateway, "B"),
    ):
        device = gateway.service.gateway.devices.by_id(a.node_id)
        assert device is not None
        device.approved = ["agent.run"]
        assert (await person.call("A", agent="x"))["result"] == "dispatch_cycle dispatch_cycle invalid_request ok"
        assert len(a.runs) == 1


@sync
async def test_only_a_run_of_its_own_can_be_named(gateway: ThreadedGateway) -> None:
    async with (
        Worker(gateway, "P", role="web") as person,
        Worker(gateway, "A", hang) as a,
        Worker(gateway, "B") as b,
    ):
        person.start(node_id="A", agent="x")
        await until(lambda: a.runs)
        run_id = a.runs[0]["run_id"]
        foreign = await b.call("A", command="echo", run_id=run_id)
        unknown = await b.call("A", command="echo", run_id="none")
        assert foreign["error"] == unknown["error"]
        assert await person.code_of("B", command="echo", run_id=run_id) == "run_unknown"
        assert await a.code_of("B", command="echo", run_id=run_id) == "ok"


@sync
async def test_a_cancel_travels_all_the_way(gateway: ThreadedGateway) -> None:
    async with (
        Worker(gateway, "P", role="web") as person,
        Worker(gateway, "A", asks("B")) as a,
        Worker(gateway, "B", hang, features=["cancel"]) as b,
        Worker(gateway, "C", features=["cancel"]) as c,
    ):
        c.silent = True
        request_id, future = person.start(node_id="A", agent="x")
        await until(lambda: b.runs)
        _, call = b.start(node_id="C", command="echo", run_id=b.runs[0]["run_id"])
        await until(lambda: any(f["type"] == "node.invoke.request" for f in c.frames))
        await person.send({"type": "node.invoke.cancel", "id": request_id})
        assert (await asyncio.wait_for(future, 10))["error"]["code"] == "cancelled"
        await until(lambda: a.aborted and b.aborted)
        assert (await asyncio.wait_for(call, 10))["error"]["code"] == "cancelled"
        await until(lambda: any(f["type"] == "node.invoke.cancel" for f in c.frames))
        assert await b.code_of("C", command="echo", run_id=b.runs[0]["run_id"]) == "run_unknown"


@sync
async def test_a_node_that_vanishes_ends_what_it_does_and_what_it_asked_for(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "P", role="web") as person, Worker(gateway, "B", hang) as b:
        async with Worker(gateway, "A", asks("B")) as a:
            _, future = person.start(node_id="A", agent="x")
            await until(lambda: b.runs)
            await a.ws.close()
        assert (await asyncio.wait_for(future, 10))["error"]["code"] == "node_disconnected"
        await until(lambda: b.aborted)


@sync
async def test_many_at_once_and_one_too_many(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A") as a, Worker(gateway, "B", hang) as b:
        b.silent = False
        results = await asyncio.gather(*(a.call("B", command="echo", params={"n": n}) for n in range(64)))
        assert [each["result"]["n"] for each in results] == list(range(64))
        for n in range(64):
            a.start(node_id="B", agent=str(n))
        await until(lambda: len(b.runs) == 64)
        assert await a.code_of("B", agent="one more") == "node_busy"
        assert await a.code_of("B", command="echo") == "ok"
    await until(lambda: not gateway.service.gateway.runs._running)


@sync
async def test_a_large_result(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "A") as a, Worker(gateway, "B"):
        text = "é" + "x" * (8 * 2**20)
        assert (await a.call("B", command="echo", params={"text": text}))["result"] == {"text": text}


@sync
async def test_a_turn_for_another_account_has_that_accounts_rights(gateway: ThreadedGateway) -> None:
    hub = gateway.service.gateway
    async with Worker(gateway, "Bob", role="web") as bob:
        pass
    capabilities = [{"name": "echo"}, {"name": "camera.snap"}]
    async with (
        Worker(gateway, "Shared", hang) as shared,
        Worker(gateway, "Private") as private,
        Worker(gateway, "Team", hello, capabilities=capabilities) as team,
    ):
        for device in hub.devices:
            if device.device_id in (shared.node_id, team.node_id):
                device.sharing, device.org = "enterprise", "lab"
            elif device.device_id != private.node_id:
                device.account, device.org = "bob", "lab"
        async with Worker(gateway, "Bob", role="web", key=bob.key) as bob:
            assert await bob.code_of("Private", command="echo") == "node_not_found"
            bob.start(node_id="Shared", agent="x")
            await until(lambda: shared.runs)
            run = shared.runs[0]
            assert run["is_remote_session"]
            own = {"run_id": run["run_id"]}
            assert await shared.code_of("Private", command="echo", **own) == "node_not_found"
            assert await shared.code_of("Private", agent="x", **own) == "node_not_found"
            assert await shared.code_of("Private", agent="x") == "node_not_found"
            assert await shared.code_of("Private", command="echo") == "ok"
            assert await shared.code_of("Team", command="echo", **own) == "ok"
            assert await shared.code_of("Team", command="camera.snap", **own) == "permission_needed"
            assert await shared.code_of("Team", agent="x", **own) == "ok"
            assert team.runs[0]["is_remote_session"]
            assert team.runs[0]["turn"]["may_use_asking_tools"] is False
