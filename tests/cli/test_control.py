"""Control of others, and by others, from a terminal; the other side is a process that plays a Suzent server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.gateways import ThreadedGateway
from support.played_suzent import PlayedSuzent
from support.waiting import wait_for

Run = Callable[..., subprocess.CompletedProcess[str]]
EVIL = "Evil\x1b[31m\u202e box"


@pytest.fixture
def suzent() -> Iterator[PlayedSuzent]:
    with PlayedSuzent(EVIL, "--remote") as server:
        server.do("set", nodes=[{"display_name": "Desk", "answers": {"echo": {"y": 2}, "fail": {"fails": EVIL}}}])
        yield server


def asked(suzent: PlayedSuzent) -> str:
    """Return the request that waits there, ``""`` if none does."""
    return next((key for key, each in suzent.do("look", what="grants").items() if each["status"] == "pending"), "")


def test_control_of_another(run: Run, suzent: PlayedSuzent) -> None:
    assert "There is no peer" in run("peers").stdout
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(run, "control", "ask", suzent.url, "--name", "Desk", "--wait", "50")
        request = wait_for(lambda: asked(suzent))
        assert f"Asked {suzent.url} for control" in run("control", "ask", suzent.url).stdout
        assert f"Asked {suzent.url} for control: pending." in run("peers").stdout
        assert len(suzent.requests("/nodes/grant-request")) == 1, "who waits already asks no second time"
        suzent.do("approve", request_id=request)
        assert "Granted. `jupyter suzent trigger Desk" in waiting.result(60).stdout

    listed = json.loads(run("peers", "--refresh", "--json").stdout)["peers"]
    assert [(each["name"], each["outbound_status"]) for each in listed] == [("Desk", "ready")]
    assert "OUTBOUND" in run("peers").stdout


def test_a_peer_and_its_devices(run: Run, suzent: PlayedSuzent, take_control: Callable[[PlayedSuzent], None]) -> None:
    take_control(suzent)
    assert "echo" in run("peer", "capabilities", "Desk").stdout
    assert json.loads(run("peer", "invoke", "Desk", "echo", "a=1").stdout) == {"y": 2}
    assert json.loads(run("node", "invoke", "Desk", "echo", "a=1", "--json").stdout)["result"] == {"y": 2}
    assert [each["body"]["params"] for each in suzent.requests("/nodes/peer-invoke")] == [{"a": 1}, {"a": 1}]
    assert "Evil box" in run("peer", "invoke", "Desk", "fail", status=1).stderr
    assert "jupyter suzent peers" in run("peer", "invoke", "nobody", "echo", status=1).stderr


def test_a_peer_is_paused_let_in_and_removed(
    run: Run, suzent: PlayedSuzent, take_control: Callable[[PlayedSuzent], None]
) -> None:
    take_control(suzent)
    assert "paused" in run("peer", "mode", "Desk", "paused").stdout
    assert "jupyter suzent peer mode" in run("peer", "invoke", "Desk", "echo", status=1).stderr
    run("peer", "mode", "Desk", "sideways", status=2)
    run("peer", "mode", "desk", "trigger")
    assert "It may drive this gateway" in run("peer", "reverse", "Desk", "on").stdout
    assert len(suzent.do("look", what="peers")) == 1
    assert json.loads(run("peer", "reverse", "Desk", "off", "--json").stdout)["enabled"] is False
    assert run("peer", "remove", "Desk").stdout == "Removed Desk.\n"
    assert "There is no peer" in run("peers").stdout


def test_a_refusal_fails(run: Run, suzent: PlayedSuzent) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(run, "control", "ask", suzent.url, "--wait", "50", "--json", status=1)
        suzent.do("deny", request_id=wait_for(lambda: asked(suzent)))
        refused = waiting.result(60)
    assert json.loads(refused.stdout)["status"] == "denied"
    assert "not granted: denied" in refused.stderr
    assert "Nothing answers" in run("control", "ask", "http://127.0.0.1:9", status=1).stderr


def test_control_by_others(run: Run, suzent: PlayedSuzent, gateway: ThreadedGateway) -> None:
    assert "Nobody asks" in run("control", "list").stdout
    request = suzent.do("control", base_url=gateway.url)
    shown = json.loads(run("control", "list", "--json").stdout)["grants"][0]
    assert "Evil box" in run("control", "list").stdout
    assert "span of time" in run("control", "approve", shown["code"], "--for", "soon", status=2).stderr
    assert "code" in run("control", "approve", "NEVERWAS", status=1).stderr
    run(
        "control", "approve", shown["code"].lower(), "--for", "7d", "--commands", "echo,camera.*", "--covers", "devices"
    )
    peer = suzent.do("control_status", base_url=gateway.url, request_id=request)["peer_id"]
    (device,) = json.loads(run("node", "devices", "--json").stdout)["devices"]
    assert (device["covers"], device["commands"], device["unattended_tools"]) == (
        "devices",
        ["echo", "camera.*"],
        False,
    )
    assert device["expires_at"] > device["approved_at"]
    refused = suzent.do("trigger", peer_id=peer, prompt="hello")
    assert refused["status"] == 403, "devices are not the agent"

    # Whatever shows a code is let in, or turned away, by the same verb.
    second = suzent.do("control", base_url=gateway.url)
    code = json.loads(run("control", "list", "--json").stdout)["grants"][0]["code"]
    assert "Evil box" in run("node", "deny", code).stdout
    assert suzent.do("control_status", base_url=gateway.url, request_id=second) == {"status": "denied"}
    third = suzent.do("control", base_url=gateway.url)
    code = json.loads(run("control", "list", "--json").stdout)["grants"][0]["code"]
    run("nodes", "approve", code)
    assert suzent.do("control_status", base_url=gateway.url, request_id=third)["status"] == "approved"


def test_refused_attempts_and_conversations(run: Run, suzent: PlayedSuzent, gateway: ThreadedGateway) -> None:
    import httpx

    assert "Nobody was refused" in run("unauthorized").stdout
    httpx.post(f"{gateway.url}/channels/suzent/inbound", json={"content": "x", "from_id": EVIL})
    assert "127.0.0.1" in run("unauthorized").stdout
    assert json.loads(run("unauthorized", "--json").stdout)["count"] == 1
    assert "Nothing was said" in run("conversations").stdout
    httpx.post(f"{gateway.url}/chat", json={"message": f"hi {EVIL}", "chat_id": "kitchen"}, headers=gateway.headers)
    assert "kitchen" in run("conversations").stdout
    said = run("conversations", "kitchen").stdout
    assert said.startswith("user: hi Evil box")
    assert json.loads(run("conversations", "kitchen", "--json").stdout)["conversation_id"] == "kitchen"
    assert run("conversations", "never-was", status=1).stderr
