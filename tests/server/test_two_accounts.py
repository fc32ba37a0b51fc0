"""Users, organisations and nodes on one Jupyter server: everybody sees exactly what is theirs, over every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import websockets
from support.calls import error_of, store_loaded
from support.device import BareDevice
from support.gateways import JupyterServer
from support.keyed import KeyedNode

StartJupyter = Callable[..., JupyterServer]

_PROVIDER = '''
from jupyter_server.auth.identity import IdentityProvider, User


class Known(User):
    groups = ()


class Provider(IdentityProvider):
    """Tells users apart by a header that a proxy in front would set."""

    async def get_user(self, handler):
        name = handler.request.headers.get("X-Forwarded-User")
        if not name:
            return None
        handler._token_authenticated = True
        user = Known(username=name)
        user.groups = [each for each in handler.request.headers.get("X-Forwarded-Groups", "").split(",") if each]
        return user
'''
#: User → what the proxy says of their groups, and the organisation that follows from that.
_USERS = {
    "ada": (["red"], "red"),
    "bob": (["hackers"], "red"),  # by `orgs`
    "eve": (["blue"], "blue"),
    "dan": (["green", "grey"], ""),  # of two groups none decides
}
#: Node → its owner, the protocol it joins by, and its scope.
_NODES = {
    "ada-private": ("ada", "node", "account"),
    "ada-shared": ("ada", "gateway", "enterprise"),
    "bob-private": ("bob", "gateway", "account"),
    "bob-shared": ("bob", "node", "enterprise"),
    "eve-shared": ("eve", "node", "enterprise"),
    "dan-private": ("dan", "node", "account"),
}


def sees(user: str, node: str) -> bool:
    """What must hold."""
    owner, _, scope = _NODES[node]
    return user == owner or (scope == "enterprise" and _USERS[user][1] == _USERS[owner][1] != "")


def proxied(user: str) -> dict[str, str]:
    return {"X-Forwarded-User": user, "X-Forwarded-Groups": ",".join(_USERS[user][0])}


@dataclass
class House:
    server: JupyterServer
    http: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def socket(self, path: str) -> str:
        return self.server.mount.replace("http", "ws", 1) + path


def start(start_jupyter: StartJupyter, tmp_path: Path) -> JupyterServer:
    code = tmp_path / "code"
    code.mkdir()
    (code / "proxied_users.py").write_text(_PROVIDER)
    return start_jupyter(
        "--ServerApp.identity_provider_class=proxied_users.Provider",
        "--SuzentApp.multi_user=True",
        "--SuzentApp.account=ada",
        "--SuzentApp.orgs=@hackers=red",
        PYTHONPATH=f"{code}:{Path(__file__).parents[2]}",
    )


async def answer_keyed(node: KeyedNode) -> None:
    async for text in node.ws:
        frame = json.loads(text)
        if frame["type"] == "node.invoke.request":
            await node.send({"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": frame["params"]})


@asynccontextmanager
async def household(server: JupyterServer) -> AsyncIterator[House]:
    """Everybody logged in, every node connected and shared as it is to be."""
    await store_loaded(server)
    house = House(server)
    async with AsyncExitStack() as stack:
        for user in _USERS:
            client = httpx.AsyncClient(base_url=server.mount, headers=proxied(user), timeout=20)
            house.http[user] = await stack.enter_async_context(client)
            page = await client.get(server.root_url + "api/me")
            assert page.json()["identity"]["username"] == user
            # Jupyter's XSRF cookie belongs to its pages; a program sends it back in the header.
            token = await client.get("/nodes/host-token")
            assert token.status_code == 405
            client.headers["X-XSRFToken"] = client.cookies.get("_xsrf", "")
        for name, (owner, path, scope) in _NODES.items():
            kind = BareDevice if path == "node" else KeyedNode
            node: Any = await stack.enter_async_context(kind(house.socket(f"/ws/{path}"), name))  # type: ignore[operator]
            code = await node.code()
            for user, client in house.http.items():
                # Waiting devices belong to nobody: the code is all that leads to them.
                assert (await client.get("/nodes/pending")).json()["count"] == 0, user
            done = await house.http[owner].post(f"/nodes/pending/{code}/approve")
            assert done.status_code == 200, done.text
            await node.joined()
            house.ids[name] = node.node_id
            if path == "node":
                node.answer()
            else:
                task = asyncio.create_task(answer_keyed(node))
                stack.callback(task.cancel)
            if scope == "enterprise":
                shared = await house.http[owner].post(f"/nodes/{name}/scope", json={"scope": scope})
                if shared.status_code != 200:
                    raise AssertionError(shared.text)
        yield house


Way = Callable[[House, str, str], Awaitable[Any]]


async def described(house: House, user: str, reference: str) -> Any:
    answer = await house.http[user].get(f"/nodes/{reference}")
    return answer.status_code, answer.content


async def invoked(house: House, user: str, reference: str) -> Any:
    body = {"command": "echo", "params": {"a": 1}, "idempotency_key": f"{user}-{reference}"}
    answer = await house.http[user].post(f"/nodes/{reference}/invoke", json=body)
    return answer.status_code, answer.content


async def invoked_by_client(house: House, user: str, reference: str) -> Any:
    headers = {**proxied(user)}
    async with websockets.connect(house.socket("/ws/client"), additional_headers=headers) as socket:
        frame = {"type": "invoke", "id": "1", "node": reference, "command": "echo", "params": {}}
        await socket.send(json.dumps(frame))
        async for text in socket:
            answer = json.loads(text)
            if answer.get("id") == "1" and answer["type"] in ("result", "error"):
                return (200 if answer.get("success") else 404), text
    raise AssertionError("no answer")


async def invoked_by_web(house: House, user: str, reference: str) -> Any:
    headers = {**proxied(user)}
    async with websockets.connect(house.socket("/ws/gateway"), additional_headers=headers) as socket:
        await socket.send(json.dumps({"type": "connect", "role": "web"}))
        frame = {"type": "node.invoke.request", "id": "1", "node_id": reference, "command": "echo", "params": {}}
        sent = False
        async for text in socket:
            answer = json.loads(text)
            if answer["type"] == "hello-ok":
                assert (answer["account"], answer["org"]) == (user, _USERS[user][1])
            if not sent and answer["type"] == "hello-ok":
                sent = True
                await socket.send(json.dumps(frame))
            if answer.get("id") == "1":
                return (200 if answer.get("ok") else 404), text
    raise AssertionError("no answer")


#: Every way to name a node. What may not be seen must look as a name that nobody has.
NAMED: dict[str, Way] = {
    "describe": described,
    "invoke": invoked,
    "invoke over /ws/client": invoked_by_client,
    "node.invoke.request": invoked_by_web,
}


async def listed(house: House, user: str) -> list[str]:
    return [node["display_name"] for node in (await house.http[user].get("/nodes")).json()["nodes"]]


async def listed_over_gateway(house: House, user: str) -> list[str]:
    async with websockets.connect(house.socket("/ws/gateway"), additional_headers=proxied(user)) as socket:
        await socket.send(json.dumps({"type": "connect", "role": "web"}))
        await socket.send(json.dumps({"type": "node.list", "id": "1"}))
        async for text in socket:
            answer = json.loads(text)
            if answer["type"] == "node.list":
                return [node["display_name"] for node in answer["nodes"]]
    raise AssertionError("no list")


async def subscribed(house: House, user: str) -> list[str]:
    async with websockets.connect(house.socket("/ws/client"), additional_headers=proxied(user)) as socket:
        await socket.send(json.dumps({"type": "subscribe", "topics": ["nodes"]}))
        async for text in socket:
            answer = json.loads(text)
            if answer.get("kind") == "snapshot":
                return [node["display_name"] for node in answer["item"]]
    raise AssertionError("no snapshot")


#: Every way to see all nodes there are.
LISTS: dict[str, Callable[[House, str], Awaitable[list[str]]]] = {
    "GET /nodes": listed,
    "node.list": listed_over_gateway,
    "subscribe nodes": subscribed,
}
#: What is the owner's of the gateway alone.
OWNERS = [
    ("GET", "/nodes/config"),
    ("POST", "/nodes/config"),
    ("POST", "/nodes/connect"),
    ("POST", "/nodes/connect/stop"),
    ("GET", "/nodes/connections"),
    ("GET", "/nodes/discover"),
    ("GET", "/nodes/unauthorized"),
    ("GET", "/nodes/peers"),
    ("POST", "/nodes/control"),
    ("GET", "/nodes/control-status"),
]


def test_everybody_sees_exactly_what_is_theirs(start_jupyter: StartJupyter, tmp_path: Path) -> None:
    server = start(start_jupyter, tmp_path)

    async def work() -> None:
        async with household(server) as house:
            for user in _USERS:
                visible = sorted(node for node in _NODES if sees(user, node))
                for way, lists in LISTS.items():
                    assert sorted(await lists(house, user)) == visible, (way, user)
                for way, call in NAMED.items():
                    for node, node_id in house.ids.items():
                        await same_as_nobody(house, way, call, user, node, node_id)
            await owner_alone(house)
            await scope_is_live(house)

    asyncio.run(asyncio.wait_for(work(), 60))


async def same_as_nobody(house: House, way: str, call: Way, user: str, node: str, node_id: str) -> None:
    for reference in (node, node_id, node_id[:8]):
        status, answer = await call(house, user, reference)
        assert (status == 200) is sees(user, node), (way, user, node, answer)
        if status != 200:
            unknown = "".join(chr(ord("q") + index % 9) for index in range(len(reference)))
            status_of_nobody, of_nobody = await call(house, user, unknown)
            kind = type(answer)
            swapped = answer.replace(*(kind(x) if kind is str else x.encode() for x in (reference, unknown)))
            assert (status, swapped) == (status_of_nobody, of_nobody), (way, user, node)


async def owner_alone(house: House) -> None:
    for user in ("bob", "eve", "dan"):
        for method, url in OWNERS:
            answer = await house.http[user].request(method, url, json={} if method == "POST" else None)
            assert error_of(answer) == (403, "not_owner"), (user, method, url)
    assert (await house.http["ada"].get("/nodes/config")).status_code == 200


async def scope_is_live(house: House) -> None:
    """Whoever gains sight of a node is told so, whoever loses it too, and nobody else sets it."""
    assert error_of(await house.http["bob"].post("/nodes/ada-shared/scope", json={"scope": "account"})) == (
        403,
        "not_owner",
    )
    assert error_of(await house.http["eve"].post("/nodes/ada-shared/scope", json={"scope": "account"})) == (
        404,
        "node_not_found",
    )
    assert error_of(await house.http["dan"].post("/nodes/dan-private/scope", json={"scope": "enterprise"})) == (
        409,
        "no_org",
    )
    async with websockets.connect(house.socket("/ws/client"), additional_headers=proxied("bob")) as socket:
        await socket.send(json.dumps({"type": "subscribe", "topics": ["nodes"]}))
        for scope, kind in (("account", "removed"), ("enterprise", "added")):
            done = await house.http["ada"].post("/nodes/ada-shared/scope", json={"scope": scope})
            assert done.json()["scope"] == scope
            async for text in socket:
                frame = json.loads(text)
                if frame.get("kind") == kind and frame["item"]["display_name"] == "ada-shared":
                    break
