"""Who is asked, over real sockets: for each relation who hears of a prompt, and that nobody else does or answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.asked import SEATS, Cast, Frame, Make, cast
from support.grants import grant
from support.running import sync, until

Call = Callable[[Cast], Awaitable["asyncio.Future[Any]"]]
ADAS_PEOPLE = {"ada-tab", "ada-page"}
BOBS_PEOPLE = {"bob-tab", "bob-page"}


def by_app(caller: str, node: str, command: str = "guarded") -> Call:
    """Let an app node call a node directly."""

    async def call(everybody: Cast) -> asyncio.Future[Any]:
        target = everybody[node].node_id
        _, future = everybody[caller].socket.start(node_id=target, command=command, params={"n": 1})
        return future  # type: ignore[no-any-return]

    return call


def by_client(caller: str, node: str, command: str = "guarded") -> Call:
    """Call a node by ``/ws/client`` or, of a web client, by ``/ws/gateway``."""

    async def call(everybody: Cast) -> asyncio.Future[Any]:
        seat, target = everybody[caller], everybody[node].node_id
        if SEATS[caller][1] == "client":
            await seat.send(type="invoke", id="call", node=target, command=command, params={"n": 1})
        else:
            request = {"node_id": target, "command": command, "params": {"n": 1}}
            await seat.send(type="node.invoke.request", id="call", **request)

        async def ended() -> Frame:
            kinds = ("result", "node.invoke.result")
            found = await until(lambda: [each for each in seat.frames if each["type"] in kinds], 20)
            frame: Frame = found[0]
            return {**frame, "ok": frame.get("ok", frame.get("success"))}

        return asyncio.ensure_future(ended())

    return call


def by_http(account: str, node: str, command: str = "guarded") -> Call:
    """Call a node by HTTP."""

    async def call(everybody: Cast) -> asyncio.Future[Any]:
        async def post() -> Frame:
            body = {"command": command, "params": {"n": 1}}
            answer = await everybody.http[account].post(f"/nodes/{everybody[node].node_id}/invoke", json=body)
            return {"ok": answer.status_code == 200, **answer.json()}

        return asyncio.ensure_future(post())

    return call


def in_turn_of(asker: str, node: str, command: str = "camera.snap") -> Call:
    """Let the agent of ``lab`` call a node in somebody's turn."""

    async def call(everybody: Cast) -> asyncio.Future[Any]:
        run = await turn_of(everybody, asker)
        _, future = everybody["lab"].socket.start(
            node_id=everybody[node].node_id, command=command, params={"n": 1}, run_id=run
        )
        return future  # type: ignore[no-any-return]

    return call


async def turn_of(everybody: Cast, asker: str) -> str:
    """Have the agent of ``lab`` begin a turn; return its run."""
    lab = everybody["lab"].socket
    chat = {"id": "chat", "message": "hi", "target_node_id": everybody["lab"].node_id}
    await everybody[asker].send(type="chat.send", **chat)
    await until(lambda: lab.runs, 20)
    return str(lab.runs[0]["run_id"])


def own_tool(asker: str) -> Call:
    """Let the agent of ``lab`` ask for a tool of its own."""

    async def call(everybody: Cast) -> asyncio.Future[Any]:
        lab = everybody["lab"]
        run = await turn_of(everybody, asker)
        summary = {"command": "shell", "params": '{"line": "ls"}'}
        await lab.send(type="permission.request", id="own", run_id=run, tool="shell", summary=summary)

        async def resolved() -> Frame:
            found = await until(
                lambda: [f for f in lab.frames if f["type"] == "permission.resolved" and f["id"] == "own"], 20
            )
            return {**found[0], "ok": found[0]["decision"] == "allow"}

        return asyncio.ensure_future(resolved())

    return call


TABLE: list[tuple[str, Call, str, set[str]]] = [
    # the caller is the device itself
    ("itself", by_app("ada-a", "ada-a"), "local", {"ada-a"}),
    # people of the same account
    ("tab", by_client("ada-tab", "ada-a"), "web", ADAS_PEOPLE | {"ada-a"}),
    ("page", by_client("ada-page", "ada-a"), "web", ADAS_PEOPLE | {"ada-a"}),
    ("http", by_http("ada", "ada-a"), "web", ADAS_PEOPLE | {"ada-a"}),
    ("to a device", by_client("ada-tab", "ada-phone"), "web", ADAS_PEOPLE | {"ada-phone"}),
    ("to an old device", by_client("ada-tab", "ada-old"), "web", ADAS_PEOPLE),
    ("to one that can't ask", by_http("ada", "ada-mute"), "web", ADAS_PEOPLE),
    # an app node of the same account
    ("app", by_app("ada-a", "ada-b"), "app", {"ada-a", "ada-b"}),
    ("app that can't ask", by_app("ada-mute", "ada-b"), "app", {"ada-b"}),
    ("app to one that can't ask", by_app("ada-a", "ada-mute"), "app", {"ada-a"}),
    ("app to a device", by_app("ada-a", "ada-phone"), "app", {"ada-a", "ada-phone"}),
    # somebody of another account
    ("foreign tab", by_client("bob-tab", "lab"), "cross_account", {"lab"}),
    ("foreign camera", by_client("bob-tab", "lab", "camera.snap"), "cross_account", {"lab"}),
    ("foreign page", by_client("bob-page", "lab"), "cross_account", {"lab"}),
    ("foreign http", by_http("bob", "lab"), "cross_account", {"lab"}),
    ("foreign app", by_app("bob-a", "lab"), "cross_account", {"lab"}),
    # turns: the rights are those of whoever asked
    ("own turn", in_turn_of("ada-tab", "ada-a"), "web", ADAS_PEOPLE | {"ada-a"}),
    ("own turn, the agent's device", in_turn_of("ada-tab", "lab"), "web", ADAS_PEOPLE | {"lab"}),
    ("app's turn", in_turn_of("ada-a", "ada-b"), "app", {"ada-a", "ada-b"}),
    ("app's turn, itself", in_turn_of("ada-a", "ada-a"), "local", {"ada-a"}),
    ("foreign turn, the agent's device", in_turn_of("bob-tab", "lab"), "cross_account", {"lab"}),
    ("foreign turn, the asker's device", in_turn_of("bob-tab", "bob-a"), "web", BOBS_PEOPLE | {"bob-a"}),
    ("own turn, the agent's tool", own_tool("ada-tab"), "web", ADAS_PEOPLE | {"lab"}),
    ("foreign turn, the agent's tool", own_tool("bob-tab"), "cross_account", {"lab"}),
]


@pytest.mark.parametrize(("call", "relation", "asked"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
@sync
async def test_who_is_asked_and_nobody_else(make_gateway: Make, call: Call, relation: str, asked: set[str]) -> None:
    async with cast(make_gateway) as everybody:
        ended = await call(everybody)
        prompts = {name: await everybody[name].prompt() for name in asked}
        await everybody.caught_up()
        assert everybody.asked() == asked
        # All of them see the same one, and what stands in it.
        ids = {prompt["id"] for prompt in prompts.values()}
        assert len(ids) == 1
        prompt_id = ids.pop()
        for prompt in prompts.values():
            assert prompt["relation"] == relation and prompt["decision"] == "" and prompt["summary"]["params"]
        owner = "bob" if asked & BOBS_PEOPLE else "ada"
        # Over HTTP it is the people who are asked that see it.
        for account in everybody.accounts:
            seen = [each["id"] for each in await everybody.waiting(account)]
            assert seen == ([prompt_id] if account == owner and asked & (ADAS_PEOPLE | BOBS_PEOPLE) else [])
        # Nothing runs, and whoever was not asked can't change that: the prompt does not exist for them.
        unknown = await everybody["eve-tab"].answer("no-such-prompt")
        for name, seat in everybody.seats.items():
            if name not in asked and name not in ("ada-mute", "ada-old"):
                refused = await seat.answer(prompt_id)
                assert {**refused, "id": ""} == {**unknown, "id": ""}, name
        for account, http in everybody.http.items():
            if account != owner or not asked & (ADAS_PEOPLE | BOBS_PEOPLE):
                answer = await http.post(f"/permissions/{prompt_id}", json={"decision": "allow"})
                assert (answer.status_code, answer.json()["code"]) == (404, "permission_unknown"), account
        assert not any(seat.calls for seat in everybody.seats.values())
        assert not ended.done()
        # The first answer of one that was asked counts, and closes it everywhere.
        first = everybody[sorted(asked)[0]]
        assert (await first.answer(prompt_id))["type"] == "permission.resolved"
        assert (await ended)["ok"]
        for name in asked:
            seat = everybody[name]
            await until(lambda seat=seat: prompt_id in {each["id"] for each in seat.closed()})
            assert (await seat.answer(prompt_id, "deny"))["code"] == "permission_resolved"
        await everybody.caught_up()
        for name, seat in everybody.seats.items():
            if name not in asked:
                assert prompt_id not in str(seat.closed()), name
        # The record is the asked account's alone.
        for account in everybody.accounts:
            kept = [each for each in await everybody.history(account) if each["id"] == prompt_id]
            assert len(kept) == (account == owner), account
            if kept:
                assert (kept[0]["decision"], kept[0]["reason"]) == ("allow", "answered")
                assert kept[0]["relation"] == relation and kept[0]["by"]


@pytest.mark.parametrize(("unattended", "code"), [(True, None), (False, "not_granted")])
@sync
async def test_the_holder_of_a_grant_never_has_anybody_asked(
    make_gateway: Make, unattended: bool, code: str | None
) -> None:
    async with cast(make_gateway) as everybody:
        _, headers = await grant(everybody.gateway, unattended_tools=unattended)
        async with everybody.gateway.http(headers=headers) as peer:
            body = {"command": "guarded", "params": {"n": 1}, "node": everybody["ada-phone"].node_id}
            answer = await peer.post("/nodes/peer-invoke", json=body)
        assert answer.json().get("code") == code, answer.text
        await everybody.caught_up()
        assert everybody.asked() == set()
        (kept,) = await everybody.history("ada")
        told = ("allow", "granted") if unattended else ("deny", "no_interface")
        assert (kept["decision"], kept["reason"], kept["relation"]) == (*told, "grant")


@pytest.mark.parametrize("command", ["camera.free", "echo"])
@sync
async def test_what_never_asks(make_gateway: Make, command: str) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", "lab", "bob-tab") as everybody:
        for call in (by_client("bob-tab", "lab", command), by_client("ada-tab", "ada-a", command)):
            assert (await (await call(everybody)))["ok"]
        assert (await (await in_turn_of("ada-tab", "ada-a", command)(everybody)))["ok"]
        assert everybody.asked() == set()


@sync
async def test_a_direct_call_of_ones_own_asks_only_where_the_capability_says_so(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", "ada-b") as everybody:
        for call in (by_client("ada-tab", "ada-a", "camera.snap"), by_app("ada-b", "ada-a", "camera.snap")):
            assert (await (await call(everybody)))["ok"]
        assert everybody.asked() == set()


@sync
async def test_a_node_that_answers_turns_can_not_leave_out_the_run(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-a", "lab", "ada-tab") as everybody:
        await turn_of(everybody, "ada-a")
        _, future = everybody["lab"].socket.start(node_id=everybody["ada-a"].node_id, command="camera.snap")
        prompt = await everybody["lab"].prompt()
        assert prompt["relation"] == "app" and prompt["run_id"] == ""
        await everybody["lab"].answer(prompt["id"], "deny")
        assert (await future)["error"]["code"] == "permission_denied"
