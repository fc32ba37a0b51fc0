"""What users of one Jupyter server do with nodes they share: told to whom it concerns, kept from everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import JupyterServer
from support.household import NODES, USERS, House, Line, household, proxied, start

from suzent_jupyter.protocol.client import TOPICS

StartJupyter = Callable[..., JupyterServer]


def keep(server: JupyterServer, work: Callable[[House], Awaitable[None]], nodes: Any = None) -> None:
    async def within() -> None:
        async with household(server, nodes) as house:
            await work(house)

    asyncio.run(asyncio.wait_for(within(), 90))


async def kinds(line: Line) -> list[tuple[str, str]]:
    """Return what a web client was told of nodes."""
    return [(frame["type"], frame["node"]["display_name"]) for frame in await line.heard() if frame["type"] != "tick"]


async def until(condition: Callable[[], Any]) -> Any:
    async with asyncio.timeout(10):
        while not (value := condition()):
            await asyncio.sleep(0.005)
        return value


def test_a_node_that_is_no_longer_shared_is_gone_at_once(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    nodes = {
        "shared": ("ada", "gateway", "enterprise"),
        "ada-private": ("ada", "node", "account"),
        "bob-private": ("bob", "gateway", "account"),
        "eve-private": ("eve", "gateway", "account"),
    }

    async def work(house: House) -> None:
        clients = {user: await house.client(user) for user in USERS}
        webs = {user: await house.web(user) for user in USERS}
        for line in clients.values():
            await line.send(type="subscribe", topics=["nodes"])
            await line.next(kind="snapshot")
        await what_is_under_way_ends(house, clients, webs)
        await whoever_sees_it_is_told(house, clients, webs)
        await its_owner_sets_it_while_it_is_away(house)

    keep(start(start_jupyter, tmp_path), work, nodes)


async def what_is_under_way_ends(house: House, clients: dict[str, Line], webs: dict[str, Line]) -> None:
    shared = house.nodes["shared"]
    runs = {}
    for user in ("ada", "bob"):
        accepted = await webs[user].ask(type="chat.send", id="chat", message=f"hold {user}", target_node_id="shared")
        runs[user] = accepted["run_id"]
        await clients[user].send(type="chat.watch", id="w", run_id=runs[user])
        await clients[user].event(runs[user], "RUN_STARTED")
    await until(lambda: len(shared.runs) == 2)
    shared.silent = True
    late = await invoke(house.http["bob"], "shared", timeout=0.05)
    assert error_of(late) == (504, "deadline")
    for user in ("ada", "bob"):
        await clients[user].send(type="invoke", id="call", node="shared", command="echo", params={})
        await webs[user].send(type="node.invoke.request", id="call", node_id="shared", command="echo", params={})
    bobs_own = house.nodes["bob-private"].start(node_id="shared", command="echo", params={})[1]
    agents = house.nodes["bob-private"].start(node_id="shared", agent="hold it")[1]
    await until(lambda: len([f for f in shared.frames if f["type"] == "node.invoke.request"]) == 6)
    await until(lambda: len(shared.runs) == 3)
    await house.share("ada", "shared", "account")
    lost = [
        await clients["bob"].next(id="call"),
        (await webs["bob"].next(id="call"))["error"],
        (await asyncio.wait_for(bobs_own, 10))["error"],
        (await asyncio.wait_for(agents, 10))["error"],
        await webs["bob"].event(runs["bob"], "RUN_ERROR"),
        await clients["bob"].event(runs["bob"], "RUN_ERROR"),
    ]
    for each in lost:
        assert each["code"] == "node_disconnected", each
        assert (each.get("message") or each["error"]) == "shared is no longer shared."
    # The node is told to stop both, and goes on with what its owner asked.
    of_bob = [run["run_id"] for run in shared.runs if run["run_id"] != runs["ada"]]
    await until(lambda: sorted(shared.aborted) == sorted(of_bob))
    await until(lambda: len([f for f in shared.frames if f["type"] == "node.invoke.cancel"]) == 4)
    calls = [f["id"] for f in shared.frames if f["type"] == "node.invoke.request"]
    cancelled = {f["id"] for f in shared.frames if f["type"] == "node.invoke.cancel"}
    for call in calls:
        result = "nobody's any more" if call in cancelled else "late"
        await shared.send({"type": "node.invoke.result", "id": call, "ok": True, "result": result})
    assert (await clients["ada"].next(id="call"))["result"] == "late"
    assert (await webs["ada"].next(id="call"))["result"] == "late"
    trail = await house.http["bob"].get("/audit")
    assert trail.json()["count"] > 3
    assert "nobody's any more" not in trail.text  # came too late to be bob's
    house.go.set()
    await webs["ada"].event(runs["ada"], "RUN_FINISHED")
    shared.silent = False
    # How it ended is kept with the prompt, which is bob's own.
    kept = (await house.http["bob"].get("/conversations")).json()["conversations"]
    assert all(each["status"] == "idle" for each in kept)
    await clients["bob"].send(type="chat.watch", id="w", run_id=runs["bob"])
    await clients["bob"].event(runs["bob"], "RUN_ERROR")


async def whoever_sees_it_is_told(house: House, clients: dict[str, Line], webs: dict[str, Line]) -> None:
    for line in (*clients.values(), *webs.values()):
        await line.heard()
    bobs_node, eves_node = house.nodes["bob-private"], house.nodes["eve-private"]
    for node in (bobs_node, eves_node):
        node.frames.clear()
    await house.share("ada", "shared", "enterprise")
    await house.share("ada", "shared", "enterprise")  # changes nothing
    assert await kinds(webs["bob"]) == [("node.online", "shared")]
    assert await kinds(webs["ada"]) == [("node.update", "shared")]
    await house.share("ada", "shared", "account")
    assert await kinds(webs["bob"]) == [("node.offline", "shared")]
    assert await kinds(webs["ada"]) == [("node.update", "shared")]
    for user, told in (("bob", ["added", "removed"]), ("ada", ["changed", "changed"])):
        frames = [f for f in await clients[user].heard() if f.get("topic") == "nodes"]
        assert [(f["kind"], f["item"]["display_name"]) for f in frames] == [(kind, "shared") for kind in told], user
    await until(lambda: [f["type"] for f in bobs_node.frames if f["type"] != "tick"] == ["node.online", "node.offline"])
    for user in ("eve", "dan"):
        assert [f for f in await clients[user].heard() if f["type"] == "change"] == []
        assert await kinds(webs[user]) == []
    assert [f for f in eves_node.frames if f["type"] != "tick"] == []


async def its_owner_sets_it_while_it_is_away(house: House) -> None:
    shared, node_id = house.nodes["shared"], house.ids["shared"]
    await shared.ws.close()
    ada = house.http["ada"]
    while (await ada.get("/nodes/shared")).status_code == 200:
        await asyncio.sleep(0.01)
    body = {"scope": "enterprise"}
    for user in ("bob", "eve"):
        answer = await house.http[user].post(f"/nodes/{node_id}/scope", json=body)
        assert error_of(answer) == (404, "node_not_found")
    assert error_of(await ada.post("/nodes/shared/scope", json=body)) == (404, "node_not_found")
    done = await ada.post(f"/nodes/{node_id}/scope", json=body)
    assert done.json() == {"success": True, "node_id": node_id, "scope": "enterprise", "org": "red"}
    # What it says of itself when it is back is a wish.
    again = await house.add("shared", "ada", "gateway", key=shared.key, scope="account")
    assert again.hello["scope"] == "enterprise"
    assert (await house.http["bob"].get("/nodes/shared")).json()["scope"] == "enterprise"
    assert (await house.http["eve"].get("/nodes/shared")).status_code == 404


def test_scopes_and_owners_are_kept_over_a_restart(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    nodes = {"shared": ("ada", "gateway", "enterprise"), "private": ("ada", "gateway", "account")}
    server = start(start_jupyter, tmp_path)
    kept: dict[str, Any] = {}

    async def before(house: House) -> None:
        kept.update({name: (node.key, node.node_id) for name, node in house.nodes.items()})

    async def after(house: House) -> None:
        for name, (key, node_id) in kept.items():
            node = await house.add(name, "ada", "gateway", key=key)
            assert node.node_id == node_id
            assert (node.hello["account"], node.hello["org"]) == ("ada", "red")
        for user, seen in (("ada", ["private", "shared"]), ("bob", ["shared"]), ("eve", []), ("dan", [])):
            listed = (await house.http[user].get("/nodes")).json()["nodes"]
            assert sorted(node["display_name"] for node in listed) == seen, user

    keep(server, before, nodes)
    server.stop()
    keep(start(start_jupyter, tmp_path), after, {})


def test_nobody_hears_of_what_others_do(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    async def work(house: House) -> None:
        quiet = {user: await house.client(user) for user in ("eve", "dan")}
        topics = {topic: await snapshot(quiet["dan"], topic) for topic in TOPICS}
        assert [node["display_name"] for node in topics.pop("nodes")] == ["dan-private"]
        assert [device["display_name"] for device in topics.pop("devices")] == ["dan-private"]
        assert set(map(str, topics.values())) == {"[]"}
        for topic in TOPICS:
            await snapshot(quiet["eve"], topic)
        for line in quiet.values():
            await line.heard()
        before = await house.http["dan"].post("/route", json={"query": "echo for dan"})
        bobs = await bob_at_work(house)
        await nobody_else_reaches_a_run(house, bobs)
        await conversations_of_one_name_are_two(house)
        await twins_are_counted_among_what_one_sees(house)
        await keys_do_not_meet(house)
        await invitations_and_grants(house)
        # Of all this not a word, and no score is another for it.
        after = await house.http["dan"].post("/route", json={"query": "echo for dan"})
        assert after.json()["choice"] == before.json()["choice"]
        assert after.json()["candidates"] == before.json()["candidates"]
        assert after.json()["candidates"][0]["bm25"] > 0
        for user, line in quiet.items():
            changes = [frame["item"] for frame in await line.heard() if frame["type"] == "change"]
            assert [each for each in changes if each.get("action") != "node.connect"] == [], user
            assert {each["node"] for each in changes} <= {node for node in NODES if user in node}
        for user in ("eve", "dan"):
            http = house.http[user]
            assert (await http.get("/conversations")).json()["conversations"] == []
            for url in ("/audit", "/nodes/devices", "/nodes/pending", "/nodes/grants", "/nodes"):
                text = (await http.get(url)).text
                for word in ("bob", "ada", *(house.ids[node] for node in house.ids if user not in node)):
                    assert word not in text, (user, url)
        documents = {(await house.http[user].get("/openapi.json")).content for user in USERS}
        assert len(documents) == 1

    keep(start(start_jupyter, tmp_path), work)


async def snapshot(line: Line, topic: str) -> list[Any]:
    await line.send(type="subscribe", topics=[topic])
    return list((await line.next(kind="snapshot", topic=topic))["item"])


async def bob_at_work(house: House) -> dict[str, Any]:
    """Have bob ask ada's node something, while it calls other nodes for him; return his run."""
    bob, shared = await house.client("bob"), house.nodes["ada-shared"]
    accepted = await bob.ask(type="chat.send", id="1", message="hold bob", target_node_id="ada-shared")
    (run,) = await until(lambda: shared.runs)
    assert run["is_remote_session"] is True
    run_id = accepted["run_id"]
    # In his turn the node has his rights: not its owner's.
    for node, code in (("ada-private", "node_not_found"), ("bob-private", "ok"), ("bob-shared", "ok")):
        assert await shared.code_of(house.ids[node], command="echo", params={}, run_id=run_id) == code, node
    assert await shared.code_of("ada-private", command="echo", params={}) == "ok"
    assert await shared.code_of("bob-private", command="echo", params={}) == "node_not_found"
    assert await shared.code_of("ada-private", agent="hello") == "node_not_found"  # counts as part of the deepest turn
    # No other node acts in it.
    for other in ("bob-private", "eve-private"):
        assert await house.nodes[other].code_of("bob-shared", command="echo", params={}, run_id=run_id) == "run_unknown"
    return accepted


async def nobody_else_reaches_a_run(house: House, bobs: dict[str, Any]) -> None:
    run_id = bobs["run_id"]
    ada, bob = house.http["ada"], house.http["bob"]
    for user in ("ada", "eve", "dan"):
        for line in (await house.client(user), await house.web(user)):
            for kind in ("chat.watch", "chat.abort"):
                answers = []
                for wanted in (run_id, "q" * len(run_id)):
                    answers.append(await line.ask(type=kind, id="1", run_id=wanted))
                    assert answers[-1]["code"] == "run_unknown"
                assert answers[0] == answers[1]
        node = await house.web(user)
        frame = {"type": "node.invoke.request", "id": "1", "node_id": "ada-shared", "command": "echo"}
        answer = await node.ask(**frame, run_id=run_id)
        assert answer["error"]["code"] == "run_unknown"
        stopped = await house.http[user].post("/chat/stop", json={"chat_id": bobs["session_id"]})
        assert error_of(stopped)[1] == "nothing_running"
        headers = {"Last-Event-ID": f"{run_id}:0"}
        resumed = await house.http[user].post("/chat", json={"message": "x"}, headers=headers)
        assert error_of(resumed)[1] == "run_unknown"
        for url in (f"/conversations/{bobs['session_id']}", "/conversations/" + "q" * len(bobs["session_id"])):
            assert error_of(await house.http[user].get(url))[1] == "conversation_unknown"
    assert (await ada.get("/conversations")).json()["count"] == 0
    assert await snapshot(await house.client("ada"), "runs") == []
    assert await snapshot(await house.client("ada"), "conversations") == []
    (running,) = await snapshot(await house.client("bob"), "runs")
    assert (running["run_id"], running["node_name"]) == (run_id, "ada-shared")
    # Two of one account may: what ada can't, bob's other window can.
    window = await house.web("bob")
    await window.send(type="chat.abort", run_id=run_id)
    await window.send(type="chat.watch", id="1", run_id=run_id)
    await window.event(run_id, "RUN_FINISHED")
    await until(lambda: house.nodes["ada-shared"].aborted == [run_id])
    (kept,) = (await bob.get("/conversations")).json()["conversations"]
    assert kept["conversation_id"] == bobs["session_id"]
    assert run_id not in (await ada.get("/audit")).text


async def conversations_of_one_name_are_two(house: House) -> None:
    """An agent that knows a conversation by its name must not take bob's for ada's."""
    shared, names = house.nodes["ada-shared"], {}
    for user in ("ada", "bob", "ada", "bob"):
        line = await house.web(user)
        sent = {"id": "1", "session_id": "notes", "message": f"{user}'s secret", "target_node_id": "ada-shared"}
        accepted = await line.ask(type="chat.send", **sent)
        assert accepted["session_id"] == "notes"
        await line.event(accepted["run_id"], "RUN_FINISHED")
        run = shared.runs[-1]
        assert names.setdefault(user, run["session_id"]) == run["session_id"]
        history = str(run["turn"])
        assert "secret" not in history or f"{user}'s secret" in history
        for other in {"ada", "bob"} - {user}:
            assert f"{other}'s secret" not in history
    assert names["ada"] == "notes"
    assert names["bob"] != "notes"
    for user in ("ada", "bob"):
        kept = (await house.http[user].get("/conversations/notes")).json()["messages"]
        assert len(kept) == 4
        assert {f"{user}'s secret", f"ada-shared heard: {user}'s secret"} == {each["content"] for each in kept}


async def twins_are_counted_among_what_one_sees(house: House) -> None:
    adas = await house.add("Twin", "ada", "node", "enterprise")
    bobs = await house.add("Twin", "bob", "gateway")
    third = await house.add("Twin", "bob", "node", "account")
    assert len({adas.node_id, bobs.node_id, third.node_id}) == 3
    answer = await house.http["ada"].get("/nodes/Twin")
    assert answer.json()["node_id"] == adas.node_id
    three = sorted([adas.node_id, bobs.node_id, third.node_id])
    bob = house.http["bob"]
    for answer in (
        await bob.get("/nodes/Twin"),
        await bob.post("/route", json={"query": "x", "node": "Twin"}),
        await bob.post("/nodes/Twin/scope", json={"scope": "account"}),
        await invoke(bob, "Twin"),
    ):
        assert error_of(answer) == (409, "node_ambiguous")
        assert answer.json()["ids"] == three
    line = await house.web("bob")
    told = await line.ask(type="chat.send", id="1", message="x", target_node_id="Twin")
    assert (told["code"], told["ids"]) == ("node_ambiguous", three)
    told = (await line.ask(type="node.invoke.request", id="1", node_id="Twin", command="echo"))["error"]
    assert (told["code"], told["ids"]) == ("node_ambiguous", three)
    # Once ada keeps hers to herself it counts for bob no more.
    await house.share("ada", adas.node_id, "account")
    answer = await bob.get("/nodes/Twin")
    assert answer.json()["ids"] == sorted([bobs.node_id, third.node_id])
    assert error_of(await house.http["eve"].get("/nodes/Twin")) == (404, "node_not_found")


async def keys_do_not_meet(house: House) -> None:
    for user in ("ada", "bob", "ada"):
        answer = await invoke(house.http[user], "ada-shared", params={"who": user}, idempotency_key="one key")
        assert answer.json()["result"] == {"who": user}
    other = await invoke(house.http["bob"], "ada-shared", params={"who": "?"}, idempotency_key="one key")
    assert error_of(other)[1] == "idempotency_conflict"
    eve = await invoke(house.http["eve"], "ada-shared", params={"who": "ada"}, idempotency_key="one key")
    assert error_of(eve) == (404, "node_not_found")


async def invitations_and_grants(house: House) -> None:
    # Whom a node is shared with may use it, and not govern it.
    for action, body in (("revoke", None), ("status", {"status": "paused"})):
        url = f"/nodes/devices/{house.ids['ada-shared']}/{action}"
        assert error_of(await house.http["bob"].post(url, json=body)) == (404, "device_unknown")
    # What it declares later waits for its owner alone.
    shared = house.nodes["ada-shared"]
    await shared.send({"type": "node.update", "node": {"capabilities": [{"name": "echo"}, {"name": "new.thing"}]}})
    ada = house.http["ada"]
    while not (waiting := (await ada.get("/nodes/pending")).json()["pending"]):
        await asyncio.sleep(0.01)
    assert waiting[0]["kind"] == "capabilities"
    for user in ("bob", "eve", "dan"):
        assert (await house.http[user].get("/nodes/pending")).json()["count"] == 0
        answer = await house.http[user].post(f"/nodes/pending/{waiting[0]['pairing_code']}/approve")
        assert error_of(answer) == (404, "code_unknown")
    assert error_of(await invoke(house.http["bob"], "ada-shared", "new.thing"))[1] == "unknown_command"
    assert (await ada.post(f"/nodes/pending/{waiting[0]['pairing_code']}/approve")).status_code == 200
    assert (await invoke(house.http["bob"], "ada-shared", "new.thing")).status_code == 200
    # A device that comes by bob's link waits for bob alone.
    invitation = (await house.http["bob"].post("/nodes/invite", json={"name": "Phone"})).json()
    async with BareDevice(house.socket("/ws/node"), "Phone", ticket=invitation["ticket"]) as phone:
        code = await phone.code()
        for user, http in house.http.items():
            assert (await http.get("/nodes/pending")).json()["count"] == (user == "bob"), user
        for user in ("ada", "eve", "dan"):
            for verb in ("approve", "deny"):
                answer = await house.http[user].post(f"/nodes/pending/{code}/{verb}")
                assert error_of(answer) == (404, "code_unknown")
        assert (await house.http["bob"].post(f"/nodes/pending/{code}/approve")).status_code == 200
        await phone.joined()
    async with httpx.AsyncClient(base_url=house.server.mount, timeout=20) as peer:
        asks = {"controller_name": "Lab", "controller_addr": "http://192.0.2.7:25314", "controller_identity": "lab"}
        asked = (await peer.post("/nodes/grant-request", json=asks)).json()
        for user, http in house.http.items():
            assert (await http.get("/nodes/grants")).json()["count"] == 0, user
        done = await house.http["bob"].post(f"/nodes/grants/{asked['request_id']}/approve", json={})
        assert done.status_code == 200, done.text
        granted = (await peer.get(f"/nodes/grant-status/{asked['request_id']}")).json()
        peer.headers["Authorization"] = f"Bearer {granted['token']}"
        # A control grant reaches its account's own nodes, never the organisation's.
        listed = [node["display_name"] for node in (await peer.get("/nodes")).json()["nodes"]]
        assert sorted(listed) == ["Twin", "Twin", "bob-private", "bob-shared"]
        for node, status in (("ada-shared", 404), ("bob-shared", 200)):
            body = {"node": node, "command": "echo", "params": {}}
            assert (await peer.post("/nodes/peer-invoke", json=body)).status_code == status, node
        assert error_of(await peer.post("/nodes/peer-offer", json={})) == (403, "not_owner")
    for user, http in house.http.items():
        assert ("Lab" in (await http.get("/nodes/devices")).text) is (user == "bob"), user


def test_a_socket_keeps_the_organisation_it_was_opened_with(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    nodes = {"shared": ("ada", "gateway", "enterprise"), "dans": ("dan", "gateway", "account")}

    async def work(house: House) -> None:
        dan = house.http["dan"]
        before = await house.web("dan")
        assert before.hello["org"] == ""
        dan.headers.update(proxied("dan", "red"))
        assert {node["display_name"] for node in (await dan.get("/nodes")).json()["nodes"]} == {"shared", "dans"}
        after = await house.web("dan", "red")
        assert after.hello["org"] == "red"
        for line, seen in ((before, {"dans"}), (after, {"shared", "dans"})):
            listed = await line.ask(type="node.list", id="1")
            assert {node["display_name"] for node in listed["nodes"]} == seen
        # Sharing takes the organisation of the owner as it is then.
        await house.share("dan", "dans", "enterprise")
        assert (await house.http["bob"].get("/nodes/dans")).status_code == 200
        # So does the node itself, when it connects again.
        node = house.nodes["dans"]
        assert node.hello["org"] == ""
        assert await node.code_of("shared", command="echo", params={}) == "node_not_found"
        await node.ws.close()
        while (await dan.get("/nodes/dans")).status_code == 200:
            await asyncio.sleep(0.01)
        node = await house.add("dans", "dan", "gateway", key=node.key)
        assert node.hello["org"] == "red"
        assert await node.code_of("shared", command="echo", params={}) == "ok"
        dan.headers.update(proxied("dan", "blue"))
        await house.share("dan", "dans", "enterprise")
        assert (await house.http["bob"].get("/nodes/dans")).status_code == 404
        assert (await house.http["eve"].get("/nodes/dans")).status_code == 200

    keep(start(start_jupyter, tmp_path), work, nodes)


def test_users_of_a_second_server_are_themselves_at_the_first_ones_gateway(
    start_jupyter: StartJupyter, tmp_path: Path
) -> None:
    nodes = {"ada-private": ("ada", "node", "account"), "ada-shared": ("ada", "gateway", "enterprise")}
    first = start(start_jupyter, tmp_path)
    second = start(start_jupyter, tmp_path)

    async def work(house: House) -> None:
        house.server = second  # from here on
        for user, seen in (
            ("ada", {"ada-private", "ada-shared"}),
            ("bob", {"ada-shared"}),
            ("eve", set()),
            ("dan", set()),
        ):
            http = await house.log_in(user)
            listed = (await http.get("/nodes")).json()["nodes"]
            assert {node["display_name"] for node in listed} == seen, user
            config = await http.post("/nodes/config", json={})
            assert config.status_code == (200 if user == "ada" else 403), user
            web, client = await house.web(user), await house.client(user)
            assert (web.hello["account"], web.hello["org"]) == (user, USERS[user][1])
            assert client.hello["account"] == user
            told = await web.ask(type="node.list", id="1")
            assert {node["display_name"] for node in told["nodes"]} == seen, user
            assert (await invoke(http, "ada-private")).status_code == (200 if user == "ada" else 404)

    keep(first, work, nodes)
    assert second.stop() == 0
