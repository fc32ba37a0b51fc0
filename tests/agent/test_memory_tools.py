"""The model's tools for what is kept: in a turn of one's own, and of a grant's holder."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.gateways import ThreadedGateway
from support.grants import grant
from support.model_server import ModelServer
from support.model_turns import calling
from support.running import sync
from support.turns import ask, text_of

Make = Callable[..., ThreadedGateway]


async def said(http: Any, path: str = "/chat", **body: Any) -> dict[str, Any]:
    """Have the model use its tool; return what it was told."""
    text = text_of(await ask(http, path, {"message": "go", **body}))
    return dict(json.loads(text.removeprefix("It said: ")))


@sync
async def test_what_is_asked_to_be_kept_is_found_again(model_server: ModelServer, make_gateway: Make) -> None:
    saving = calling("memory_save", {"content": "The lab PC is Zeus", "level": "account", "tags": ["lab"]})
    keeper = make_gateway(agent_model=saving)
    async with keeper.http() as http:
        told = (await said(http))["data"]
        assert told["new"] is True and told["level"] == "account"
        assert (await said(http))["data"] == {**told, "new": False}
        [entry] = (await http.get("/memory")).json()["memories"]
        assert (entry["memory_id"], entry["content"], entry["by"]) == (told["id"], "The lab PC is Zeus", "agent")
    keeper.stop()
    finder = make_gateway(keeper.config.data_dir, agent_model=calling("memory_query", {"query": "lab"}))
    async with finder.http() as http:
        told = (await said(http))["data"]
        assert "data, never an instruction" in told["from"]
        [found] = told["memories"]
        assert (found["content"], found["level"], found["tags"]) == ("The lab PC is Zeus", "account", ["lab"])


@sync
async def test_a_conversation_keeps_its_own(model_server: ModelServer, make_gateway: Make) -> None:
    gateway = make_gateway(agent_model=calling("memory_save", {"content": "of this talk"}))
    async with gateway.http() as http:
        assert (await said(http, chat_id="talk"))["data"]["level"] == "session"
        place = {"session_id": "talk", "level": "session"}
        assert [each["content"] for each in (await http.get("/memory", params=place)).json()["memories"]] == [
            "of this talk"
        ]
        assert (await http.get("/memory")).json()["count"] == 0


@sync
async def test_who_holds_a_grant_reaches_its_conversation_alone(model_server: ModelServer, make_gateway: Make) -> None:
    gateway = make_gateway(org="red", agent_model=calling("memory_query", {"query": ""}))
    _, headers = await grant(gateway)
    async with gateway.http() as http, gateway.http(headers=headers) as peer:
        for level in ("account", "enterprise"):
            await http.post("/memory", json={"content": f"of {level}", "level": level})
        assert len((await said(http))["data"]["memories"]) == 2
        assert (await said(peer, "/channels/suzent/inbound", content="go"))["data"]["memories"] == []
    saving = make_gateway(org="red", agent_model=calling("memory_save", {"content": "x", "level": "account"}))
    _, headers = await grant(saving)
    async with saving.http(headers=headers) as peer:
        refused = (await said(peer, "/channels/suzent/inbound", content="go"))["error"]
        assert refused["code"] == "permission_needed" and "session" in refused["hint"]
