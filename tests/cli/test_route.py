"""Prompts for nodes, from a terminal: routes, chats, scopes and conversations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.played_chats import ROUTING, Node, sent
from support.played_gateway import PlayedGateway
from support.waiting import wait_for

from suzent_jupyter.protocol.errors import SuzentError

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gateway() -> Iterator[PlayedGateway]:
    played = PlayedGateway()
    yield played
    played.stop()


def test_a_route(run: Run, gateway: PlayedGateway) -> None:
    gateway.answers["route"] = ROUTING
    lines = run("route", "take", "a", "photo", "--chat", "--node", "Lab PC").stdout.splitlines()
    assert lines[0] == "Lab PC, by tier 2 (shared words): It shares 'photo'."
    assert any(line.startswith("*") and "Lab PC" in line and "1.50" in line for line in lines)
    assert "█" in lines[-1]
    assert gateway.asked("/route") == [{"query": "take a photo", "executors": True, "node": "Lab PC"}]
    assert json.loads(run("route", "-", "--json", input="photo").stdout) == ROUTING
    gateway.answers["route"] = {"query": "x", "choice": None, "candidates": []}
    assert "No node was chosen" in run("route", "x").stdout


def test_a_chat(run: Run, gateway: PlayedGateway) -> None:
    Node(gateway, "Dear \x1b", "[31mAda\u202e")
    done = run("chat", "What", "is", "it?", "--node", "Lab PC", "--conversation", "s-7")
    assert done.stdout == "Dear Ada\n"
    assert done.stderr == "-> Lab PC, by tier 2 (shared words): It shares 'photo'.\n"
    frame = sent(gateway, "chat.send")[0]
    assert (frame["message"], frame["target_node_id"], frame["session_id"]) == ("What is it?", "Lab PC", "s-7")
    lines = [json.loads(line) for line in run("chat", "-", "--json", input="from\nstdin").stdout.splitlines()]
    assert [line["type"] for line in lines][:2] == ["chat.accepted", "RUN_STARTED"]
    assert lines[-1]["type"] == "RUN_FINISHED"
    assert sent(gateway, "chat.send")[1]["message"] == "from\nstdin"


def test_a_chat_that_fails(run: Run, gateway: PlayedGateway) -> None:
    Node(gateway, "So far", end={"type": "RUN_ERROR", "message": "it went away", "code": "node_disconnected"})
    done = start(gateway, "chat", "Hi")
    out, errors = done.communicate(timeout=60)
    assert done.returncode == 1 and out == "So far\n"
    assert errors.splitlines()[-1].startswith("Error: Lab PC: it went away")


def start(gateway: PlayedGateway, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "SUZENT_BASE_URL": gateway.url.replace("://", f"://suzent:{gateway.token}@")}
    return subprocess.Popen(
        [sys.executable, "-m", "suzent_jupyter.cli", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_ctrl_c_stops_it_on_the_node(gateway: PlayedGateway) -> None:
    Node(gateway, "Thinking", end={})
    process = start(gateway, "chat", "Hi")
    try:
        wait_for(lambda: gateway.waiting, 30)
        assert process.stdout is not None
        assert process.stdout.read(8) == "Thinking"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and "Interrupted" in errors and "Traceback" not in errors
    assert sent(gateway, "chat.abort")[0]["run_id"] == "r-1"


def test_a_scope(run: Run, gateway: PlayedGateway) -> None:
    answer: dict[str, Any] = {"success": True, "node_id": "n", "scope": "enterprise", "org": "acme"}
    gateway.answers["nodes/Lab PC/scope"] = answer
    assert run("scope", "Lab PC", "enterprise").stdout == "Lab PC can now be seen and used by everybody of acme.\n"
    assert json.loads(run("node", "scope", "Lab PC", "account", "--json").stdout) == answer
    assert gateway.asked("/scope") == [{"scope": "enterprise"}, {"scope": "account"}]
    gateway.answers["nodes/Lab PC/scope"] = SuzentError("no_executor", "No node could.")
    refused = run("scope", "Lab PC", "account", status=1).stderr
    assert "%suzent" not in refused
    assert "everyone" in run("scope", "Lab PC", "everyone", status=2).stderr


def test_a_conversation_tells_of_its_decisions(run: Run, gateway: PlayedGateway) -> None:
    messages = [
        {"role": "user", "content": "photo", "detail": {"routing": ROUTING}},
        {"role": "assistant", "content": "done", "outcome": "done"},
    ]
    gateway.answers["conversations/s-1"] = {"conversation_id": "s-1", "messages": messages}
    assert run("conversations", "s-1").stdout.splitlines() == [
        "user: photo", "  -> Lab PC, by tier 2 (shared words): It shares 'photo'.", "assistant: done",
    ]  # fmt: skip
    gateway.answers["conversations"] = {
        "conversations": [{"conversation_id": "s-0"}, {"conversation_id": "s-1", "target_node_id": "n-1"}]
    }
    assert run("conversations", "last").stdout == run("conversations", "s-1").stdout
    gateway.answers["conversations/s-9"] = SuzentError("conversation_unknown", "There is none.")
    assert (
        run("conversations", "s-9", status=1).stderr
        == "Error: There is none. `jupyter suzent conversations` lists them.\n"
    )
