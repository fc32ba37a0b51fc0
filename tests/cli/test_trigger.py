"""Prompts for a peer's agent, from a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gateways import ThreadedGateway
from support.played_suzent import PlayedSuzent
from support.waiting import wait_for

Run = Callable[..., subprocess.CompletedProcess[str]]
CALL = [
    {"event": {"type": "TOOL_CALL_START", "toolCallId": "t", "toolCallName": "read\x1b[2Jfile"}},
    {"event": {"type": "TOOL_CALL_ARGS", "toolCallId": "t", "delta": '{"path": '}},
    {"event": {"type": "TOOL_CALL_ARGS", "toolCallId": "t", "delta": '"a.txt"}'}},
    {"event": {"type": "TOOL_CALL_END", "toolCallId": "t"}},
    {"event": {"type": "TOOL_CALL_RESULT", "toolCallId": "t", "messageId": "r", "content": "two\nlines"}},
]


@pytest.fixture
def suzent(take_control: Callable[[PlayedSuzent], None]) -> Iterator[PlayedSuzent]:
    """A server that the gateway controls under the name "Desk"."""
    with PlayedSuzent("desk", "--remote") as server:
        take_control(server)
        yield server


def test_text_is_printed_and_tools_beside_it(run: Run, suzent: PlayedSuzent) -> None:
    suzent.do("set", script=[{"text": "Dear \x1b"}, {"text": "[31mAda\u202e,"}, *CALL, {"text": "done.\x1b]0;title"}])
    done = run("trigger", "Desk", "What", "is", "it?")
    assert done.stdout == "Dear Ada,\ndone.\n"
    assert done.stderr == '> readfile {"path": "a.txt"}\n< two lines\n'
    (sent,) = suzent.requests("/channels/suzent/inbound")
    assert sent["body"] == {"content": "What is it?"}
    assert (sent["problems"], sent["unread"]) == ([], [])


def test_events_as_lines(run: Run, suzent: PlayedSuzent) -> None:
    suzent.do("set", script=[{"text": "A\u2028B"}, *CALL])
    lines = run("node", "trigger", "desk", "-", "--chat-id", "work", "--json", input="from\nstdin").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [each["type"] for each in events][:3] == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert events[2]["delta"] == "A\u2028B"
    assert events[-1]["type"] == "RUN_FINISHED"
    assert suzent.requests("/channels/suzent/inbound")[0]["body"] == {"content": "from\nstdin", "chat_id": "work"}


def test_files_go_along(run: Run, suzent: PlayedSuzent, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("what a note says")
    run("trigger", "Desk", "read", "--file", "note.txt")
    assert suzent.do("look", what="attachments") == [{"name": "note.txt", "content": "what a note says"}]
    assert "no file" in run("trigger", "Desk", "read", "--file", "none.txt", status=2).stderr


def test_failures(run: Run, suzent: PlayedSuzent) -> None:
    suzent.do("set", whole=False, script=[
        {"event": {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "so far"}},
        {"event": {"type": "RUN_ERROR", "message": "no \x1b[31mmodel is set\nhere"}},
    ])  # fmt: skip
    failed = run("trigger", "Desk", "hello", status=1)
    assert failed.stdout == "so far\n"
    assert failed.stderr.startswith("Error: Desk: no model is set here")
    assert json.loads(run("trigger", "Desk", "x", "--json", status=1).stdout.splitlines()[-1])["type"] == "RUN_ERROR"
    suzent.do(
        "set", script=[{"event": {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "half"}}, {"cut": 1}]
    )
    cut = run("trigger", "Desk", "hello", status=1)
    assert cut.stdout == "half\n"
    assert "jupyter suzent peers" in run("trigger", "nobody", "hello", status=1).stderr
    assert "empty" in run("trigger", "Desk", "-", status=2, input=" ").stderr


@pytest.mark.skipif(os.name == "nt", reason="SIGINT to one process")
def test_an_interrupt_stops_it_over_there(suzent: PlayedSuzent, gateway: ThreadedGateway) -> None:
    suzent.do("set", script=[{"text": "one"}, {"wait": "never"}, {"text": "two"}])
    process = subprocess.Popen(
        [sys.executable, "-m", "suzent_jupyter.cli", "trigger", "Desk", "go",
         "--url", gateway.url, "--token", gateway.token],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.read(3) == "one", "text comes before the turn is over"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("\n", 130)
    assert err.strip() == "Error: Interrupted."
    wait_for(lambda: suzent.requests("/channels/suzent/stop"))
    wait_for(lambda: [each for each in suzent.do("look", what="sessions").values() if each[-1]["content"] == "one"])
