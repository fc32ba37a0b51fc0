"""The server's files are its owner's: the model finds no tool for them in the turns of other accounts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.gateways import JupyterServer
from support.household import household, start
from support.model_server import ModelServer
from support.model_turns import calling


def test_other_accounts_turns_reach_no_file(
    start_jupyter: Callable[..., JupyterServer], tmp_path: Path, model_server: ModelServer
) -> None:
    model = calling("read_file", {"path": "notes.txt"})
    server = start(start_jupyter, tmp_path, f"--SuzentApp.agent_model={model}")
    (server.files / "notes.txt").write_text("a file of the server")

    async def work() -> None:
        async with household(server, {}) as house:
            for user in ("bob", "eve", "dan", "ada"):
                model_server.clear()
                answer = await house.http[user].post("/chat", json={"message": "what do my notes say?"})
                assert answer.status_code == 200
                offered: list[dict[str, Any]] = model_server.bodies()[0].get("tools", [])
                names = {tool["function"]["name"] for tool in offered}
                assert ("read_file" in names) is (user == "ada"), user
                assert not names & {"list_files", "write_file"} or user == "ada"
                told = "a file of the server" in answer.text or "a file of the server" in json.dumps(
                    model_server.bodies()
                )
                assert told is (user == "ada"), user

    asyncio.run(asyncio.wait_for(work(), 60))
