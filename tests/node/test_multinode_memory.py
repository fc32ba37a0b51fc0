"""``amemory_query`` and ``amemory_save`` of our own NodeHost through our gateway, in turns and outside of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.chats import begin, read, text_of
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.memories import person

from suzent_jupyter.node import NodeHost, this_node
from suzent_jupyter.protocol.errors import SuzentError

from .test_multinode_gateway import joined

Make = Callable[..., ThreadedGateway]


async def answers(message: str) -> str:
    """Keep what it is told, at the level it is told; then say what it reaches."""
    level, _, text = message.partition(" ")
    node = this_node()
    try:
        if text:
            await node.amemory_save(text, level=None if level == "any" else level, tags=["told"])  # type: ignore[arg-type]
        found = await node.amemory_query("told lab" if text else "")
    except SuzentError as error:
        return error.code
    return ", ".join(sorted(f"{each['level']}: {each['content']}" for each in found))


def test_each_turn_reaches_what_its_caller_may(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway(org="red")
    gateway.service.gateway.waiting_account = None

    async def main() -> None:
        async with (
            joined(gateway, tmp_path, name="Lab", agent=answers) as lab,
            await person(gateway, "bob", "red") as bob,
            BareClient(gateway) as adas,
            BareClient(gateway, bob.token) as bobs,
            gateway.http() as ada,
        ):
            await ada.post(f"/nodes/{lab.node_id}/scope", json={"scope": "enterprise"})
            kept = await lab.amemory_save("by the lab itself")
            assert [each["memory_id"] for each in await lab.amemory_query("lab")] == [kept]
            assert await lab.amemory_query("lab", level="enterprise") == []
            assert len(await lab.amemory_query(limit=1)) == 1

            async def ask(client: BareClient, message: str) -> str:
                accepted = await begin(client, message=message, target_node_id=lab.node_id)
                return text_of(await read(client, accepted["run_id"]))

            assert await ask(adas, "any of this talk") == "account: by the lab itself, session: of this talk"
            assert await ask(adas, "account of ada") == "account: by the lab itself, account: of ada"
            assert await ask(adas, "enterprise of red") == (
                "account: by the lab itself, account: of ada, enterprise: of red"
            )
            assert await ask(bobs, "any of bob's talk") == "enterprise: of red, session: of bob's talk"
            assert await ask(bobs, "account of bob") == "permission_needed"
            assert await ask(bobs, "any") == "enterprise: of red"
            assert len(await lab.amemory_query()) == 3
            with pytest.raises(SuzentError) as caught:
                await lab.amemory_save("x" * 8001)
            assert caught.value.code == "invalid_request"

    asyncio.run(main())


def test_only_nodes_that_call_have_a_memory() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError):
            await NodeHost("http://127.0.0.1:9", name="x", capabilities=[]).amemory_query("x")
        with pytest.raises(SuzentError) as caught:
            await NodeHost("http://127.0.0.1:9", name="x", capabilities=[], protocol="multinode").amemory_save("x")
        assert caught.value.code == "node_disconnected"

    asyncio.run(main())
