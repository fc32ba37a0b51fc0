"""The model agent in a real Jupyter server: a prompt over HTTP, the server's files, a device, and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.device import BareDevice
from support.gateways import JupyterServer
from support.model_server import ModelServer
from support.model_turns import calling
from support.running import sync


async def chat(server: JupyterServer, message: str) -> list[dict[str, Any]]:
    async with server.http() as http:
        answer = await http.post("/chat", json={"message": message})
    lines = answer.text.split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_prompt_reads_a_file(start_jupyter: Callable[..., JupyterServer], model_server: ModelServer) -> None:
    model = calling("read_file", {"path": "notes.txt"})
    server = start_jupyter(f"--SuzentApp.agent_model={model}")
    (server.files / "notes.txt").write_text("a file of the server")

    @sync
    async def work() -> None:
        events = await chat(server, "what do my notes say?")
        kinds = [event["type"] for event in events]
        assert kinds[0] == "RUN_STARTED" and kinds[-1] == "RUN_FINISHED"
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert json.loads(result["content"])["data"]["content"] == "a file of the server"
        assert "a file of the server" in "".join(event.get("delta", "") for event in events)
        # The server went on answering meanwhile, and the model has seen no token of it.
        for request in model_server.requests():
            assert server.token not in json.dumps(request) and server.jupyter_token + '"' not in request["body"]

    work()


def test_a_prompt_to_a_gateway_alone_calls_a_device(
    make_gateway: Callable[..., Any], model_server: ModelServer
) -> None:
    gateway = make_gateway(
        agent_model=calling("invoke_node", {"node": "MyPhone", "command": "echo", "params": {"n": 1}})
    )

    @sync
    async def work() -> None:
        async with BareDevice(gateway.node_url) as phone:
            await gateway.pair(phone)
            phone.answer()
            events = await chat(gateway, "call it")
            (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
            assert json.loads(result["content"]) == {"data": {"n": 1}}
        tools = {tool["function"]["name"] for tool in model_server.bodies()[0]["tools"]}
        assert tools == {
            "list_nodes", "invoke_node", "dispatch_multi_node_agent", "route", "memory_save", "memory_query",
        }  # fmt: skip

    work()


def test_a_model_that_fails_ends_the_turn_with_an_error(
    make_gateway: Callable[..., Any], model_server: ModelServer
) -> None:
    gateway = make_gateway(agent_model="cut")

    @sync
    async def work() -> None:
        events = await chat(gateway, "hello?")
        assert "".join(event.get("delta", "") for event in events) == "Half an answer"
        assert events[-1]["type"] == "RUN_ERROR" and events[-1]["code"] == "model_failed"
        assert [event["type"] for event in events].count("TEXT_MESSAGE_END") == 1

    work()
