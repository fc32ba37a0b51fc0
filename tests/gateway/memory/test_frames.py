"""``memory.query`` and ``memory.save`` on ``/ws/gateway``: what each turn reaches, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.chats import begin
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.grants import grant
from support.memories import person
from support.running import sync, until

Make = Callable[..., ThreadedGateway]


def texts(result: dict[str, Any]) -> list[str]:
    assert result["ok"], result
    return sorted(each["content"] for each in result["memories"])


def refusal(result: dict[str, Any]) -> str:
    assert not result["ok"] and result["memories"] == []
    return str(result["error"]["code"])


class Talks:
    """A node's agent that goes on answering until it is told to end."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, node: Worker, run: dict[str, Any]) -> str:
        await self.go.wait()
        return "done"


@sync
async def test_in_a_turn_of_ones_own_and_outside_of_one(make_gateway: Make) -> None:
    gateway = make_gateway(org="red")
    work = Talks()
    async with (
        Worker(gateway, "Lab", work) as lab,
        BareClient(gateway) as client,
        gateway.http() as ada,
    ):
        await ada.post("/memory", json={"content": "of ada"})
        await ada.post("/memory", json={"content": "of red", "level": "enterprise"})
        assert texts(await lab.memory("query")) == ["of ada", "of red"]
        assert texts(await lab.memory("query", query="ada")) == ["of ada"]
        assert texts(await lab.memory("query", level="enterprise")) == ["of red"]
        saved = await lab.memory("save", content="by the lab", level="account", tags=["bench"])
        assert (saved["created"], saved["memories"][0]["by"]) == (True, f"node:{lab.node_id}")
        assert (await lab.memory("save", content="by the lab", level="account"))["created"] is False
        assert refusal(await lab.memory("save", content="x")) == "invalid_request"  # there is no conversation
        accepted = await begin(client, message="go")
        await until(lambda: lab.runs)
        run_id = accepted["run_id"]
        assert texts(await lab.memory("query", query="bench red", run_id=run_id)) == ["by the lab", "of red"]
        assert (await lab.memory("save", content="in this talk", run_id=run_id))["memories"][0]["level"] == "session"
        everything = ["by the lab", "in this talk", "of ada", "of red"]
        assert texts(await lab.memory("query", run_id=run_id)) == everything
        assert texts(await lab.memory("query")) == ["by the lab", "of ada", "of red"]
        place = {"session_id": accepted["session_id"], "level": "session"}
        shown = (await ada.get("/memory", params=place)).json()["memories"]
        assert [each["content"] for each in shown] == ["in this talk"]
        # What a frame says of levels, owners and turns gives nobody more.
        assert refusal(await lab.memory("query", run_id="0" * 16)) == "run_unknown"
        for wrong in ({"level": "world"}, {"limit": "x"}, {"limit": 0}, {"query": 7}, {"tags": {}}, {"run_id": 7}):
            assert refusal(await lab.memory("query", **wrong)) == "invalid_request", wrong
        work.go.set()
        await until(lambda: not gateway.service.gateway.runs.executed_by(lab.node_id))
        assert refusal(await lab.memory("query", run_id=run_id)) == "run_unknown"


@sync
async def test_leaving_the_turn_out_is_no_way_round(make_gateway: Make) -> None:
    gateway = make_gateway(org="red")
    gateway.service.gateway.waiting_account = None
    work = Talks()
    async with (
        Worker(gateway, "Lab", work) as lab,
        await person(gateway, "bob", "red") as bob,
        BareClient(gateway, bob.token) as client,
        gateway.http() as ada,
    ):
        await ada.post(f"/nodes/{lab.node_id}/scope", json={"scope": "enterprise"})
        await ada.post("/memory", json={"content": "of ada"})
        await bob.keep("of red", "enterprise")
        assert texts(await lab.memory("query")) == ["of ada", "of red"]
        accepted = await begin(client, message="go", target_node_id=lab.node_id)
        await until(lambda: lab.runs)
        for more in ({"run_id": accepted["run_id"]}, {}):
            assert texts(await lab.memory("query", **more)) == ["of red"]
            assert texts(await lab.memory("query", level="account", **more)) == []
            assert refusal(await lab.memory("save", content="x", level="account", **more)) == "permission_needed"
        work.go.set()
        await until(lambda: not gateway.service.gateway.runs.executed_in(_session(gateway, lab)))
        assert texts(await lab.memory("query")) == ["of ada", "of red"]
        # Nor while the node works on a call of his.
        lab.silent = True
        call = asyncio.create_task(bob.http.post(f"/nodes/{lab.node_id}/invoke", json={"command": "echo"}))
        await until(lambda: any(each["type"] == "node.invoke.request" for each in lab.frames))
        assert texts(await lab.memory("query")) == ["of red"]
        call.cancel()


@sync
async def test_for_the_holder_of_a_grant_there_is_its_conversation_alone(make_gateway: Make) -> None:
    gateway = make_gateway(org="red")
    work = Talks()
    _, headers = await grant(gateway)
    async with Worker(gateway, "Lab", work) as lab, gateway.http(headers=headers) as peer, gateway.http() as ada:
        await ada.post("/memory", json={"content": "of ada"})
        await ada.post("/memory", json={"content": "of red", "level": "enterprise"})
        turn = asyncio.create_task(peer.post("/channels/suzent/inbound", json={"content": "go"}))
        await until(lambda: lab.runs)
        run_id = lab.runs[0]["run_id"]
        assert texts(await lab.memory("query", run_id=run_id)) == []
        for level in ("account", "enterprise"):
            refused = await lab.memory("save", content="x", level=level, run_id=run_id)
            assert refusal(refused) == "permission_needed"
        assert (await lab.memory("save", content="of the peer", run_id=run_id))["ok"]
        assert texts(await lab.memory("query", run_id=run_id)) == ["of the peer"]
        assert texts(await lab.memory("query")) == []
        assert refusal(await lab.memory("save", content="x", level="enterprise")) == "permission_needed"
        work.go.set()
        await turn
        await until(lambda: not gateway.service.gateway.runs.executed_in(_session(gateway, lab)))
        assert texts(await lab.memory("query")) == ["of ada", "of red"]
        for path in ("/memory", "/memory?query=ada"):
            assert (await peer.get(path)).status_code == 403
        assert (await peer.post("/memory", json={"content": "x"})).status_code == 403
        assert (await peer.request("DELETE", "/memory", json={"everything": True})).status_code == 403


@sync
async def test_another_nodes_turn_and_a_node_that_is_paused(gateway: ThreadedGateway) -> None:
    work = Talks()
    async with (
        Worker(gateway, "Lab", work) as lab,
        Worker(gateway, "Bench", work) as bench,
        BareClient(gateway) as client,
        gateway.http() as ada,
        BareDevice(gateway.node_url) as phone,
    ):
        await gateway.pair(phone)
        accepted = await begin(client, message="go", target_node_id=lab.node_id)
        await until(lambda: lab.runs)
        assert refusal(await bench.memory("query", run_id=accepted["run_id"])) == "run_unknown"
        await ada.post(f"/nodes/devices/{bench.node_id}/status", json={"status": "paused"})
        for kind in ("query", "save"):
            await bench.send({"type": f"memory.{kind}", "id": "p", "content": "x", "level": "account"})
        await until(lambda: sum(each.get("code") == "paused" for each in bench.frames) == 2)
        # Devices of /ws/node have no such frames.
        await phone.send({"type": "memory.query", "id": "m"})
        await phone.send({"type": "ping"})
        assert (await ada.get("/memory")).json()["count"] == 0
        work.go.set()


def _session(gateway: ThreadedGateway, node: Worker) -> Any:
    return gateway.service.gateway.registry.by_id(node.node_id)
