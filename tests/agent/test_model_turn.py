"""A gateway whose setting `agent_model` names a model: prompts over real sockets, answered by a local server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.gateways import ThreadedGateway
from support.grants import grant
from support.model_server import ModelServer
from support.running import sync, until
from support.turns import ask, echo, kinds, register, text_of


@sync
async def test_the_model_answers_users_peers_and_the_inbox(
    model_server: ModelServer, make_gateway: Callable[..., ThreadedGateway]
) -> None:
    gateway = make_gateway(agent_model="hello")
    _, peer = await grant(gateway, 'Lab "PC"')
    async with gateway.http() as http:
        events = await ask(http, "/chat", {"message": "first words", "chat_id": "c"})
        assert (text_of(events), kinds(events)[-1]) == ("Hello you.", "RUN_FINISHED")
        await ask(http, "/chat", {"message": "second words", "chat_id": "c"})
        said = str(model_server.bodies()[-1]["messages"])
        assert said.index("first words") < said.index("Hello you.") < said.index("second words")
        assert "control grant" not in said

        assert text_of(await ask(http, "/channels/suzent/inbound", {"content": "x"}, headers=peer)) == "Hello you."
        assert "control grant" in str(model_server.bodies()[-1]["messages"])
        left = {"message_id": "1", "content": "from the inbox"}
        assert (await http.post("/channels/suzent/inbox", json=left, headers=peer)).status_code == 202
        await until(lambda: any("from the inbox" in str(body) for body in model_server.bodies()))
        assert peer["Authorization"].removeprefix("Bearer ") not in str(model_server.bodies())

        register(gateway, echo)  # a notebook's function comes first
        assert text_of(await ask(http, "/chat", {"message": "echo"})) == "echo"


@sync
async def test_a_model_that_fails(
    monkeypatch: pytest.MonkeyPatch, make_gateway: Callable[..., ThreadedGateway]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    gateway = make_gateway(agent_model="openai-chat:hello")
    async with gateway.http() as http:
        last = (await ask(http, "/chat", {"message": "x"}))[-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "model_failed")
