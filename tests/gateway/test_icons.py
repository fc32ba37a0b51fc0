"""Every conversation says where it began and where it went, by three fields and the sign that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.chats import Person, begin, read
from support.client import BareClient
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.running import sync, until

from suzent_jupyter.gateway.answering.icons import icon_of

Record = dict[str, Any]


@pytest.mark.parametrize(
    ("channel", "local", "target", "enterprise", "icon"),
    [
        ("notebook", True, "", False, "local"),
        ("program", True, "", False, "local"),
        ("web", True, "", False, "web"),
        ("notebook", True, "n1", False, "sent-to-node"),
        ("web", True, "n1", False, "sent-to-node"),
        ("program", True, "n1", True, "enterprise"),
        ("node", False, "", False, "received-from-node"),
        ("node", False, "n1", False, "received-from-node"),
        ("node", False, "n1", True, "enterprise"),
        ("peer", False, "", False, "peer"),
        ("peer", False, "n1", True, "peer"),
        ("", True, "", False, "local"),  # from before this was kept
    ],
)
def test_the_sign_follows_from_the_fields(channel: str, local: bool, target: str, enterprise: bool, icon: str) -> None:
    made = icon_of(channel=channel, is_local_initiated=local, target_node_id=target, is_enterprise=enterprise)
    assert made == icon


async def conversation(gateway: ThreadedGateway, conversation_id: str) -> Record:
    async with gateway.http() as http:
        body: Record = (await http.get(f"/conversations/{conversation_id}")).json()
        listed = (await http.get("/conversations")).json()["conversations"]
    assert [each["icon"] for each in listed if each["conversation_id"] == conversation_id] == [body["icon"]]
    return {name: body[name] for name in ("icon", "isLocalInitiated", "targetNodeId", "sourceChannel")}


@sync
async def test_from_a_notebook_a_program_and_a_node(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway()

    async def answer(node: Worker, run: Record) -> str:
        return "done"

    async with Worker(gateway, "Lab", answer) as lab, BareClient(gateway) as notebook, Person(gateway) as person:
        for client in (notebook, person):
            accepted = await begin(client)
            await read(client, accepted["run_id"])
            assert await conversation(gateway, accepted["session_id"]) == {
                "icon": "sent-to-node",
                "isLocalInitiated": True,
                "targetNodeId": lab.node_id,
                "sourceChannel": "notebook",
            }
        async with Worker(gateway, "Desk") as desk:
            await desk.send({"type": "chat.send", "id": 1, "message": "hi", "session_id": "of-desk"})
            await until(lambda: any(frame["type"] == "chat.accepted" for frame in desk.frames))
            assert await conversation(gateway, "of-desk") == {
                "icon": "received-from-node",
                "isLocalInitiated": False,
                "targetNodeId": lab.node_id,
                "sourceChannel": "node",
            }
