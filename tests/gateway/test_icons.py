"""Every conversation says where it began and where it went, by three fields and the sign that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.chats import Person, begin, read
from support.client import BareClient
from support.executing import Worker
from support.gateways import JupyterServer, ThreadedGateway
from support.grants import grant
from support.household import household, start
from support.kept import token_of
from support.running import sync, until
from support.turns import ask, echo, register

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


async def conversation(gateway: ThreadedGateway, conversation_id: str, token: str | None = None) -> Record:
    async with gateway.http(headers={"Authorization": f"Bearer {token or gateway.token}"}) as http:
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


@sync
async def test_from_a_peer_and_to_a_colleagues_machine(make_gateway: Callable[..., ThreadedGateway]) -> None:
    gateway = make_gateway(org="lab")
    bob = await token_of(gateway, "bob", "lab")

    async def answer(node: Worker, run: Record) -> str:
        return "done"

    register(gateway, echo)
    async with gateway.http() as http:
        await ask(http, "/chat", {"message": "hi", "chat_id": "own"})
    assert await conversation(gateway, "own") == {
        "icon": "local",
        "isLocalInitiated": True,
        "targetNodeId": "",
        "sourceChannel": "notebook",
    }
    _, headers = await grant(gateway)
    async with gateway.http(headers=headers) as peer:
        await ask(peer, "/channels/suzent/inbound", {"content": "hi"})
    async with gateway.http() as http:
        [social] = [
            each for each in (await http.get("/conversations")).json()["conversations"] if each["folder"] == "Social"
        ]
    assert await conversation(gateway, social["conversation_id"]) == {
        "icon": "peer",
        "isLocalInitiated": False,
        "targetNodeId": "",
        "sourceChannel": "peer",
    }
    async with Worker(gateway, "Lab", answer) as lab, BareClient(gateway, bob) as client, gateway.http() as http:
        assert (await http.post(f"/nodes/{lab.node_id}/scope", json={"scope": "enterprise"})).status_code == 200
        accepted = await begin(client)
        await read(client, accepted["run_id"])
        assert await conversation(gateway, accepted["session_id"], bob) == {
            "icon": "enterprise",
            "isLocalInitiated": True,
            "targetNodeId": lab.node_id,
            "sourceChannel": "program",
        }


def test_from_a_page_of_somebody_who_is_logged_in(start_jupyter: Callable[..., JupyterServer], tmp_path: Path) -> None:
    server = start(start_jupyter, tmp_path)

    @sync
    async def work() -> None:
        async with household(server, {"ada-private": ("ada", "gateway", "account")}) as house:
            page, http = await house.web("ada"), house.http["ada"]
            accepted = await page.ask(type="chat.send", id="q", message="hi")
            await page.event(accepted["run_id"], "RUN_FINISHED")
            body = (await http.get(f"/conversations/{accepted['session_id']}")).json()
            found = [body[name] for name in ("icon", "isLocalInitiated", "targetNodeId", "sourceChannel")]
            assert found == ["sent-to-node", True, house.ids["ada-private"], "web"]

    work()
