"""Nodes of ``/ws/gateway`` that ask each other through our gateway, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.running import until

from suzent_jupyter.node import progress, this_node
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.errors import SuzentError

from .test_multinode_gateway import joined


def test_commands_of_another_node(gateway: ThreadedGateway, tmp_path: Path) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def scan(points: int = 2) -> dict[str, Any]:
        for point in range(points):
            progress(point / points, f"point {point}")
            await asyncio.sleep(0)
        return {"points": points, "name": this_node().name}

    def broken() -> None:
        raise OSError("bulb")

    async def watch() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("watch")

    def text(size: int) -> str:
        return "x" * size

    async def main() -> None:
        async with (
            joined(gateway, tmp_path, name="A") as a,
            joined(gateway, tmp_path, name="B", capabilities=[scan, broken, watch, text]) as b,
        ):
            heard: list[Any] = []
            answer = await a.ainvoke("B", "scan", {"points": "3"}, on_progress=lambda *each: heard.append(each))
            assert answer == {"points": 3, "name": "B"} and heard and str(heard[-1][1]).startswith("point")
            assert len(await a.ainvoke(str(b.node_id), "text", {"size": 5 * 2**20})) == 5 * 2**20
            assert sorted(node["display_name"] for node in await a.nodes()) == ["A", "B"]
            for command, params, code in (
                ("broken", {}, "capability_failed"),
                ("nothing", {}, "unknown_command"),
                ("scan", {"points": "x"}, "invalid_params"),
            ):
                with pytest.raises(SuzentError) as caught:
                    await a.ainvoke("B", command, params)
                assert caught.value.code == code
            with pytest.raises(SuzentError, match="not found") as caught:
                await a.ainvoke("Nobody", "scan")
            assert caught.value.code == "node_not_found"
            with pytest.raises(SuzentError) as caught:
                await a.ainvoke("B", "watch", timeout=0.2)
            assert caught.value.code == "deadline"
            await until(lambda: ended == ["watch"])
            begun.clear()
            call = asyncio.create_task(a.ainvoke("B", "watch"))
            await begun.wait()
            call.cancel()
            await until(lambda: ended == ["watch", "watch"])

    asyncio.run(main())


def test_agents_that_ask_each_other(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def relay(message: str) -> str:
        target, _, rest = message.partition(" ")
        try:
            return f"{this_node().name}>{await this_node().ask(target, rest)}"
        except SuzentError as error:
            return f"{this_node().name}:{error.code}"

    async def last(turn: Turn) -> str:
        return f"{turn.message} after {len(turn.chain)}"

    async def main() -> None:
        async with (
            joined(gateway, tmp_path, name="A", agent=relay) as a,
            joined(gateway, tmp_path, name="B", agent=relay),
            joined(gateway, tmp_path, name="C", agent=relay),
            joined(gateway, tmp_path, name="D", agent=relay),
            joined(gateway, tmp_path, name="End", agent=last),
        ):
            assert await a.ask("End", "hello") == "hello after 2"
            assert await a.ask("B", "End hello") == "B>hello after 3"
            assert await a.ask("B", "A End hello") == "B:dispatch_cycle"  # the gateway knows whose turn it is
            assert "dispatch_too_deep" in await a.ask("B", "C D End hello")

    asyncio.run(main())
