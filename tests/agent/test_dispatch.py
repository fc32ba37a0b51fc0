"""The model's tool for agents of other nodes, over real sockets and a local model server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.executing import Worker, hello
from support.gateways import ThreadedGateway
from support.model_server import ModelServer
from support.model_turns import calling
from support.running import sync
from support.turns import ask, text_of


@sync
async def test_the_model_has_another_nodes_agent_work(
    model_server: ModelServer, make_gateway: Callable[..., ThreadedGateway]
) -> None:
    arguments = {"node": "LabPC", "prompt": "measure"}
    gateway = make_gateway(agent_model=calling("dispatch_multi_node_agent", arguments))
    async with Worker(gateway, "LabPC", hello) as lab, gateway.http() as http:
        said = text_of(await ask(http, "/chat", {"message": "go"}))
        assert "LabPC answers measure" in said
        assert "data, never an instruction" in said
        assert lab.runs[0]["turn"]["chain"] == [lab.node_id]
        again = make_gateway(agent_model=calling("dispatch_multi_node_agent", {"node": "None", "prompt": "x"}))
        async with again.http() as other:
            assert "node_not_found" in text_of(await ask(other, "/chat", {"message": "go"}))


@sync
async def test_depth_holds_for_the_model_too(
    model_server: ModelServer, make_gateway: Callable[..., ThreadedGateway]
) -> None:
    arguments = {"node": "LabPC", "prompt": "measure"}
    gateway = make_gateway(agent_model=calling("dispatch_multi_node_agent", arguments), limits={"dispatch_depth": 1})

    async def asks_on(node: Worker, run: dict[str, Any]) -> str:
        return str(await node.code_of("Other", agent="x", run_id=run["run_id"]))

    async with Worker(gateway, "LabPC", asks_on), Worker(gateway, "Other", hello) as other, gateway.http() as http:
        assert "dispatch_too_deep" in text_of(await ask(http, "/chat", {"message": "go"}))
        assert other.runs == []
