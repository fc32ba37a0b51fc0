"""The model agent against a local OpenAI-compatible server: answers, tool calls, and every way a server can fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

import pytest
from support.model_server import ModelServer
from support.model_turns import a_turn, calling, told
from support.running import sync, until

from suzent_jupyter.agent.clients import close_clients
from suzent_jupyter.agent.model import make_model_agent
from suzent_jupyter.agent.tools import Workbench
from suzent_jupyter.protocol.agents import TurnMessage
from suzent_jupyter.protocol.limits import Limits

LIFECYCLE = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"}


class Phone:
    """Devices without a gateway: one phone that does what a function says."""

    def __init__(self, function: Any = lambda command, params: params) -> None:
        self.function = function
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"name": "MyPhone", "platform": "test", "description": "", "capabilities": [{"name": "echo"}]}]

    async def invoke(self, run_id: str, node: str, command: str, params: dict[str, Any]) -> Any:
        self.calls.append((node, command, params))
        return self.function(command, params)


@sync
async def test_text_streams_in(model_server: ModelServer) -> None:
    answer = await told("hello")
    assert answer.error is None
    assert answer.kinds[0] == "TEXT_MESSAGE_START" and answer.kinds[-1] == "TEXT_MESSAGE_END"
    assert [event.delta for event in answer.of("TEXT_MESSAGE_CONTENT")] == ["Hel", "lo ", "you."]
    assert len({event.message_id for event in answer.events}) == 1
    assert set(answer.kinds) & LIFECYCLE == set()


@pytest.mark.parametrize("name", ["hello", "openai:hello", "openai-chat:hello"])
@sync
async def test_compatible_servers_are_spoken_to_in_chat_completions(model_server: ModelServer, name: str) -> None:
    assert (await told(name)).text == "Hello you."
    (request,) = model_server.requests()
    assert request["request"].startswith("POST /v1/chat/completions ")
    assert json.loads(request["body"])["model"] == "hello"


@sync
async def test_a_name_with_a_colon_of_its_own_is_taken_whole(model_server: ModelServer) -> None:
    await told("qwen3:8b")
    assert model_server.bodies()[0]["model"] == "qwen3:8b"


@sync
async def test_the_responses_api_is_spoken_where_it_is_named(model_server: ModelServer) -> None:
    answer = await told("openai-responses:hello")
    assert answer.error is not None and answer.error.code == "model_failed"
    assert model_server.requests()[0]["request"].startswith("POST /v1/responses ")


@sync
async def test_the_key_is_sent_where_there_is_one(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-0123456789")
    await told("hello")
    assert model_server.requests()[0]["headers"]["authorization"] == "Bearer sk-local-0123456789"


@sync
async def test_what_went_before_and_who_asks_are_told(model_server: ModelServer) -> None:
    turn = a_turn(
        "and now?",
        history=[TurnMessage(role="user", content="one"), TurnMessage(role="assistant", content="two")],
        note="The peer 'Lab' asks.",
    )
    answer = await told("echo", turn)
    assert json.loads(answer.text) == "and now?"
    messages = model_server.bodies()[0]["messages"]
    assert [(each["role"], each["content"]) for each in messages[1:]] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "and now?"),
    ]
    assert messages[0]["role"] == "system" and "The peer 'Lab' asks." in messages[0]["content"]


@sync
async def test_a_tool_call_and_its_result(model_server: ModelServer) -> None:
    phone = Phone()
    arguments = {"node": "MyPhone", "command": "echo", "params": {"text": "hé\u2028"}}
    answer = await told(calling("invoke_node", arguments, say="Look: "), workbench=Workbench(nodes=phone))
    assert answer.error is None and phone.calls == [("MyPhone", "echo", {"text": "hé\u2028"})]
    (start,), (end,), (result,) = (answer.of(f"TOOL_CALL_{kind}") for kind in ("START", "END", "RESULT"))
    assert start.tool_call_name == "invoke_node"
    assert {start.tool_call_id, end.tool_call_id, result.tool_call_id} == {"call_0"}
    pieces = answer.of("TOOL_CALL_ARGS")
    assert len(pieces) > 1 and json.loads("".join(piece.delta for piece in pieces)) == arguments
    assert json.loads(result.content) == {"data": {"text": "hé\u2028"}}
    order = [kind for kind in answer.kinds if kind.startswith("TOOL_CALL") and kind != "TOOL_CALL_ARGS"]
    assert order == ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    texts = {event.message_id for event in answer.of("TEXT_MESSAGE_START")}
    assert len(texts) == 2 and "It said" in answer.text


@sync
async def test_a_call_without_an_id_gets_one(model_server: ModelServer) -> None:
    answer = await told(calling("list_nodes", {}, id=""), workbench=Workbench(nodes=Phone()))
    assert answer.error is None
    ids = {event.tool_call_id for event in answer.events if event.type.value.startswith("TOOL_CALL")}
    assert len(ids) == 1 and ids != {""}


@sync
async def test_reasoning_comes_as_reasoning(model_server: ModelServer) -> None:
    answer = await told("reasoning")
    thought = [event.delta for event in answer.events if event.type.value == "REASONING_MESSAGE_CONTENT"]
    assert "".join(thought) == "Let me think."
    assert answer.text == "Done."


# -- failures --


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "accept the request"),
        (401, "accept the key"),
        (403, "may not use"),
        (404, "know the model"),
        (413, "long"),
    ],
)
@sync
async def test_refusals_end_the_turn_at_once(model_server: ModelServer, status: int, words: str) -> None:
    answer = await told(f"refuse;status={status}")
    assert answer.error is not None and answer.error.code == "model_failed"
    assert words in answer.error.message and str(status) in answer.error.message
    assert "sk-abc" not in answer.error.message and "hunter22" not in answer.error.message
    assert "not found" not in answer.error.message.lower()
    assert len(model_server.requests()) == 1


@sync
async def test_retry_after_is_waited_for(model_server: ModelServer) -> None:
    started = time.monotonic()
    answer = await told("busy;times=1;after=1")
    assert answer.text == "At last." and answer.error is None
    assert time.monotonic() - started >= 1
    assert len(model_server.requests()) == 2


@sync
async def test_a_long_retry_after_is_not_waited_for(model_server: ModelServer) -> None:
    started = time.monotonic()
    answer = await told("busy;times=9;after=60")
    assert time.monotonic() - started < 10
    assert answer.error is not None and answer.error.code == "model_failed"
    assert "60 s" in answer.error.message and answer.error.details["retry_after"] == 60
    assert "sk-abc" not in answer.error.message
    assert len(model_server.requests()) == 1


@sync
async def test_it_is_asked_three_times_at_most(model_server: ModelServer) -> None:
    answer = await told("busy;times=9;status=500")
    assert answer.error is not None and answer.error.code == "model_failed" and "500" in answer.error.message
    assert len(model_server.requests()) == 3


@sync
async def test_patience_is_bounded(model_server: ModelServer) -> None:
    answer = await told("busy;times=2;after=1;case=patience", model_patience=1.5)
    assert answer.error is not None and answer.error.code == "model_failed"
    assert len(model_server.requests()) == 2


@pytest.mark.parametrize("model", ["malformed", "cut", "unfinished", "stream_error"])
@sync
async def test_a_broken_stream_keeps_what_came(model_server: ModelServer, model: str) -> None:
    answer = await told(model)
    assert answer.text.startswith("Half an ")
    assert answer.kinds[-1] == "TEXT_MESSAGE_END"
    assert answer.error is not None and answer.error.code == "model_failed"
    assert len(answer.error.message) < 500 and "\n" not in answer.error.message
    assert len(model_server.requests()) == 1


@sync
async def test_a_web_page_instead_of_an_answer(model_server: ModelServer) -> None:
    answer = await told("html")
    assert answer.error is not None and answer.error.code == "model_failed"


@sync
async def test_redirects_are_not_followed(model_server: ModelServer) -> None:
    answer = await told(f"moved;to={model_server.url}/chat/completions")
    assert answer.error is not None and answer.error.code == "model_failed"
    assert len(model_server.requests()) == 1


@sync
async def test_a_proxy_is_not_asked_for_a_server_on_this_machine(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await told("hello")).text == "Hello you."


@sync
async def test_nobody_there(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://ada:hunter22@127.0.0.1:9/v1")
    answer = await told("hello", model_patience=0.1)
    assert answer.error is not None and answer.error.code == "model_failed"
    assert "can't be reached" in answer.error.message and "hunter22" not in str(answer.error.as_body())


@pytest.mark.parametrize("model", ["hang", "hang;silent=1"])
@sync
async def test_silence_ends_the_turn(model_server: ModelServer, model: str) -> None:
    answer = await told(model, model_timeout=0.3)
    assert answer.error is not None and answer.error.code == "model_failed"
    assert "silent" in answer.error.message


@sync
async def test_without_a_key_and_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    answer = await told("openai:gpt-none")
    assert answer.error is not None and answer.error.code == "model_failed"
    assert "OPENAI_API_KEY" in answer.error.hint


@pytest.mark.parametrize("name", ["nobody:model", "anthropic:some-model"])
@sync
async def test_a_name_that_can_not_be_used(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    answer = await told(name)
    assert answer.error is not None and answer.error.code == "model_failed"
    assert answer.error.message.count("\n") == 0


# -- limits --


@sync
async def test_a_loop_of_tools_ends_at_the_limit_of_steps(model_server: ModelServer) -> None:
    phone = Phone()
    model = calling("invoke_node", {"node": "MyPhone", "command": "echo"}, "loop")
    answer = await told(model, workbench=Workbench(nodes=phone), agent_steps=4)
    assert answer.error is not None and answer.error.code == "turn_limit" and "agent_steps" in answer.error.message
    assert len(model_server.requests()) == 4 and len(phone.calls) == 4


@sync
async def test_a_greedy_turn_ends_at_the_limit_of_tokens(model_server: ModelServer) -> None:
    model = calling("invoke_node", {"node": "MyPhone", "command": "echo"}, "loop", usage=600)
    answer = await told(model, workbench=Workbench(nodes=Phone()), agent_tokens=1000)
    assert answer.error is not None and answer.error.code == "turn_limit" and "agent_tokens" in answer.error.message
    assert len(model_server.requests()) == 2


@pytest.mark.parametrize(
    "model",
    [
        calling("no_such_tool", {}, "loop"),
        calling("invoke_node", "{not json", "loop"),
        calling("invoke_node", {"command": 7}, "loop"),
    ],
)
@sync
async def test_calls_that_do_not_fit_go_back_to_the_model(model_server: ModelServer, model: str) -> None:
    phone = Phone()
    answer = await told(model, workbench=Workbench(nodes=phone), agent_steps=5)
    assert answer.error is not None and answer.error.code == "turn_limit"
    assert len(model_server.requests()) == 5 and phone.calls == []
    assert len(answer.of("TOOL_CALL_RESULT")) >= 4


@sync
async def test_an_unknown_tool_does_not_end_the_turn(model_server: ModelServer) -> None:
    answer = await told(calling("no_such_tool", {}), workbench=Workbench(nodes=Phone()))
    assert answer.error is None and "no_such_tool" in answer.text


@sync
async def test_huge_arguments_reach_the_tool(model_server: ModelServer) -> None:
    phone = Phone()
    answer = await told("huge;size=3000000", workbench=Workbench(nodes=phone))
    assert answer.error is None and len(phone.calls[0][2]["text"]) == 3_000_000
    assert len(answer.of("TOOL_CALL_RESULT")[0].content) < 100_000


# -- stopping --


@pytest.mark.parametrize("model", ["hang", "hang;silent=1"])
@sync
async def test_closing_a_turn_hangs_up_on_the_model(model_server: ModelServer, model: str) -> None:
    model += ";case=close"
    agent = make_model_agent(model, Workbench(), Limits())

    async def read() -> None:
        async with contextlib.aclosing(agent.run(a_turn())) as events:  # type: ignore[type-var]
            async for _ in events:
                pass

    reading = asyncio.create_task(read())
    await until(lambda: model_server.requests())
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await until(lambda: any(note.get("hung_up") == model for note in model_server.notes()))
    await close_clients()


@sync
async def test_leaving_a_turn_cancels_its_tool(model_server: ModelServer) -> None:
    cancelled = asyncio.Event()
    called = asyncio.Event()

    class Slow(Phone):
        async def invoke(self, run_id: str, node: str, command: str, params: dict[str, Any]) -> Any:
            called.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    model = calling("invoke_node", {"node": "MyPhone", "command": "echo"})
    agent = make_model_agent(model, Workbench(nodes=Slow()), Limits())

    async def read() -> None:
        async with contextlib.aclosing(agent.run(a_turn())) as events:  # type: ignore[type-var]
            async for _ in events:
                pass

    reading = asyncio.create_task(read())
    await asyncio.wait_for(called.wait(), 20)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert cancelled.is_set()
    await close_clients()


# -- connections --


@sync
async def test_connections_are_kept_from_turn_to_turn_and_closed_at_the_end(model_server: ModelServer) -> None:
    from suzent_jupyter.agent import clients

    agent = make_model_agent("hello", Workbench(), Limits())
    endpoint = clients.Endpoint.read("hello", Limits())
    models = set()
    for _ in range(2):
        async with contextlib.aclosing(agent.run(a_turn())) as events:  # type: ignore[type-var]
            async for _event in events:
                pass
        models.add(id(await clients.model_of(endpoint)))
    assert len(models) == 1
    model: Any = await clients.model_of(endpoint)
    http = model.wrapped.client._client
    assert not http.is_closed
    await close_clients()
    assert http.is_closed
    await close_clients()
