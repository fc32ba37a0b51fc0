"""Users, organisations and nodes on one Jupyter server: everybody sees exactly what is theirs, over every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.calls import error_of
from support.gateways import JupyterServer
from support.household import NODES, USERS, House, Line, household, seen_by, sees, start

StartJupyter = Callable[..., JupyterServer]


class Seats:
    """One socket of each kind for each user, and the app node of each."""

    clients: dict[str, Line]
    webs: dict[str, Line]

    async def sit(self, house: House) -> Seats:
        self.clients = {user: await house.client(user) for user in USERS}
        self.webs = {user: await house.web(user) for user in USERS}
        for user, web in self.webs.items():
            assert (web.hello["account"], web.hello["org"]) == (user, USERS[user][1])
            assert self.clients[user].hello["account"] == user
        self.apps = {owner: house.nodes[name] for name, (owner, path, _) in NODES.items() if path == "gateway"}
        assert set(self.apps) == set(USERS)
        return self


Way = Callable[[House, Seats, str, str], Awaitable[Any]]
#: What a node that exists may say all the same, to a prompt.
_HAS_NO_AGENT = "not_executable"


async def described(house: House, _: Seats, user: str, reference: str) -> Any:
    answer = await house.http[user].get(f"/nodes/{reference}")
    return answer.status_code, answer.content


async def invoked(house: House, _: Seats, user: str, reference: str) -> Any:
    body = {"command": "echo", "params": {"a": 1}, "idempotency_key": f"{user}-{reference}"}
    answer = await house.http[user].post(f"/nodes/{reference}/invoke", json=body)
    return answer.status_code, answer.content


async def routed(house: House, _: Seats, user: str, reference: str) -> Any:
    answer = await house.http[user].post("/route", json={"query": "echo", "node": reference})
    if answer.status_code == 200:
        assert answer.json()["choice"]["tier"] == "manual"
        assert {each["display_name"] for each in answer.json()["candidates"]} <= set(seen_by(user))
    return answer.status_code, answer.content


async def invoked_by_client(_: House, seats: Seats, user: str, reference: str) -> Any:
    answer = await seats.clients[user].ask(type="invoke", id="1", node=reference, command="echo", params={})
    return (200 if answer["success"] else answer["status"]), json.dumps(answer)


async def invoked_by_web(_: House, seats: Seats, user: str, reference: str) -> Any:
    frame = {"type": "node.invoke.request", "id": "1", "node_id": reference, "command": "echo", "params": {}}
    return of_result(await seats.webs[user].ask(**frame))


async def agent_asked_by_web(_: House, seats: Seats, user: str, reference: str) -> Any:
    frame = {"type": "node.invoke.request", "id": "1", "node_id": reference, "agent": "hello"}
    return of_result(await seats.webs[user].ask(**frame), _HAS_NO_AGENT)


async def invoked_by_app(_: House, seats: Seats, user: str, reference: str) -> Any:
    return of_result(await seats.apps[user].call(reference, command="echo", params={}))


async def agent_asked_by_app(_: House, seats: Seats, user: str, reference: str) -> Any:
    # Its own agent would be part of the very same turn.
    return of_result(await seats.apps[user].call(reference, agent="hello"), _HAS_NO_AGENT, "dispatch_cycle")


def of_result(answer: dict[str, Any], *but: str) -> Any:
    code = "ok" if answer["ok"] else answer["error"]["code"]
    assert code in ("ok", "node_not_found", *but), answer
    return (404 if code == "node_not_found" else 200), json.dumps({**answer, "id": ""})


async def chatted(line: Line, reference: str) -> Any:
    answer = await line.ask(type="chat.send", id="1", message="hello", target_node_id=reference)
    if answer["type"] == "chat.accepted":
        assert answer["tier"] == "manual"
        await line.event(answer["run_id"], "RUN_FINISHED")
        return 200, json.dumps(answer)
    assert answer["code"] in ("node_not_found", _HAS_NO_AGENT), answer
    return (404 if answer["code"] == "node_not_found" else 200), json.dumps(answer)


async def chatted_by_client(_: House, seats: Seats, user: str, reference: str) -> Any:
    return await chatted(seats.clients[user], reference)


async def chatted_by_web(_: House, seats: Seats, user: str, reference: str) -> Any:
    return await chatted(seats.webs[user], reference)


#: Every way to name a node. What may not be seen must look as a name that nobody has.
NAMED: dict[str, Way] = {
    "describe": described,
    "invoke": invoked,
    "route": routed,
    "invoke over /ws/client": invoked_by_client,
    "node.invoke.request": invoked_by_web,
    "node.invoke.request of an agent": agent_asked_by_web,
    "node.invoke.request by a node": invoked_by_app,
    "node.invoke.request of an agent by a node": agent_asked_by_app,
    "chat.send over /ws/client": chatted_by_client,
    "chat.send over /ws/gateway": chatted_by_web,
}


async def listed(house: House, _: Seats, user: str) -> list[str]:
    return [node["display_name"] for node in (await house.http[user].get("/nodes")).json()["nodes"]]


async def listed_over_gateway(_: House, seats: Seats, user: str) -> list[str]:
    answer = await seats.webs[user].ask(type="node.list", id="list")
    return [node["display_name"] for node in answer["nodes"]]


async def listed_to_a_node(_: House, seats: Seats, user: str) -> list[str]:
    app = seats.apps[user]
    app.frames.clear()
    await app.send({"type": "node.list", "id": "list"})
    async with asyncio.timeout(10):
        while not (found := [frame for frame in app.frames if frame.get("id") == "list"]):
            await asyncio.sleep(0.005)
    return [node["display_name"] for node in found[0]["nodes"]]


async def subscribed(_: House, seats: Seats, user: str) -> list[str]:
    await seats.clients[user].send(type="subscribe", topics=["nodes"])
    answer = await seats.clients[user].next(topic="nodes", kind="snapshot")
    await seats.clients[user].send(type="unsubscribe", topics=["nodes"])
    return [node["display_name"] for node in answer["item"]]


async def considered(house: House, _: Seats, user: str) -> list[str]:
    answer = (await house.http[user].post("/route", json={"query": "echo private shared"})).json()
    assert answer["choice"]["display_name"] in seen_by(user)
    return [each["display_name"] for each in answer["candidates"]]


#: Every way to see all nodes there are.
LISTS: dict[str, Callable[[House, Seats, str], Awaitable[list[str]]]] = {
    "GET /nodes": listed,
    "node.list": listed_over_gateway,
    "node.list to a node": listed_to_a_node,
    "subscribe nodes": subscribed,
    "POST /route": considered,
}
#: What is the owner's of the gateway alone.
OWNERS = [
    ("POST", "/nodes/config"),
    ("POST", "/nodes/connect"),
    ("POST", "/nodes/connect/stop"),
    ("GET", "/nodes/connections"),
    ("GET", "/nodes/discover"),
    ("GET", "/nodes/peers"),
    ("GET", "/nodes/peers/x/capabilities"),
    ("POST", "/nodes/peers/x/invoke"),
    ("POST", "/nodes/peers/x/trigger"),
    ("POST", "/nodes/peers/x/stop"),
    ("POST", "/nodes/peers/x/mode"),
    ("POST", "/nodes/peers/x/reverse"),
    ("POST", "/nodes/peers/x/remove"),
    ("GET", "/nodes/peers/x/files/y"),
    ("POST", "/nodes/peer-offer"),
    ("POST", "/nodes/control"),
    ("GET", "/nodes/control-status"),
]


def test_everybody_sees_exactly_what_is_theirs(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    server = start(start_jupyter, tmp_path)

    async def work() -> None:
        async with household(server) as house:
            seats = await Seats().sit(house)
            for user in USERS:
                for way, lists in LISTS.items():
                    assert sorted(await lists(house, seats, user)) == seen_by(user), (way, user)
                for way, call in NAMED.items():
                    for node, node_id in house.ids.items():
                        await same_as_nobody(house, seats, way, call, user, node, node_id)
            await executors_alone(house)
            await owner_alone(house)
            await scope_is_the_owners(house)

    asyncio.run(asyncio.wait_for(work(), 120))


async def same_as_nobody(house: House, seats: Seats, way: str, call: Way, user: str, node: str, node_id: str) -> None:
    for reference in (node, node_id, node_id[:8]):
        status, answer = await call(house, seats, user, reference)
        assert (status == 200) is sees(user, node), (way, user, node, answer)
        if status != 200:
            unknown = "".join(chr(ord("q") + index % 9) for index in range(len(reference)))
            status_of_nobody, of_nobody = await call(house, seats, user, unknown)
            kind = type(answer)
            swapped = answer.replace(*(kind(x) if kind is str else x.encode() for x in (reference, unknown)))
            assert (status, swapped) == (status_of_nobody, of_nobody), (way, user, node)


async def executors_alone(house: House) -> None:
    """Among the nodes that could carry out a chat are only one's own and shared ones; no other counts for a score."""
    for user in USERS:
        answer = (await house.http[user].post("/route", json={"query": "echo", "executors": True})).json()
        able = [node for node in seen_by(user) if NODES[node][1] == "gateway"]
        assert sorted(each["display_name"] for each in answer["candidates"]) == able, user
        assert {each["node_id"] for each in answer["candidates"]} == {house.ids[node] for node in able}


async def owner_alone(house: House) -> None:
    for user in ("bob", "eve", "dan"):
        for method, url in OWNERS:
            answer = await house.http[user].request(method, url, json={} if method == "POST" else None)
            assert error_of(answer) == (403, "not_owner"), (user, method, url)
    assert (await house.http["ada"].get("/nodes/config")).status_code == 200


async def scope_is_the_owners(house: House) -> None:
    body = {"scope": "account"}
    assert error_of(await house.http["bob"].post("/nodes/ada-shared/scope", json=body)) == (403, "not_owner")
    for user, reference in (("eve", "ada-shared"), ("eve", house.ids["ada-shared"]), ("bob", house.ids["ada-private"])):
        answer = await house.http[user].post(f"/nodes/{reference}/scope", json=body)
        assert error_of(answer) == (404, "node_not_found")
        nobody = await house.http[user].post(f"/nodes/{'q' * len(reference)}/scope", json=body)
        assert answer.text.replace(reference, "q" * len(reference)) == nobody.text
    done = await house.http["dan"].post("/nodes/dan-private/scope", json={"scope": "enterprise"})
    assert error_of(done) == (409, "no_org")
