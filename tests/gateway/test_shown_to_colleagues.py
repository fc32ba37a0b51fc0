"""Of a shared node colleagues see what they may use: not what waits for its owner's answer, and not where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.client import BareClient
from support.gateways import Addresses, ThreadedGateway
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync

from suzent_jupyter.gateway.devices import Device


class Colleague(Addresses):
    """The same gateway as somebody of the same organisation reaches it."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        device = Device("", b"", "bob's token", scope="full", account="bob", org=gateway.config.org)
        _, self.token = gateway.run(gateway.service.gateway.credentials.adopt(device))
        self.url, self.service = gateway.url, gateway.service


def secrets_of(node: dict[str, Any]) -> tuple[str, list[str]]:
    return node["remote"], [each["name"] for each in node["pending_capabilities"]]


@sync
async def test_over_every_way_a_node_is_shown(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(org="lab")
    bobs = await asyncio.to_thread(Colleague, gateway)
    async with (
        KeyedNode(multinode_url(gateway), "Lab") as node,
        gateway.http() as http,
        bobs.http() as bobs_http,
        BareClient(gateway) as ada,
        BareClient(bobs) as bob,
    ):
        await admit(gateway, node)
        for client in (ada, bob):
            await client.send(type="subscribe", topics=["nodes"])
            await client.change("nodes", "snapshot")
        assert (await http.post("/nodes/Lab/scope", json={"scope": "enterprise"})).status_code == 200
        assert secrets_of((await bob.change("nodes", "added"))["item"]) == ("", [])
        await node.send({"type": "node.update", "node": {"capabilities": [{"name": "echo"}, {"name": "camera.snap"}]}})
        while (changed := await ada.change("nodes", "changed"))["item"]["pending_capabilities"] == []:
            pass
        known = "127.0.0.1", ["camera.snap"]
        assert secrets_of(changed["item"]) == known
        assert secrets_of((await bob.change("nodes", "changed"))["item"]) == ("", [])
        for each, seen in ((http, known), (bobs_http, ("", []))):
            (listed,) = (await each.get("/nodes")).json()["nodes"]
            assert secrets_of(listed) == secrets_of((await each.get("/nodes/Lab")).json()) == seen
            assert [capability["name"] for capability in listed["capabilities"]] == ["echo"]
        for each, code in ((http, "pending_reapproval"), (bobs_http, "unknown_command")):
            refused = (await each.post("/nodes/Lab/invoke", json={"command": "camera.snap", "params": {}})).json()
            assert refused["code"] == code
        await bob.send(type="subscribe", topics=["nodes"])
        assert secrets_of((await bob.change("nodes", "snapshot"))["item"][0]) == ("", [])
        assert (await http.post("/nodes/Lab/scope", json={"scope": "account"})).status_code == 200
        gone = (await bob.change("nodes", "removed"))["item"]
        assert (secrets_of(gone), gone["scope"]) == (("", []), "enterprise")
