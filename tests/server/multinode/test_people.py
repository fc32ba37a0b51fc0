"""Who is known without a key on ``/ws/gateway``: holders of a full token, and users who are logged in to Jupyter."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import websockets
from support.device import BareDevice
from support.gateways import JupyterServer, ThreadedGateway
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync, until

WEB = {"type": "connect", "role": "web"}


async def connect(url: str, frame: Any = None, **headers: str) -> dict[str, Any]:
    """Return the first answer to a ``connect`` without a JWT."""
    node = KeyedNode(url)
    node.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    await node.open()
    await node.send(WEB if frame is None else frame)
    answer = await node.recv()
    await node.ws.close()
    return answer


async def status(url: str, **headers: str) -> int:
    """Return with which status a handshake is refused."""
    with pytest.raises(websockets.InvalidStatus) as refused:
        await connect(url, **headers)
    return refused.value.response.status_code


@sync
async def test_the_holder_of_a_full_token_is_a_person(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)
    person = KeyedNode(url)
    person.headers = gateway.headers
    await person.open()
    await person.send(WEB)
    hello = await person.joined()
    assert (hello["account"], hello.get("node_id")) == ("ada", None)
    async with BareDevice(gateway.node_url, "Phone") as phone, gateway.http() as http:
        await gateway.pair(phone)
        assert (await person.recv("node.online"))["node"]["display_name"] == "Phone"
        await person.send({"type": "node.list", "id": 1})
        assert [node["display_name"] for node in (await person.recv("node.list"))["nodes"]] == ["Phone"]
        # It is no node itself, and what only nodes say is not taken from it.
        await person.send({"type": "node.update", "node": {"capabilities": [{"name": "x"}]}})
        assert (await http.get("/nodes")).json()["count"] == 1
    await person.ws.close()
    await until(lambda: len(gateway.service.gateway._clients) == 0)


@sync
async def test_a_token_ends_what_it_opened_when_it_is_revoked(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        made = (await http.post("/nodes/host-token", json={"name": "script"})).json()
        person = KeyedNode(multinode_url(gateway))
        person.headers = {"Authorization": f"Bearer {made['token']}"}
        await person.open()
        await person.send(WEB)
        await person.joined()
        await http.post(f"/nodes/devices/{made['device_id']}/revoke")
        assert (await person.closed())[0] == 4003
    dead = await connect(multinode_url(gateway), Authorization=f"Bearer {made['token']}")
    assert dead["code"] == "jwt_required"


@sync
async def test_on_the_listener_nobody_is_known_by_anything_else(gateway: ThreadedGateway) -> None:
    url = multinode_url(gateway)
    assert (await connect(url))["code"] == "jwt_required"
    assert (await connect(url, Cookie="username-127-0-0-1=ada"))["code"] == "jwt_required"
    assert (await connect(url, {"type": "connect", "role": "app", "node": {"name": "x"}}, **gateway.headers))[
        "code"
    ] == "jwt_required"
    assert (await connect(url, Authorization="Bearer szt_wrong"))["code"] == "jwt_required"
    async with BareDevice(gateway.node_url, "Phone") as phone:
        await gateway.pair(phone)
        assert (await connect(url, Authorization=f"Bearer {phone.token}"))["code"] == "jwt_required"


@sync
async def test_a_web_client_with_a_key_pairs_and_is_no_node(gateway: ThreadedGateway) -> None:
    node = KeyedNode(multinode_url(gateway), "Tablet", role="web")
    async with node, gateway.http() as http:
        await admit(gateway, node)
        assert node.hello.get("node_id") is None
        assert (await http.get("/nodes")).json()["count"] == 0
        device = (await http.get("/nodes/devices")).json()["devices"][0]
        await http.post(f"/nodes/devices/{device['device_id']}/status", json={"status": "paused"})
        assert (await node.closed())[0] == 4003
        async with KeyedNode(multinode_url(gateway), "Tablet", node.key, role="web") as paused:
            assert await paused.refusal() == ("paused", 1008)


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = JupyterServer(tmp_path_factory.mktemp("server"), "--ServerApp.allow_origin=*", base_url="/user/ada/")
    yield server
    server.stop()


async def cookie_of(server: JupyterServer) -> str:
    """Log in as a browser does, and return its cookies."""
    async with httpx.AsyncClient(follow_redirects=True) as http:
        await http.get(f"{server.root_url}login", params={"token": server.jupyter_token})
        return "; ".join(f"{name}={value}" for name, value in http.cookies.items())


@sync
async def test_the_browser_of_a_logged_in_user_needs_no_key(jupyter: JupyterServer) -> None:
    url = jupyter.mount.replace("http", "ws", 1) + "/ws/gateway"
    origin = jupyter.mount.split("/user")[0]
    cookie = await cookie_of(jupyter)
    assert (await connect(url, Cookie=cookie, Origin=origin))["type"] == "hello-ok"
    assert (await connect(url, Authorization=f"token {jupyter.jupyter_token}"))["type"] == "hello-ok"
    assert (await connect(url, Authorization=f"Bearer {jupyter.token}"))["type"] == "hello-ok"
    # As a node it still shows a key, and nobody is known by nothing.
    app = json.dumps({"type": "connect", "role": "app", "node": {"name": "x"}})
    assert (await connect(url, app, Cookie=cookie, Origin=origin))["code"] == "jwt_required"
    assert (await connect(url))["code"] == "jwt_required"
    assert (await connect(url, Authorization="token wrong"))["code"] == "jwt_required"


@sync
async def test_a_page_of_another_origin_does_not_get_in(jupyter: JupyterServer) -> None:
    """Even where the server allows every origin: this socket would know the user by the cookie alone."""
    url = jupyter.mount.replace("http", "ws", 1) + "/ws/gateway"
    cookie = await cookie_of(jupyter)
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert await status(url, Cookie=cookie, Origin=origin) == 403


@sync
async def test_a_node_joins_through_the_mount(jupyter: JupyterServer) -> None:
    url = jupyter.mount.replace("http", "ws", 1) + "/ws/gateway"
    async with KeyedNode(url) as node:
        await admit(jupyter, node)
        assert node.node_id
