"""A turn that nobody chose a node for is one of that node's all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.executing import Worker
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync, until

Make = Callable[..., ThreadedGateway]


@sync
async def test_its_agent_can_not_leave_out_the_turn_and_may_name_it(make_gateway: Make) -> None:
    gateway, go = make_gateway(), asyncio.Event()

    async def work(node: Worker, run: dict[str, Any]) -> str:
        await go.wait()
        return "done"

    _, headers = await grant(gateway)
    async with (
        Worker(gateway, "Cam", work, capabilities=[{"name": "camera.snap"}]) as cam,
        Worker(gateway, "Lab", work, features=["permissions", "agent"]) as lab,
        gateway.http(headers=headers) as peer,
    ):
        assert await lab.code_of(cam.node_id, command="camera.snap") == "ok"
        turn = asyncio.create_task(peer.post("/channels/suzent/inbound", json={"content": "go"}))
        await until(lambda: lab.runs or turn.done(), 20)
        run_id = lab.runs[0]["run_id"]
        lab.start(node_id=cam.node_id, command="camera.snap")
        asked = await until(lambda: [each for each in lab.frames if each["type"] == "permission.request"], 20)
        assert asked[0]["relation"] == "app"
        # In the name of the turn the grant's rights count, and for those nobody is asked.
        assert await lab.code_of(cam.node_id, command="camera.snap", run_id=run_id) == "not_granted"
        await lab.send({"type": "permission.request", "id": "r", "run_id": run_id, "tool": "shell", "summary": {}})
        (end,) = await until(lambda: [each for each in lab.frames if each.get("id") == "r"], 20)
        assert (end["type"], end.get("decision"), end.get("code")) == ("permission.resolved", "deny", "not_granted")
        # Nor is an agent asked for the very turn it answers.
        assert await lab.code_of(lab.node_id, agent="go on", run_id=run_id) == "dispatch_cycle"
        assert await lab.code_of(lab.node_id, agent="go on") == "dispatch_cycle"
        go.set()
        assert (await turn).status_code == 200
