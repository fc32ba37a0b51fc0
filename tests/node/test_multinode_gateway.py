"""A node of ``/ws/gateway`` and our gateway together, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import hosts
from support.gateways import Addresses, JupyterServer, Process, ThreadedGateway
from support.running import until
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from suzent_jupyter.gateway.multinode import challenge as challenge_module
from suzent_jupyter.node import NodeHost, progress
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.wire import encode

MULTINODE: dict[str, Any] = {"protocol": "multinode", "capabilities": []}


def make_host(url: str, vault: Path) -> NodeHost:
    return hosts.make_host(url, vault, **MULTINODE)


def joined(gateway: Addresses, vault: Path, **options: Any) -> AbstractAsyncContextManager[NodeHost]:
    return hosts.joined(gateway, vault, **(MULTINODE | options))


def scan(points: int = 3) -> list[int]:
    """Scan."""
    for point in range(points):
        progress(point / points)
    return list(range(points))


async def call(gateway: Addresses, node: str | None, command: str, **params: Any) -> Any:
    async with gateway.http() as http:
        answer = await http.post(f"/nodes/{node}/invoke", json={"command": command, "params": params})
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


def test_pair_call_and_come_back_as_the_same_node(gateway: ThreadedGateway, tmp_path: Path) -> None:
    def text(size: int) -> str:
        return "x" * size

    async def main() -> None:
        async with gateway.http() as http:
            async with joined(gateway, tmp_path, capabilities=[scan, text], description="A bench") as host:
                first = host.node_id
                assert host.approved == ["scan", "text"] and host.account == "ada" and host.scope in ("", "account")
                assert host.gateway_id == gateway.service.gateway.identity
                [node] = (await http.get("/nodes")).json()["nodes"]
                assert (node["display_name"], node["description"]) == ("Bench", "A bench")
                assert await call(gateway, first, "scan", points="4") == [0, 1, 2, 3]
                body = {"command": "scan", "params": {"points": "x"}}
                assert (await http.post(f"/nodes/{first}/invoke", json=body)).status_code == 422
                assert len(await call(gateway, first, "text", size=12 * 2**20)) == 12 * 2**20
                body = {"command": "text", "params": {"size": 26 * 2**20}}
                large = (await http.post(f"/nodes/{first}/invoke", json=body)).json()
                assert large["success"] is False and "26,214,400" in large["error"]
                assert [each["node_id"] for each in await host.nodes()] == [first]
            async with joined(gateway, tmp_path, capabilities=[scan]) as host:
                assert host.node_id == first
            assert (await http.get("/nodes/devices")).json()["count"] >= 1

    asyncio.run(main())


def test_a_deadline_cancels_the_work_and_new_commands_wait(gateway: ThreadedGateway, tmp_path: Path) -> None:
    ended: list[str] = []

    async def watch() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("task")

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path, capabilities=[watch]) as host:
            url = f"/nodes/{host.node_id}/invoke"
            assert (await http.post(url, json={"command": "watch", "timeout": 0.3})).status_code == 504
            await until(lambda: ended == ["task"])
            host.update([watch, scan])
            await until(lambda: host.pending_approval == ["scan"])
            assert (await http.post(url, json={"command": "scan"})).status_code == 409
            [waiting] = (await http.get("/nodes/pending")).json()["pending"]
            await gateway.approve(waiting["pairing_code"])
            await until(lambda: host.approved == ["watch", "scan"])
            assert await call(gateway, host.node_id, "scan") == [0, 1, 2]

    asyncio.run(main())


def test_denied_revoked_and_taken_over(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def main() -> None:
        async with gateway.http() as http:
            denied = make_host(gateway.url, tmp_path)
            running = asyncio.create_task(denied.run())
            await until(lambda: denied.status == "pending")
            await http.post(f"/nodes/pending/{denied.pairing_code}/deny")
            assert await running == "refused" and "denied" in str(denied.last_error)

            async with joined(gateway, tmp_path) as first, joined(gateway, tmp_path) as second:
                await until(lambda: first.status == "refused")
                assert "another process" in str(first.last_error) and second.status == "connected"
                assert first.node_id == second.node_id
                await http.post(f"/nodes/devices/{second.node_id}/revoke")
                await until(lambda: second.status == "refused")
                assert "revoked" in str(second.last_error).casefold()
                revoked = second.node_id
            async with joined(gateway, tmp_path) as again:  # the same key asks anew
                assert again.node_id != revoked

    asyncio.run(main())


def test_two_nodes_of_one_name(gateway: ThreadedGateway, tmp_path: Path) -> None:
    def which() -> str:
        return "first"

    def other() -> str:
        return "second"

    async def main() -> None:
        async with (
            gateway.http() as http,
            joined(gateway, tmp_path / "a", capabilities=[which]) as first,
            joined(gateway, tmp_path / "b", capabilities=[other]) as second,
        ):
            assert first.node_id != second.node_id and first.status == "connected"
            both = await http.post("/nodes/Bench/invoke", json={"command": "which"})
            assert both.status_code == 409 and both.json()["code"] == "node_ambiguous"
            assert await call(gateway, first.node_id, "which") == "first"
            assert await call(gateway, second.node_id, "other") == "second"

    asyncio.run(main())


@pytest.mark.parametrize("hours", [-1, 1])
def test_clocks_an_hour_apart(
    gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(challenge_module, "time", SimpleNamespace(time=lambda: time.time() + hours * 3600))

    async def main() -> None:
        async with joined(gateway, tmp_path, capabilities=[scan]) as host:
            assert await call(gateway, host.node_id, "scan") == [0, 1, 2]

    asyncio.run(main())


def test_ticks_keep_both_sides(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    gateway = make_gateway(limits={"tick_interval": 0.1})
    statuses: list[str] = []

    async def main() -> None:
        async with joined(gateway, tmp_path, on_status=lambda host: statuses.append(host.status)) as host:
            begun = time.monotonic()
            await until(lambda: time.monotonic() - begun > 1.0)  # ten ticks
            assert host.status == "connected" and "reconnecting" not in statuses

    asyncio.run(main())


def test_a_gateway_that_was_killed_and_one_that_took_its_place(
    start_process: Callable[..., Process], make_gateway: Callable[..., ThreadedGateway], tmp_path: Path
) -> None:
    process = start_process()
    port = int(process.url.rpartition(":")[2])

    async def main() -> None:
        async with joined(process, tmp_path / "vault", capabilities=[scan]) as host:
            first = host.node_id
            await asyncio.to_thread(process.kill)
            await until(lambda: host.status == "reconnecting")
            again = await asyncio.to_thread(start_process, port=port)
            await until(lambda: host.status == "connected", 30)
            assert host.node_id == first and await call(again, first, "scan") == [0, 1, 2]
            await asyncio.to_thread(again.kill)
            another = await asyncio.to_thread(make_gateway, listener_port=port)
            await until(lambda: host.status == "refused", 30)
            assert "another gateway" in str(host.last_error)
            async with another.http() as http:
                assert (await http.get("/nodes/pending")).json()["count"] == 0  # it never saw a signature

    asyncio.run(main())


def test_by_a_pairing_link(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    gateway = make_gateway(require_ticket=True)

    async def main() -> None:
        uninvited = make_host(gateway.url, tmp_path / "a")
        assert await uninvited.run() == "refused" and "invited" in str(uninvited.last_error)
        ticket = gateway.call(gateway.service.gateway.tickets.mint, "ada").text
        link = f"{gateway.url}/node#join={ticket}&id={gateway.service.gateway.identity}"
        async with joined(gateway, tmp_path / "b", url=link) as host:
            first = host.node_id
        async with joined(gateway, tmp_path / "b", url=link) as host:  # used up, and not needed any more
            assert host.node_id == first
        elsewhere = make_host(f"{gateway.url}/node#join={ticket}&id=somebody-else", tmp_path / "c")
        assert await elsewhere.run() == "refused" and "another gateway" in str(elsewhere.last_error)

    asyncio.run(main())


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[str]:
    """Answer at an address of its own with what the gateway at ``target`` says, word by word."""

    async def serve_one(device: ServerConnection) -> None:
        async def copy(source: Any, sink: Any) -> None:
            with contextlib.suppress(ConnectionClosed):
                async for data in source:
                    await sink.send(data)
            await sink.close()

        async with connect(target) as gateway, asyncio.TaskGroup() as group:
            group.create_task(copy(device, gateway))
            group.create_task(copy(gateway, device))

    async with serve(serve_one, "127.0.0.1", 0, close_timeout=1) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


def test_whoever_passes_on_the_challenge_gets_no_known_signature(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def main() -> None:
        async with joined(gateway, tmp_path) as host:
            own = host.node_id
        async with gateway.http() as http, relay(f"{gateway.node_url.removesuffix('node')}gateway") as url:
            lured = make_host(url, tmp_path)
            running = asyncio.create_task(lured.run())
            await until(lambda: lured.status == "pending")  # a key nobody has approved
            assert (await http.get("/nodes")).json()["nodes"] == []
            lured.stop()
            await running
        async with joined(gateway, tmp_path) as host:
            assert host.node_id == own

    asyncio.run(main())


class Watched:
    """A run that the test gives to a node over the gateway's own socket, and what comes back."""

    def __init__(self, gateway: ThreadedGateway, host: NodeHost, run_id: str, **fields: Any) -> None:
        self.frames: list[dict[str, Any]] = []
        self._gateway = gateway
        self._session = gateway.service.gateway.registry.by_id(str(host.node_id))
        self._run_id = run_id
        frame = {"session_id": "s1", "message": "go", "is_remote_session": False, **fields}
        self.send("chat.run", **frame)

    def send(self, kind: str, **fields: Any) -> None:
        session = self._session
        assert session is not None

        def work() -> None:
            session.executing[self._run_id] = lambda frame, size: self.frames.append(frame)
            session.send_frame(encode({"type": kind, "run_id": self._run_id, **fields}))

        self._gateway.call(work)

    async def end(self) -> list[dict[str, Any]]:
        await until(lambda: self.frames and self.frames[-1]["event"]["type"] in ("RUN_FINISHED", "RUN_ERROR"), 20)
        assert [frame["seq"] for frame in self.frames] == list(range(len(self.frames)))
        return [frame["event"] for frame in self.frames]


def test_an_agent_streams_through_the_gateways_socket(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        for number in range(1000):
            yield f"{number}:{turn.is_remote_session} "
        if turn.message == "on":
            await asyncio.sleep(30)

    async def main() -> None:
        async with joined(gateway, tmp_path, agent=answer) as host:
            session = gateway.service.gateway.registry.by_id(str(host.node_id))
            assert session is not None and session.runs_chats and list(session.capabilities) == ["agent.run"]
            runs = [Watched(gateway, host, "r1"), Watched(gateway, host, "r2", is_remote_session=True)]
            for run, remote in zip(runs, ("False", "True"), strict=True):
                events = await run.end()
                deltas = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
                assert deltas == [f"{number}:{remote} " for number in range(1000)]
                assert events[-1]["type"] == "RUN_FINISHED"
            stopped = Watched(gateway, host, "r3", message="on")
            await until(lambda: len(stopped.frames) > 1000)
            stopped.send("chat.abort")
            assert (await stopped.end())[-1]["code"] == "cancelled"

    asyncio.run(main())


def test_through_jupyter(start_jupyter: Callable[..., JupyterServer], tmp_path: Path) -> None:
    server = start_jupyter(base_url="/user/ada/")

    async def main() -> None:
        async with joined(server, tmp_path / "vault", url=server.mount, capabilities=[scan]) as host:
            assert host.url.endswith("/user/ada/suzent/ws/gateway")
            assert await call(server, host.node_id, "scan") == [0, 1, 2]

    asyncio.run(main())


def test_progress_just_before_the_end_has_its_place(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def answer(turn: Turn) -> str:
        for step in range(50):
            progress(step / 50)
        if turn.message == "fail":
            raise ValueError("on purpose")
        return "done"

    async def main() -> None:
        async with joined(gateway, tmp_path, agent=answer) as host:
            for number, (message, end) in enumerate((("go", "RUN_FINISHED"), ("fail", "RUN_ERROR"))):
                events = await Watched(gateway, host, f"p{number}", message=message).end()
                assert events[-1]["type"] == end
                assert any(event["type"] == "CUSTOM" for event in events)

    asyncio.run(main())
