"""Who may be chosen, by whom: over ``POST /route`` of a gateway without a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from support.calls import error_of
from support.device import BareDevice
from support.executing import Worker, hello
from support.gateways import ThreadedGateway
from support.grants import holder
from support.running import sync, until

from suzent_jupyter.gateway.choosing.chooser import Chooser
from suzent_jupyter.gateway.devices import Device
from suzent_jupyter.gateway.principals import Authority, Grant, Principal
from suzent_jupyter.gateway.session import NodeSession
from suzent_jupyter.protocol.capabilities import CapabilitySchema
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.protocol.routing import Decision
from suzent_jupyter.routing import steps
from suzent_jupyter.routing.router import Router
from suzent_jupyter.routing.semantic import Question

Make = Callable[..., ThreadedGateway]


@asynccontextmanager
async def caller(gateway: ThreadedGateway, account: str, org: str = "") -> AsyncIterator[httpx.AsyncClient]:
    token = gateway.token_of(account, org)
    async with holder(gateway, token) as http:
        yield http


async def joined(stack: AsyncExitStack, url: str, owner: httpx.AsyncClient, name: str, **connect: Any) -> BareDevice:
    """Connect a device that its owner approves."""
    device = await stack.enter_async_context(BareDevice(url, name, **connect))
    answer = await owner.post(f"/nodes/pending/{await device.code()}/approve")
    assert answer.status_code == 200, answer.text
    await device.joined()
    return device


async def route(http: httpx.AsyncClient, query: str = "camera", **more: Any) -> dict[str, Any]:
    answer = await http.post("/route", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def names(http: httpx.AsyncClient, query: str = "camera", **more: Any) -> list[str]:
    return [row["display_name"] for row in (await route(http, query, **more))["candidates"]]


def lasting(decision: dict[str, Any]) -> str:
    """Return a decision without what differs from one question to the next."""
    return json.dumps([decision["choice"], decision["candidates"], decision["considered"]])


@sync
async def test_candidates_come_change_and_go(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        nothing = await route(http)
        assert (nothing["choice"], nothing["candidates"], nothing["considered"]) == (None, [], 0)
        async with BareDevice(gateway.node_url, "Hall", description="a camera at the door", tags=["flat"]) as hall:
            code = await hall.code()
            assert await names(http) == [], "it is not approved yet"
            await gateway.approve(code)
            await hall.joined()
            decision = await route(http, "camera flat echo test")
            assert decision["choice"]["node_id"] == hall.node_id
            assert decision["choice"]["tier"] == "bm25"
            (row,) = decision["candidates"]
            assert set(row["matched_terms"]) == {"camera", "flat", "echo", "test"}
            assert (row["platform"], row["scope"], row["executes"]) == ("test", "account", False)
            async with BareDevice(gateway.node_url, "Box", description="graphics cards") as box:
                await gateway.pair(box)
                assert await names(http) == ["Hall", "Box"]
                assert (await route(http, "kettle"))["choice"] | {"reason": ""} == {
                    "node_id": box.node_id, "display_name": "Box", "tier": "recent", "confidence": None, "reason": "",
                }  # fmt: skip
            await until_names(http, ["Hall"])
        await until_names(http, [])


async def until_names(http: httpx.AsyncClient, wanted: list[str], **more: Any) -> None:
    """Wait until the gateway has noticed that a socket is gone, or a frame is there."""
    async with asyncio.timeout(10):
        while await names(http, **more) != wanted:
            await asyncio.sleep(0.01)


@sync
async def test_what_a_node_says_now_counts(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "Lab", description="boils water") as lab, gateway.http() as http:
        assert (await route(http))["choice"]["tier"] == "recent"
        await lab.send({"type": "node.update", "node": {"description": "has a camera", "tags": ["roof"]}})
        await until(lambda: lab.frames)
        decision = await route(http, "camera roof")
        assert set(decision["candidates"][0]["matched_terms"]) == {"camera", "roof"}
        assert (await route(http, "boils"))["choice"]["tier"] == "recent", "what it said before is forgotten"


@sync
async def test_what_is_not_approved_is_not_searched(gateway: ThreadedGateway) -> None:
    async with Worker(gateway, "Lab") as lab, gateway.http() as http:
        more = [{"name": "echo"}, {"name": "zoom.in", "description": "telescope"}]
        await lab.send({"type": "node.update", "node": {"capabilities": more}})
        pending = await until_pending(http)
        assert (await route(http, "telescope zoom"))["choice"]["tier"] == "recent"
        await gateway.approve(pending)
        assert (await route(http, "telescope zoom"))["choice"]["tier"] == "bm25"
        await lab.send({"type": "node.update", "node": {"capabilities": []}})
        await until_names(http, [], query="telescope")


async def until_pending(http: httpx.AsyncClient) -> str:
    async with asyncio.timeout(10):
        while not (entries := (await http.get("/nodes/pending")).json()["pending"]):
            await asyncio.sleep(0.01)
    return str(entries[0]["pairing_code"])


@sync
async def test_a_paused_node_is_no_candidate(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Hall") as hall, gateway.http() as http:
        await gateway.pair(hall)
        url = f"/nodes/devices/{hall.node_id}/status"
        assert await names(http) == ["Hall"]
        await http.post(url, json={"status": "paused"})
        assert await names(http) == []
        assert error_of(await http.post("/route", json={"query": "x", "node": "Hall"})) == (409, "paused")
        await http.post(url, json={"status": "active"})
        assert await names(http) == ["Hall"]
        await http.post(f"/nodes/devices/{hall.node_id}/revoke")
        assert await names(http) == []


@sync
async def test_two_accounts_choose_among_their_own(gateway: ThreadedGateway) -> None:
    gateway.service.gateway.waiting_account = None
    async with AsyncExitStack() as stack:
        ada = await stack.enter_async_context(gateway.http())
        bob = await stack.enter_async_context(caller(gateway, "bob"))
        url = gateway.node_url
        hall = await joined(stack, url, ada, "Hall", description="surveillance camera")
        await joined(stack, url, ada, "Box", description="graphics cards")
        before = {query: lasting(await route(ada, query)) for query in ("camera", "surveillance", "graphics", "")}
        assert await names(bob) == []
        # Words within words have bounds of their own: nothing that bob's nodes say may reach them.
        for n in range(12):
            words = " ".join(f"camera{n:x}{letter}x surveillance{letter}{n}" for letter in "abcdefghij")
            flood = f"camera cameras surveillance graphics {words} " + " ".join(
                f"{letter}{other}{chr(97 + n)}camera cameraman{letter}{other}{chr(97 + n)}ship"
                for letter in "abcdefgh"
                for other in "ijklmnop"
            )
            await joined(stack, url, bob, f"Bob {n}", description=flood[:2000], tags=["camera", f"camera{chr(97 + n)}"])
        after = {query: lasting(await route(ada, query)) for query in before}
        assert after == before
        assert sorted(await names(bob)) == sorted(f"Bob {n}" for n in range(12))
        theirs = await route(bob, "camera surveillance graphics")
        assert "Hall" not in json.dumps(theirs) and hall.node_id not in json.dumps(theirs)
        # Asked for by name or id, another's node is what nobody's is.
        for reference in ("Hall", hall.node_id, hall.node_id[:6]):
            answer = await bob.post("/route", json={"query": "camera", "node": reference})
            nobodys = await bob.post("/route", json={"query": "camera", "node": "0" * len(reference)})
            assert error_of(answer) == (404, "node_not_found")
            assert answer.text.replace(reference, "*") == nobodys.text.replace("0" * len(reference), "*")


@sync
async def test_what_is_shared_is_seen_by_the_next_question(make_gateway: Make) -> None:
    gateway = make_gateway(org="lab")
    async with (
        BareDevice(gateway.node_url, "Microscope", description="a camera on a lens") as device,
        gateway.http() as ada,
        caller(gateway, "bob", "lab") as bob,
        caller(gateway, "carol", "elsewhere") as carol,
    ):
        await gateway.pair(device)

        async def seen() -> list[bool]:
            return [bool(await names(each)) for each in (ada, bob, carol)]

        for scope, wanted in (("account", False), ("enterprise", True), ("account", False), ("enterprise", True)):
            answer = await ada.post("/nodes/Microscope/scope", json={"scope": scope})
            assert answer.status_code == 200, answer.text
            assert await seen() == [True, wanted, False]
            (row,) = (await route(ada))["candidates"]
            assert row["scope"] == scope
        (row,) = (await route(bob))["candidates"]
        assert (row["scope"], row["bm25"] > 0) == ("enterprise", True)
        # A claim of the node's own changes nothing.
        async with Worker(gateway, "Wisher", scope="enterprise"):
            assert await names(bob) == ["Microscope"]


@sync
async def test_denied_commands_are_no_ability(gateway: ThreadedGateway) -> None:
    capabilities = [{"name": "camera.snap", "description": "takes pictures"}]
    async with BareDevice(gateway.node_url, "Phone", capabilities) as phone, gateway.http() as http:
        await gateway.pair(phone)
        assert (await route(http, "pictures"))["choice"]["tier"] == "bm25"
        await http.post("/nodes/config", json={"denied_commands": ["camera.*"]})
        assert await names(http) == []
        answer = await http.post("/route", json={"query": "x", "node": "Phone"})
        assert error_of(answer) == (409, "not_executable")
        await http.post("/nodes/config", json={"denied_commands": []})
        assert await names(http) == ["Phone"]


async def chosen(gateway: ThreadedGateway, principal: Principal, query: str = "camera", **more: Any) -> Decision:
    chooser: Chooser = gateway.service.gateway.chooser
    return await asyncio.to_thread(lambda: gateway.run(chooser.choose(principal, query, **more)))


@pytest.mark.parametrize(
    ("grant", "everything", "executors"),
    [
        (Grant(), {"Phone", "Lab", "Plain"}, {"Lab"}),
        (Grant(agent=False), {"Phone", "Lab", "Plain"}, set()),
        (Grant(devices=False), set(), set()),
        (Grant(commands=("camera.*",)), {"Phone"}, set()),
        (Grant(commands=("agent.run",)), {"Lab"}, {"Lab"}),
        (Grant(agent=False, commands=("agent.run",)), set(), set()),
    ],
)
def test_a_grant_covers_what_it_says(
    make_gateway: Make, grant: Grant, everything: set[str], executors: set[str]
) -> None:
    @sync
    async def work() -> None:
        gateway = make_gateway(org="lab")
        gateway.service.gateway.waiting_account = None
        async with AsyncExitStack() as stack:
            ada = await stack.enter_async_context(gateway.http())
            bob = await stack.enter_async_context(caller(gateway, "bob", "lab"))
            url = gateway.node_url
            await joined(stack, url, ada, "Phone", capabilities=[{"name": "camera.snap"}])
            await joined(stack, url, ada, "Plain")
            await stack.enter_async_context(Worker(gateway, "Lab", hello))
            # The organisation's nodes are out of every grant's reach.
            await joined(stack, url, bob, "Shared", capabilities=[{"name": "camera.snap"}])
            assert (await bob.post("/nodes/Shared/scope", json={"scope": "enterprise"})).status_code == 200
            assert "Shared" in await names(ada)
            holder = Principal(Authority.AGENT, "ada", "lab", "g", "grant:g", grant)
            assert {row.display_name for row in (await chosen(gateway, holder)).candidates} == everything
            decision = await chosen(gateway, holder, executors=True)
            assert {row.display_name for row in decision.candidates} == executors
            with pytest.raises(SuzentError) as error:
                await chosen(gateway, holder, node="Shared")
            assert error.value.code == "node_not_found"
            snaps = {row.display_name: row.matched_terms for row in (await chosen(gateway, holder, "snap")).candidates}
            if "Phone" in snaps:
                assert snaps["Phone"] == ["snap"]

    work()


@sync
async def test_the_words_of_a_command_that_a_grant_leaves_out_are_not_searched(gateway: ThreadedGateway) -> None:
    capabilities = [{"name": "camera.snap"}, {"name": "shell.run", "description": "does anything"}]
    async with BareDevice(gateway.node_url, "Phone", capabilities) as phone:
        await gateway.pair(phone)
        holder = Principal(Authority.AGENT, "ada", "", "g", "grant:g", Grant(commands=("camera.*",)))
        for query in ("shell", "anything"):
            decision = await chosen(gateway, holder, query)
            assert decision.choice is not None
            assert (decision.choice.tier, decision.candidates[0].matched_terms) == ("recent", [])


@sync
async def test_the_caller_names_the_node(gateway: ThreadedGateway) -> None:
    async with (
        BareDevice(gateway.node_url, "Hall", description="a camera") as hall,
        BareDevice(gateway.node_url, "Twin") as one,
        BareDevice(gateway.node_url, "twin") as other,
        BareDevice(gateway.node_url, "Mute", []) as mute,
        gateway.http() as http,
    ):
        for device in (hall, one, other, mute):
            await gateway.pair(device)
        for reference in ("Twin", one.node_id):
            answer = await http.post("/route", json={"query": "camera", "node": reference})
            if reference == "Twin":
                assert error_of(answer) == (409, "node_ambiguous")
                assert sorted(answer.json()["ids"]) == sorted((one.node_id, other.node_id))
            else:
                decision = answer.json()
        assert decision["choice"] == {
            "node_id": one.node_id, "display_name": "Twin", "tier": "manual", "confidence": None,
            "reason": "named by the caller",
        }  # fmt: skip
        assert [(tier["tier"], tier["outcome"]) for tier in decision["tiers"]] == [
            ("manual", "chosen"), ("llm", "skipped"), ("bm25", "skipped"), ("recent", "skipped"),
        ]  # fmt: skip
        rows = {row["node_id"]: row for row in decision["candidates"]}
        assert rows[hall.node_id]["bm25"] > rows[one.node_id]["bm25"], "the scores are told all the same"
        assert (await route(http, node="HALL"))["choice"]["node_id"] == hall.node_id
        assert error_of(await http.post("/route", json={"query": "x", "node": "Mute"})) == (409, "not_executable")
        body = {"query": "x", "node": "Hall", "executors": True}
        assert error_of(await http.post("/route", json=body)) == (409, "not_executable")
        assert error_of(await http.post("/route", json={"query": "x", "node": "None"})) == (404, "node_not_found")
        assert "Mute" not in await names(http), "it can do nothing"


@sync
async def test_executors_have_an_agent(gateway: ThreadedGateway) -> None:
    runs = [{"name": "agent.run", "description": "camera"}]
    async with (
        Worker(gateway, "Lab", hello),
        Worker(gateway, "Plain", description="camera"),
        BareDevice(gateway.node_url, "Suzent", runs) as suzent,
        BareDevice(gateway.node_url, "Phone", description="camera camera") as phone,
        gateway.http() as http,
    ):
        await gateway.pair(suzent)
        await gateway.pair(phone)
        rows = {row["display_name"]: row["executes"] for row in (await route(http))["candidates"]}
        assert rows == {"Lab": True, "Suzent": True, "Plain": False, "Phone": False}
        decision = await route(http, executors=True)
        assert {row["display_name"] for row in decision["candidates"]} == {"Lab", "Suzent"}
        assert (decision["considered"], decision["choice"]["display_name"]) == (2, "Suzent")
        await http.post("/nodes/config", json={"denied_commands": ["agent.run"]})
        decision = await route(http, executors=True)
        assert (decision["choice"], decision["considered"]) == (None, 0)
        assert sorted(await names(http)) == ["Lab", "Phone", "Plain"], "Suzent can do nothing else"


@sync
async def test_a_device_with_an_agent_executes_nothing_for_others(make_gateway: Make) -> None:
    gateway = make_gateway(org="lab")
    async with (
        Worker(gateway, "Lab", hello),
        BareDevice(gateway.node_url, "Suzent", [{"name": "agent.run"}, {"name": "echo"}]) as suzent,
        gateway.http() as ada,
        caller(gateway, "bob", "lab") as bob,
    ):
        await gateway.pair(suzent)
        for name in ("Lab", "Suzent"):
            assert (await ada.post(f"/nodes/{name}/scope", json={"scope": "enterprise"})).status_code == 200
        assert sorted(await names(ada, executors=True)) == ["Lab", "Suzent"]
        assert await names(bob, executors=True) == ["Lab"]
        rows = {row["display_name"]: row["executes"] for row in (await route(bob))["candidates"]}
        assert rows == {"Lab": True, "Suzent": False}


@sync
async def test_bodies_that_are_refused(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"prompt_chars": 1000})
    async with BareDevice(gateway.node_url, "Hall", description="camera") as hall, gateway.http() as http:
        await gateway.pair(hall)
        shapeless: list[dict[str, Any]] = [
            {}, {"query": None}, {"query": 7}, {"query": "x", "limit": "many"}, {"query": "x", "node": 7},
            {"query": "x", "executors": "perhaps"},
        ]  # fmt: skip
        for body in shapeless:
            assert error_of(await http.post("/route", json=body)) == (422, "invalid_request"), body
        for body in ({"query": "x" * 1001}, *({"query": "x", "limit": limit} for limit in (0, -1, 1001))):
            assert error_of(await http.post("/route", json=body)) == (422, "invalid_request"), body
        for query in ("", "   ", "the of and", "\x00\U0001f600", "camera " * 142):
            assert (await route(http, query))["choice"]["node_id"] == hall.node_id
        assert (await route(http, ""))["choice"]["tier"] == "recent"
        await http.post("/nodes/config", json={"nodes_enabled": False})
        assert error_of(await http.post("/route", json={"query": "x"}))[1] == "nodes_disabled"


class Socket:
    """Nobody is at its other end."""

    remote, local, limited = "192.0.2.1", False, False
    received_at = moved_at = 0.0
    content_bytes = 0

    def send(self, *parts: Any) -> None: ...
    def ping(self, payload: bytes) -> None: ...
    def close(self, code: int, reason: str = "") -> None: ...
    def allow_bytes(self, maximum: int) -> None: ...


WORDS = "camera kettle printer lathe microscope server lamp sensor robot speaker radio scale".split()


def crowd(gateway: ThreadedGateway, count: int, account: str = "ada") -> list[NodeSession]:
    """Put nodes into the registry without as many sockets."""
    hub = gateway.service.gateway
    made = []
    for n in range(count):
        device = Device(f"{account}{n:05}", b"", f"{account} {n}", account=account, approved=["echo"])
        session = NodeSession(device, Socket(), device.display_name, "test", [ECHO], None, Limits())
        session.description = f"the {WORDS[n % 12]} of room {n}, with {WORDS[n % 7]} and {WORDS[n % 5]} " * 8
        hub.registry.add(session)
        hub.chooser.changed(session)
        made.append(session)
    return made


ECHO = CapabilitySchema(name="echo", description="says it again")


@sync
async def test_two_thousand_nodes_in_bounded_steps(gateway: ThreadedGateway) -> None:
    await chosen(gateway, Principal(Authority.FULL, "ada"))  # loads
    made = gateway.call(crowd, gateway, 2000)
    gateway.call(crowd, gateway, 200, "bob")
    turns = 0
    over = asyncio.Event()

    async def watch() -> None:
        nonlocal turns
        while not over.is_set():
            await asyncio.sleep(0)
            turns += 1

    async def work() -> list[Decision]:
        watching = asyncio.ensure_future(watch())
        choose = gateway.service.gateway.chooser.choose
        accounts = [Principal(Authority.FULL, name) for name in ("ada", "bob", "nobody")]
        found = await asyncio.gather(*(choose(each, "microscope of room 1234") for each in accounts))
        over.set()
        await watching
        return found

    adas, bobs, nobodys = await asyncio.to_thread(lambda: gateway.run(work()))
    assert (adas.considered, bobs.considered, nobodys.considered) == (2000, 200, 0)
    assert adas.choice is not None and adas.choice.display_name == "ada 1234"
    assert len(adas.candidates) == 50
    assert turns > 50, "others got their turn many times"

    def leave() -> None:
        hub = gateway.service.gateway
        for session in made[1:]:
            hub.registry.remove(session)
            hub.chooser.changed(session)

    gateway.call(leave)
    decision = await chosen(gateway, Principal(Authority.FULL, "ada"), "room", limit=5)
    assert [row.display_name for row in decision.candidates] == ["ada 0"]


@sync
async def test_callers_beyond_those_that_are_remembered(gateway: ThreadedGateway) -> None:
    gateway.call(crowd, gateway, 3)
    chooser: Chooser = gateway.service.gateway.chooser
    for n in range(80):
        assert (await chosen(gateway, Principal(Authority.FULL, f"guest {n}"))).considered == 0
        assert len(chooser._views) <= 64
    gateway.call(crowd, gateway, 2, "guest 0")
    assert (await chosen(gateway, Principal(Authority.FULL, "guest 0"))).considered == 2
    assert (await chosen(gateway, Principal(Authority.FULL, "ada"))).considered == 3


@sync
async def test_a_limit_keeps_the_best_and_the_chosen(gateway: ThreadedGateway) -> None:
    gateway.call(crowd, gateway, 60)
    async with gateway.http() as http:
        assert len((await route(http, "lathe"))["candidates"]) == 50
        decision = await route(http, "room 17", limit=3)
        assert (len(decision["candidates"]), decision["considered"]) == (3, 60)
        assert decision["candidates"][0]["display_name"] == "ada 17"
        assert len((await route(http, "lathe", limit=1000))["candidates"]) == 50
        named = await route(http, "room 17", limit=1, node="ada 40")
        assert [row["display_name"] for row in named["candidates"]] == ["ada 40"]


def named(number: int) -> list[CapabilitySchema]:
    return [CapabilitySchema(name=f"do.{number}.{each:03}", description=f"lathe{each} kettle") for each in range(256)]


def large(gateway: ThreadedGateway) -> NodeSession:
    """Put a node with many capabilities into the registry: reading it takes many steps."""
    (session,) = crowd(gateway, 1, "large")
    session.device.account = "ada"
    session.declare(named(0))
    session.device.approved = list(session.capabilities)
    gateway.service.gateway.chooser.changed(session)
    return session


@sync
async def test_what_happens_while_a_node_is_read(gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEP_SECONDS", 0)
    ada = Principal(Authority.FULL, "ada")
    await chosen(gateway, ada)
    session = gateway.call(large, gateway)
    hub = gateway.service.gateway

    def gone() -> None:
        hub.registry.remove(session)
        hub.chooser.changed(session)

    def back() -> None:
        hub.registry.add(session)
        session.description = "a telescope"
        hub.chooser.changed(session)

    def other() -> None:
        session.description = "a microscope"
        hub.chooser.changed(session)

    def paused() -> None:
        session.device.status = "paused"
        hub.chooser.changed(session)

    async def during(change: Callable[[], None], query: str) -> tuple[Decision, Decision]:
        """Return what is chosen when a node changes in the midst of being read, and what after that."""
        view = hub.chooser._view(ada)
        reading = asyncio.ensure_future(hub.chooser.choose(ada, query))
        async with asyncio.timeout(20):
            while view._look_now is None and not reading.done():
                await asyncio.sleep(0)
        assert view._look_now is not None, "it was read at one go"
        change()
        cancelled = asyncio.ensure_future(hub.chooser.choose(ada, query))
        await asyncio.sleep(0)
        cancelled.cancel()
        after = await hub.chooser.choose(ada, query)
        return await reading, after

    def read_again(number: int) -> None:
        session.declare(named(number))
        session.device.approved = list(session.capabilities)
        hub.chooser.changed(session)

    first, after = await asyncio.to_thread(lambda: gateway.run(during(gone, "kettle")))
    assert (first.choice, after.choice) == (None, None), "what is gone does not come back"
    gateway.call(back)
    assert (await chosen(gateway, ada, "telescope")).candidates[0].matched_terms == ["telescope"]
    gateway.call(read_again, 1)
    first, after = await asyncio.to_thread(lambda: gateway.run(during(other, "microscope")))
    assert after.candidates[0].matched_terms == ["microscope"]
    gateway.call(read_again, 2)
    first, after = await asyncio.to_thread(lambda: gateway.run(during(paused, "kettle")))
    assert (first.choice, after.choice) == (None, None)


@sync
async def test_commands_that_are_denied_while_the_model_thinks(gateway: ThreadedGateway) -> None:
    ada = Principal(Authority.FULL, "ada")
    await chosen(gateway, ada)
    gateway.call(crowd, gateway, 2)
    hub = gateway.service.gateway
    asked = 0

    async def ask(question: Question) -> str:
        nonlocal asked
        asked += 1
        hub.settings.denied_commands = ["echo"]
        if asked == 1:
            hub.chooser.commands_changed()
        label = next(iter(question.nodes))
        return json.dumps({"nodeId": label, "confidence": 1, "reason": ""})

    async def router() -> Router:
        return Router(Limits(), ask)

    def replace() -> None:
        hub.chooser._loading = asyncio.ensure_future(router())

    gateway.call(replace)
    decision = await chosen(gateway, ada, "camera")
    assert (decision.choice, decision.candidates, asked) == (None, [], 1)
    assert "has left meanwhile" in decision.tiers[0].reason
