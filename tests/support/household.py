"""Users of two organisations on one Jupyter server, logged in, with their nodes on both sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import websockets
from websockets.asyncio.client import ClientConnection

from .calls import store_loaded
from .device import BareDevice
from .executing import Worker
from .frames import next_frame
from .gateways import JupyterServer

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
USERS = {
    "ada": (["red"], "red"),
    "bob": (["hackers"], "red"),  # by `orgs`
    "eve": (["blue"], "blue"),
    "dan": (["green", "grey"], ""),  # of two groups none decides
}
#: Node → its owner, the socket it joins by, and its scope. Those of ``gateway`` have an agent.
NODES = {
    "ada-private": ("ada", "node", "account"),
    "ada-shared": ("ada", "gateway", "enterprise"),
    "bob-private": ("bob", "gateway", "account"),
    "bob-shared": ("bob", "node", "enterprise"),
    "eve-shared": ("eve", "node", "enterprise"),
    "eve-private": ("eve", "gateway", "account"),
    "dan-private": ("dan", "gateway", "account"),
}


def sees(user: str, node: str) -> bool:
    """Tell what must hold."""
    owner, _, scope = NODES[node]
    return user == owner or (scope == "enterprise" and USERS[user][1] == USERS[owner][1] != "")


def seen_by(user: str) -> list[str]:
    return sorted(node for node in NODES if sees(user, node))


def proxied(user: str, groups: str | None = None) -> dict[str, str]:
    """Return what the proxy says of a user."""
    return {"X-Forwarded-User": user, "X-Forwarded-Groups": ",".join(USERS[user][0]) if groups is None else groups}


class Line:
    """A user's open socket, ``/ws/client`` or, as a web client, ``/ws/gateway``."""

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws
        self.hello: dict[str, Any] = {}

    async def send(self, **frame: Any) -> None:
        await self.ws.send(json.dumps(frame))

    async def next(self, **wanted: Any) -> dict[str, Any]:
        """Return the next frame that has these values."""
        async with asyncio.timeout(15):
            while True:
                frame = await next_frame(self.ws, seconds=15)
                if all(frame.get(name) == value for name, value in wanted.items()):
                    return frame

    async def ask(self, **frame: Any) -> dict[str, Any]:
        """Send a frame and return the next with its id; progress is passed over."""
        await self.send(**frame)
        while (answer := await self.next(id=frame["id"]))["type"] in ("progress", "node.invoke.progress"):
            pass
        return answer

    async def event(self, run_id: str, kind: str) -> dict[str, Any]:
        """Return a run's next event of a type."""
        while True:
            frame = await self.next(type="chat.event", run_id=run_id)
            if frame["event"]["type"] == kind:
                return dict(frame["event"])

    async def heard(self) -> list[dict[str, Any]]:
        """Return all that came until now, by way of an answer that comes after it."""
        await self.send(type="chat.watch", id="now?", run_id="none")
        frames = []
        while (frame := await next_frame(self.ws)).get("id") != "now?":
            frames.append(frame)
        return frames


class Approver:
    """Approves nodes as one user; nobody else may see them wait."""

    def __init__(self, house: House, owner: str) -> None:
        self.url, self._house, self._owner = house.server.mount, house, owner

    async def approve(self, code: str) -> dict[str, Any]:
        for user, client in self._house.http.items():
            # Waiting devices belong to nobody: the code is all that leads to them.
            assert (await client.get("/nodes/pending")).json()["count"] == 0, user
        done = await self._house.http[self._owner].post(f"/nodes/pending/{code}/approve")
        assert done.status_code == 200, done.text
        return dict(done.json())


@dataclass
class House:
    """Everybody's clients, and the nodes by name."""

    server: JupyterServer
    stack: AsyncExitStack
    http: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    #: Prompts that begin with ``hold`` are answered once this is set.
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def socket(self, path: str) -> str:
        """Return the URL of a socket on the server where everybody is logged in."""
        return self.server.mount.replace("http", "ws", 1) + path

    async def client(self, user: str, groups: str | None = None) -> Line:
        """Open a ``/ws/client`` socket."""
        headers = proxied(user, groups)
        line = Line(
            await self.stack.enter_async_context(
                websockets.connect(self.socket("/ws/client"), additional_headers=headers)
            )
        )
        line.hello = await line.next(type="hello")
        return line

    async def web(self, user: str, groups: str | None = None) -> Line:
        """Open a ``/ws/gateway`` socket as a browser does."""
        headers = proxied(user, groups)
        line = Line(
            await self.stack.enter_async_context(
                websockets.connect(self.socket("/ws/gateway"), additional_headers=headers)
            )
        )
        await line.send(type="connect", role="web")
        line.hello = await line.next(type="hello-ok")
        return line

    async def log_in(self, user: str) -> httpx.AsyncClient:
        client = httpx.AsyncClient(base_url=self.server.mount, headers=proxied(user), timeout=20)
        self.http[user] = await self.stack.enter_async_context(client)
        page = await client.get(self.server.root_url + "api/me")
        assert page.json()["identity"]["username"] == user
        # Jupyter's XSRF cookie belongs to its pages; a program sends it back in the header.
        token = await client.get("/nodes/host-token")
        assert token.status_code == 405
        client.headers["X-XSRFToken"] = client.cookies.get("_xsrf", "")
        return client

    async def add(self, name: str, owner: str, path: str, scope: str = "account", **options: Any) -> Any:
        """Connect a node, approve it as its owner if it is new, and share it."""
        if path == "node":
            device = await self.stack.enter_async_context(BareDevice(self.socket("/ws/node"), name, **options))
            await Approver(self, owner).approve(await device.code())
            await device.joined()
            device.answer()
            node: Any = device
        else:
            approver: Any = Approver(self, owner)
            options.setdefault("features", ["cancel"])
            node = await self.stack.enter_async_context(Worker(approver, name, self._work, **options))
        if scope == "enterprise":
            await self.share(owner, node.node_id, scope)
        return node

    async def share(self, owner: str, node: str, scope: str) -> None:
        done = await self.http[owner].post(f"/nodes/{node}/scope", json={"scope": scope})
        assert done.status_code == 200, done.text
        assert done.json()["scope"] == scope

    async def _work(self, node: Worker, frame: dict[str, Any]) -> str:
        if frame["message"].startswith("hold"):
            await self.go.wait()
        return f"{node.node['name']} heard: {frame['message']}"


def start(start_jupyter: Callable[..., JupyterServer], tmp_path: Path, *options: str, **more: Any) -> JupyterServer:
    """Start the server; again over what the first one kept."""
    code = tmp_path / "code"
    code.mkdir(exist_ok=True)
    (code / "proxied_users.py").write_text(_PROVIDER)
    return start_jupyter(
        "--ServerApp.identity_provider_class=proxied_users.Provider",
        "--SuzentApp.multi_user=True",
        "--SuzentApp.account=ada",
        "--SuzentApp.orgs=@hackers=red",
        *options,
        PYTHONPATH=f"{code}:{Path(__file__).parents[2]}",
        **more,
    )


@asynccontextmanager
async def household(
    server: JupyterServer, nodes: dict[str, tuple[str, str, str]] | None = None
) -> AsyncIterator[House]:
    """Log everybody in, and connect every node and share it as it is to be."""
    await store_loaded(server)
    async with AsyncExitStack() as stack:
        house = House(server, stack)
        for user in USERS:
            await house.log_in(user)
        for name, (owner, path, scope) in (NODES if nodes is None else nodes).items():
            house.nodes[name] = await house.add(name, owner, path, scope)
            house.ids[name] = house.nodes[name].node_id
        yield house
