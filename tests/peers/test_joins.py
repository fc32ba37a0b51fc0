"""A gateway joins another one as a node: two real gateways, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.client import BareClient
from support.gateways import Process, ThreadedGateway
from support.joiner import Joiner
from support.running import sync, until
from support.suzent import SuzentServer

MakeGateway = Callable[..., ThreadedGateway]
Pair = Callable[[Joiner, ThreadedGateway], Awaitable[dict[str, Any]]]


def nodes(gateway: ThreadedGateway) -> list[Any]:
    return list(gateway.call(lambda: gateway.service.gateway.list_nodes(gateway.service.kernel_token._principal)))


@sync
async def test_a_code_is_shown_and_approval_there_connects(ours: Joiner, theirs: ThreadedGateway) -> None:
    answer = await ours.connect(theirs.url.replace("http", "HTTP") + "/")
    assert answer["http"] == 200 and answer["success"] is True
    assert {name: answer[name] for name in ("gateway_url", "display_name", "status", "error")} == {
        "gateway_url": theirs.node_url,
        "display_name": "Ada's laptop",
        "status": "pending",
        "error": None,
    }
    assert "system.info" in answer["capabilities"]
    again = await ours.connect(theirs.node_url)
    assert again["pairing_code"] == answer["pairing_code"]

    await theirs.approve(answer["pairing_code"])
    joined = await ours.reach("connected")
    [node] = nodes(theirs)
    assert (node.display_name, node.node_id) == ("Ada's laptop", joined["node_id"])
    async with theirs.http() as http:
        info = (await http.post(f"/nodes/{node.node_id}/invoke", json={"command": "system.info"})).json()
    assert info["success"] and info["result"]["cpu"]["threads"] >= 1

    again = await ours.connect(theirs.node_url)
    assert (again["status"], again["node_id"]) == ("connected", node.node_id)
    [listed] = await ours.connections()
    assert listed["gateway_url"] == theirs.node_url and listed["since"] >= listed["added_at"] > ""

    async with ours.gateway.http() as http:
        entries = (await http.get("/audit")).json()["entries"]
    [called] = [entry for entry in entries if entry["action"] == "invoke"]
    assert called["command"] == "system.info" and called["actor"] == f"gateway:127.0.0.1:{theirs.service.port}"
    assert [entry["detail"]["gateway_url"] for entry in entries if entry["action"] == "gateway.connect"] == [
        theirs.node_url
    ]


@sync
async def test_work_for_others_does_not_hold_up_the_loop(ours: Joiner, theirs: ThreadedGateway, pair: Pair) -> None:
    joined = await pair(ours, theirs)
    late: list[float] = []

    async def watch() -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(0.005)
            late.append(time.monotonic() - asked - 0.005)

    watching = asyncio.run_coroutine_threadsafe(watch(), ours.gateway.loop)
    async with theirs.http() as http:
        # Each takes 0.1 s of its thread at the least.
        answers = await asyncio.gather(
            *(http.post(f"/nodes/{joined['node_id']}/invoke", json={"command": "system.info"}) for _ in range(8))
        )
    watching.cancel()
    assert all(answer.json()["success"] for answer in answers)
    assert len(late) > 5 and sorted(late)[len(late) // 2] < 0.05


@sync
async def test_the_other_side_goes_and_comes_back(
    ours: Joiner, theirs: ThreadedGateway, pair: Pair, make_gateway: MakeGateway
) -> None:
    first = await pair(ours, theirs)
    port = theirs.service.port
    await asyncio.to_thread(theirs.stop)
    lost = await ours.reach("reconnecting")
    assert lost["error"]
    back = await asyncio.to_thread(make_gateway, theirs.config.data_dir, account="bob", listener_port=port)
    assert back.service.port == port
    joined = await ours.reach("connected", 40)
    assert joined["node_id"] == first["node_id"] and joined["error"] is None
    assert [node.node_id for node in nodes(back)] == [first["node_id"]]


@sync
async def test_ours_restarts_and_is_connected_again(
    ours: Joiner, theirs: ThreadedGateway, pair: Pair, make_gateway: MakeGateway
) -> None:
    first = await pair(ours, theirs)
    stopped = time.monotonic()
    await asyncio.to_thread(ours.gateway.stop)
    assert time.monotonic() - stopped < 3
    await until(lambda: not nodes(theirs), what="the other side sees that we are gone")
    again = Joiner(await asyncio.to_thread(make_gateway, ours.gateway.config.data_dir))
    joined = await again.reach("connected")
    assert joined["node_id"] == first["node_id"] and joined["added_at"] == first["added_at"]
    async with theirs.http() as http:
        assert (await http.get("/nodes/pending")).json()["count"] == 0


@sync
async def test_killed_and_started_again(start_process: Callable[..., Process], theirs: ThreadedGateway) -> None:
    ours = await asyncio.to_thread(start_process)
    async with ours.http() as http:
        answer = (await http.post("/nodes/connect", json={"gateway_url": theirs.url})).json()
    await theirs.approve(answer["pairing_code"])
    await until(lambda: nodes(theirs))
    [first] = nodes(theirs)

    async def kept() -> bool:  # it says so once its new token is on disk
        async with ours.http() as http:
            [connection] = (await http.get("/nodes/connections")).json()["connections"]
        return bool(connection["status"] == "connected")

    async with asyncio.timeout(20):
        while not await kept():
            await asyncio.sleep(0.02)
    await asyncio.to_thread(ours.kill)
    await until(lambda: not nodes(theirs))
    await asyncio.to_thread(start_process)
    await until(lambda: nodes(theirs), 20)
    assert nodes(theirs)[0].node_id == first.node_id


@sync
async def test_a_gateway_that_says_no_goodbye_does_not_hold_up_the_stop(ours: Joiner) -> None:
    async with SuzentServer() as server:
        code = (await ours.connect(server.url))["pairing_code"]
        server.decide(code)
        joined = await ours.reach("connected")
        server.sockets[joined["node_id"]].transport.pause_reading()
        started = time.monotonic()
        await asyncio.to_thread(ours.gateway.stop)
        assert time.monotonic() - started < 3


@sync
async def test_disconnect_keeps_the_approval(
    ours: Joiner, theirs: ThreadedGateway, pair: Pair, make_gateway: MakeGateway
) -> None:
    first = await pair(ours, theirs)
    other_spelling = theirs.url.replace("127.0.0.1", "127.0.0.1.")
    left = await ours.disconnect(other_spelling)
    assert left == {"http": 200, "success": True, "message": f"Disconnected from {theirs.node_url}."}
    await until(lambda: not nodes(theirs))
    [kept] = await ours.connections()
    assert (kept["status"], kept["error"], kept["capabilities"]) == ("stopped", None, [])

    await asyncio.to_thread(ours.gateway.stop)
    again = Joiner(await asyncio.to_thread(make_gateway, ours.gateway.config.data_dir))
    assert [each["status"] for each in await again.connections()] == ["stopped"]
    answer = await again.connect(theirs.node_url)
    assert (answer["status"], answer["node_id"], answer["pairing_code"]) == ("connected", first["node_id"], None)

    await again.disconnect(theirs.node_url)
    assert "Forgot" in (await again.disconnect(theirs.node_url))["message"]
    assert await again.connections() == []
    unknown = await again.disconnect(theirs.node_url)
    assert (unknown["http"], unknown["code"], unknown["connections"]) == (404, "connection_unknown", [])
    assert (await again.connect(theirs.node_url))["status"] == "connected"
    unknown = await again.disconnect("ws://127.0.0.1:9/ws/node")
    assert unknown["connections"] == [theirs.node_url] and theirs.node_url in unknown["error"]


@sync
async def test_revoked_there_is_refused_here(
    ours: Joiner, theirs: ThreadedGateway, pair: Pair, make_gateway: MakeGateway
) -> None:
    joined = await pair(ours, theirs)
    async with theirs.http() as http:
        await http.post(f"/nodes/devices/{joined['node_id']}/revoke")
    refused = await ours.reach("refused")
    assert "revoked" in refused["error"]
    async with theirs.http() as http:
        assert (await http.get("/nodes/pending")).json()["count"] == 0

    # Nor does it ask again by itself at the next start.
    def written() -> bool:
        rows = ours.gateway.run(ours.gateway.service.joining._kept.load())
        return [row.wanted for row in rows] == [False]

    await asyncio.to_thread(lambda: [time.sleep(0.01) for _ in iter(written, True)])
    await asyncio.to_thread(ours.gateway.stop)
    again = Joiner(await asyncio.to_thread(make_gateway, ours.gateway.config.data_dir))
    assert [each["status"] for each in await again.connections()] == ["stopped"]
    answer = await again.connect(theirs.node_url)
    assert answer["status"] == "pending"  # its token was forgotten


@sync
async def test_denied_there_is_refused_here(ours: Joiner, theirs: ThreadedGateway) -> None:
    answer = await ours.connect(theirs.node_url)
    async with theirs.http() as http:
        await http.post(f"/nodes/pending/{answer['pairing_code']}/deny")
    refused = await ours.reach("refused")
    assert refused["error"] and refused["pairing_code"] is None
    assert (await ours.connect(theirs.node_url))["status"] == "pending"


@sync
async def test_name_and_capabilities(ours: Joiner, theirs: ThreadedGateway) -> None:
    answer = await ours.connect(theirs.node_url, name="Bench  3\x1b[31m", capabilities=["system.*"])
    assert (answer["display_name"], answer["capabilities"]) == ("Bench 3", ["system.info"])
    await theirs.approve(answer["pairing_code"])
    first = await ours.reach("connected")
    nothing = await ours.connect(theirs.node_url, capabilities=["toaster.*"])
    assert (nothing["http"], nothing["code"]) == (422, "invalid_request") and "system.info" in nothing["error"]
    assert (await ours.connections())[0]["status"] == "connected"

    renamed = await ours.connect(theirs.node_url, name="Bench 4")
    assert (renamed["status"], renamed["node_id"], renamed["display_name"]) == (
        "connected",
        first["node_id"],
        "Bench 4",
    )
    assert renamed["capabilities"] == ["system.info"]
    for body in ({"name": "\x00"}, {"capabilities": [""]}, {"capabilities": "x"}, {"gateway_url": 1}):
        wrong = await ours.ask("/nodes/connect", {"gateway_url": theirs.node_url, **body})
        assert (wrong["http"], wrong["code"]) == (422, "invalid_request"), body


@sync
async def test_the_gateways_own_name_and_denied_commands_are_followed(
    ours: Joiner, theirs: ThreadedGateway, pair: Pair
) -> None:
    first = await pair(ours, theirs)
    await ours.ask("/nodes/config", {"denied_commands": ["system.*"]})
    await until(lambda: "system.info" not in ours.now()[0]["capabilities"])
    async with theirs.http() as http:
        answer = await http.post(f"/nodes/{first['node_id']}/invoke", json={"command": "system.info"})
    assert answer.status_code != 200 or answer.json()["success"] is False
    await ours.ask("/nodes/config", {"denied_commands": [], "display_name": "Ada's desk"})
    await until(lambda: [node.display_name for node in nodes(theirs)] == ["Ada's desk"])
    again = await ours.reach("connected")
    assert again["node_id"] == first["node_id"] and "system.info" in again["capabilities"]


@sync
async def test_subscribers_hear_of_it(ours: Joiner, theirs: ThreadedGateway) -> None:
    async with BareClient(ours.gateway) as client:
        await client.send(type="subscribe", topics=["connections"])
        assert (await client.recv("change"))["item"] == []
        answer = await ours.connect(theirs.node_url)
        kinds, seen = [], []
        while "pending" not in seen:
            change = await client.recv("change")
            kinds.append(change["kind"])
            seen.append(change["item"]["status"])
        assert kinds[0] == "added" and set(kinds[1:]) == {"changed"}
        assert change["item"]["pairing_code"] == answer["pairing_code"]


@sync
async def test_a_suzent_server(ours: Joiner, make_gateway: MakeGateway) -> None:
    async with SuzentServer() as server:
        answer = await ours.connect(server.url)
        assert (answer["status"], answer["pairing_code"]) == ("pending", server.codes[0])
        server.decide(server.codes[0])
        joined = await ours.reach("connected")
        info = await server.invoke(joined["node_id"], "system.info")
        assert info["success"] and info["result"]["host"]
        failed = await server.invoke(joined["node_id"], "no.such")
        assert failed["success"] is False

        await asyncio.to_thread(ours.gateway.stop)
        await until(lambda: not server.sockets)
        again = Joiner(await asyncio.to_thread(make_gateway, ours.gateway.config.data_dir))
        back = await again.reach("connected")
        assert back["node_id"] == joined["node_id"] and len(server.codes) == 1

        await server.sockets[joined["node_id"]].close(1001)
        await until(lambda: len(server.hello) == 3 and server.sockets)
        await again.reach("connected")
        await again.disconnect(server.url)


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>\x1b[2J", "x" * 5000])
@sync
async def test_what_the_other_side_says_is_cleaned(ours: Joiner, hostile: str) -> None:
    async with SuzentServer() as server:
        server._numbers = iter([hostile, hostile])  # type: ignore[assignment]
        answer = await ours.connect(server.url)
        assert answer["status"] == "pending"
        assert answer["pairing_code"].isprintable() and len(answer["pairing_code"]) <= 64
        server.decide(server.codes[0], approved=False)
        assert (await ours.reach("refused"))["error"] == "Denied by operator"
