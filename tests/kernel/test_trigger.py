"""Prompts for a peer's agent: what is sent, what streams in, how it ends, and a peer's devices."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.played_gateway import PlayedGateway, TurnHandler
from support.waiting import wait_for

from suzent_jupyter.kernel import Answer, ConnectionLost, Gateway, KernelError, NodeNotFound, RemoteFile, TurnFailed
from suzent_jupyter.kernel.turns import answer as answer_module
from suzent_jupyter.kernel.turns.live import NotebookView
from suzent_jupyter.kernel.turns.tool_list import tools_bundle
from suzent_jupyter.kernel.values import split
from suzent_jupyter.kernel.verbs.trigger import read_line
from suzent_jupyter.protocol.errors import ERRORS

from .conftest import PNG, Shell

Record = dict[str, Any]


async def hello(turn: TurnHandler, body: Record) -> None:
    await turn.started()
    await turn.text("Hello ")
    await turn.event("TOOL_CALL_START", toolCallId="t1", toolCallName="camera.snap")
    await turn.event("TOOL_CALL_ARGS", toolCallId="t1", delta='{"a"')
    await turn.event("TOOL_CALL_ARGS", toolCallId="t1", delta=": 1}")
    await turn.event("TOOL_CALL_END", toolCallId="t1")
    await turn.event("TOOL_CALL_RESULT", toolCallId="t1", messageId="r", content='{"ok": true}')
    await turn.text("*world*\u2028\x1b[31m")
    await turn.text("again", message="m2")
    await turn.finished()


async def echo(turn: TurnHandler, body: Record) -> None:
    await turn.started()
    await turn.text(body["prompt"])
    await turn.finished()


async def failing(turn: TurnHandler, body: Record) -> None:
    await turn.started()
    await turn.text("So far")
    await turn.event("RUN_ERROR", message="the lens cap is on\x1b[2J\nreally", code="agent_gone")


async def endless(turn: TurnHandler, body: Record) -> None:
    await turn.started()
    await turn.text("Thinking")
    turn.gateway.waiting = True
    await turn.gateway.stopped.wait()
    await turn.event("RUN_ERROR", message="It was stopped.", code="cancelled")


@pytest.fixture
def lab(played: PlayedGateway) -> Iterator[str]:
    yield played.add_peer("Lab PC", hello)


# -- what is sent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "prompt", "chat", "files"),
    [
        ("Lab how are you?", "how are you?", None, []),
        ("Lab what's up, don't  know", "what's up, don't  know", None, []),
        ('Lab "two words"', "two words", None, []),
        ("Lab 'say \"it\"' --chat day --file a.png", 'say "it"', "day", ["a.png"]),
        ('Lab "one" and "two"', '"one" and "two"', None, []),
        (
            "Lab --chat day --file=a.png --file b.png look at {these} $x",
            "look at {these} $x",
            "day",
            ["a.png", "b.png"],
        ),
        ("--chat day Lab hi", "hi", "day", []),
        ("Lab explain --file to me", "explain --file to me", None, []),
        ('Lab "open', '"open', None, []),
        ("Lab", "", None, []),
    ],
)
def test_the_line(rest: str, prompt: str, chat: str | None, files: list[str]) -> None:
    line = read_line(split(rest, partial=True), rest)
    assert (line.peer, line.prompt, line.chat, line.files) == ("Lab", prompt, chat, files)


def test_prompts_reach_the_peer_as_typed(
    played_shell: Shell, played: PlayedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.add_peer("Lab PC", echo)
    (tmp_path / "a.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    assert played_shell.run('%suzent trigger "lab pc" what\'s {"up": 1}?').text == 'what\'s {"up": 1}?'
    assert played_shell.run("x = %suzent trigger lab-pc-01 really?\nx.text") == "really?"
    body = "First line\n\n  second 'line\n?"
    assert played_shell.run(f"%%suzent trigger 'Lab PC' --chat day --file a.png\n{body}").text == body
    assert played.asked("/trigger")[-1] == {
        "prompt": body, "chat_id": "day", "attachments": [{"path": str(tmp_path / "a.png")}],
    }  # fmt: skip


# -- what comes back --------------------------------------------------------------------------------------------


def test_an_answer(played_gw: Gateway, lab: str) -> None:
    seen: list[str] = []
    answer = played_gw.trigger("Lab PC", "Hi", on_event=lambda event: seen.append(event["type"]))
    assert answer.text == "Hello *world*\n\n\nagain"
    assert (answer.peer, answer.conversation, answer.run_id) == ("Lab PC", "suzent:1:lab", "run1")
    assert [(call.name, call.arguments, call.result) for call in answer.tools] == [
        ("camera.snap", '{"a": 1}', '{"ok": true}')
    ]
    events = answer.events
    assert events["type"].tolist() == seen and seen[-1] == "RUN_FINISHED" and len(seen) == 10
    assert events.index.tolist() == list(range(10))
    assert events["delta"].iloc[1] == "Hello "
    assert str(events["at"].dtype) == "datetime64[us, UTC]" and events["at"].is_monotonic_increasing
    assert events["tool"].iloc[2] == "camera.snap"
    assert "1 tool call" in repr(answer)
    shown = answer._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/markdown"} and "\x1b" not in shown["text/plain"]


def test_in_a_terminal_it_is_printed_as_it_comes(
    played_shell: Shell, lab: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use(played_shell, monkeypatch)
    result = played_shell.run("%suzent trigger 'Lab PC' Hi")
    out = capsys.readouterr().out
    assert out.startswith("Hello \n[camera.snap]\n*world*\n\n\nagain\n")
    assert out.count("again") == 1 and "\x1b" not in out
    assert isinstance(result, Answer)
    assert "again" not in repr(result)
    capsys.readouterr()
    played_shell.run("x = %suzent trigger 'Lab PC' Hi")
    assert "again" in capsys.readouterr().out
    assert "again" in played_shell.formatted(played_shell.run("x"))["text/plain"]  # in another cell it is drawn


def test_a_peer_of_older_make(played_gw: Gateway, played: PlayedGateway) -> None:
    async def old(turn: TurnHandler, body: Record) -> None:
        for line in ('{"type":"RUN_STARTED","threadId":"c","runId":"r"}',
                     '{"type":"TEXT_MESSAGE_CONTENT","delta":"no blank lines\u2028here"}',
                     '{"type":"error","data":"peer returned 500"}'):  # fmt: skip
            turn.write(f"data: {line}\n".encode())
            await turn.flush()

    played.add_peer("Old", old)
    with pytest.raises(TurnFailed) as failed:
        played_gw.trigger("Old", "Hi")
    assert failed.value.code == "peer_refused" and "peer returned 500" in failed.value.message
    assert failed.value.answer is not None and failed.value.answer.text == "no blank lines\nhere"


def test_a_failed_turn_is_one_line_and_keeps_what_came(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    played.add_peer("Lab", failing)
    error = played_shell.fail("%suzent trigger Lab Hi")
    assert isinstance(error, TurnFailed) and error.code == "agent_gone"
    assert error.answer is not None and error.answer.text == "So far"
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == "So far" and len(lines) == 2
    assert lines[1].startswith("Lab: the lens cap is on really") and "Start the notebook or device" in lines[1]


def test_what_to_do_is_said_once(played_shell: Shell, played: PlayedGateway) -> None:
    hint = ERRORS["no_agent"].hint

    async def no_agent(turn: TurnHandler, body: Record) -> None:
        await turn.started()
        await turn.event("RUN_ERROR", message=f"There is no agent. {hint}", code="no_agent")

    played.add_peer("Lab", no_agent)
    error = played_shell.fail("%suzent trigger Lab hi")
    assert (
        isinstance(error, TurnFailed)
        and error.line.count("@sz.agent") == 1
        and error.line.startswith("Lab: There is no agent.")
    )


def test_refusals_before_the_turn(played_gw: Gateway, played: PlayedGateway) -> None:
    async def refused(turn: TurnHandler, body: Record) -> None:
        from suzent_jupyter.protocol.errors import SuzentError

        turn.refuse(SuzentError("peer_off", "Lab is switched off."))

    played.add_peer("Lab", refused)
    with pytest.raises(KernelError) as error:
        played_gw.trigger("Lab", "Hi")
    assert error.value.code == "peer_off" and not isinstance(error.value, TurnFailed)


# -- the way is lost --------------------------------------------------------------------------------------------


def test_a_lost_stream_is_taken_up_again(played_gw: Gateway, played: PlayedGateway) -> None:
    came: list[str] = []

    async def cut(turn: TurnHandler, body: Record) -> None:
        came.append(turn.last_event_id)
        if not turn.last_event_id:
            await turn.started(1)
            await turn.text("one ", 2)
            turn.cut()
        await turn.text("two ", 3)
        if len(came) == 2:
            turn.cut()
        await turn.finished(4)

    played.add_peer("Lab", cut)
    answer = played_gw.trigger("Lab", "Hi")
    assert came == ["", "run1:2", "run1:3"]
    assert answer.text == "one two two " and answer.events["type"].tolist()[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("numbered", [True, False])
def test_a_stream_lost_for_good_says_that_the_turn_goes_on(
    played_shell: Shell, played: PlayedGateway, numbered: bool, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def cut(turn: TurnHandler, body: Record) -> None:
        if not turn.last_event_id:
            await turn.started(1 if numbered else None)
            await turn.text("half", 2 if numbered else None)
        turn.cut()

    monkeypatch.setattr("suzent_jupyter.kernel.turns.stream._PAUSES", (0.0, 0.0, 0.0))
    played.add_peer("Lab", cut)
    error = played_shell.fail("%suzent trigger Lab Hi")
    assert isinstance(error, ConnectionLost)
    out = capsys.readouterr().out
    assert "half" in out and "the turn goes on over there" in out
    assert len(played.asked("/trigger")) == (4 if numbered else 1)


def test_a_stream_that_just_ends_is_not_taken_for_whole(played_gw: Gateway, played: PlayedGateway) -> None:
    async def short(turn: TurnHandler, body: Record) -> None:
        await turn.started()
        await turn.text("half")

    played.add_peer("Lab", short)
    with pytest.raises(ConnectionLost):
        played_gw.trigger("Lab", "Hi")


# -- interrupts -------------------------------------------------------------------------------------------------


def test_an_interrupt_stops_the_turn(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    played.add_peer("Lab", endless)

    def interrupt() -> None:
        wait_for(lambda: played.waiting)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = played_shell.ip.run_cell("%suzent trigger Lab Hi --chat day")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    out = capsys.readouterr().out
    assert "Interrupted: the turn on Lab is stopped." in out and "[Stopped here.]" in out
    assert "Traceback" not in out
    wait_for(lambda: played.asked("/stop"))


def test_async_and_cancelled(played_gw: Gateway, played: PlayedGateway, lab: str) -> None:
    played.add_peer("Slow", endless)

    async def work() -> list[Answer]:
        seen: list[str] = []
        answers = await asyncio.gather(
            *(played_gw.atrigger("Lab PC", "Hi", on_event=lambda event: seen.append(event["type"])) for _ in range(12))
        )
        assert seen.count("RUN_FINISHED") == 12
        task = asyncio.ensure_future(played_gw.atrigger("Slow", "Hi"))
        while not played.stopped.is_set() and len(played.asked("/trigger")) < 13:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return list(answers)

    assert {answer.text for answer in asyncio.run(work())} == {"Hello *world*\n\n\nagain"}
    assert len(played.asked("/stop")) == 1


# -- drawing ----------------------------------------------------------------------------------------------------


def in_use(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it the one shell of this process, as in a kernel."""
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setattr(InteractiveShell, "_instance", shell.ip)


class Screen:
    """What a front end would show: displays in their order, and how often each was drawn."""

    def __init__(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.shown: dict[str, Record] = {}
        self.draws = 0
        self.bytes = 0
        in_use(shell, monkeypatch)
        shell.ip.kernel = object()
        monkeypatch.setattr(shell.ip.display_pub, "publish", self._publish)

    def _publish(self, data: Record, transient: Record | None = None, update: bool = False, **_: Any) -> None:
        key = (transient or {}).get("display_id", "")
        if not update:
            self.order.append(key)
        assert key in self.order
        self.shown[key] = data
        self.draws += 1
        self.bytes += sum(len(text) for text in data.values())

    def bundles(self) -> list[Record]:
        return [self.shown[key] for key in self.order]


def test_tools_above_and_the_answer_below(
    played_shell: Shell, played: PlayedGateway, lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(played_shell, monkeypatch)
    played_shell.run("x = %suzent trigger 'Lab PC' Hi")
    tools, answer = screen.bundles()
    assert set(tools) == {"text/plain", "text/html"} and "<details>" in tools["text/html"]
    assert "camera.snap" in tools["text/html"] and "{&quot;ok&quot;: true}" in tools["text/html"]
    assert set(answer) == {"text/plain", "text/markdown"}
    assert answer["text/markdown"].startswith("Hello *world*") and answer["text/markdown"].endswith("again")


def test_hostile_text_never_becomes_html(
    played_shell: Shell, played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) <svg onload=alert(1)> ![i](http://e/x.png) </pre>"

    async def hostile(turn: TurnHandler, body: Record) -> None:
        await turn.started()
        for char in evil:
            await turn.text(char)
        await turn.event("TOOL_CALL_START", toolCallId=evil, toolCallName=evil)
        await turn.event("TOOL_CALL_ARGS", toolCallId=evil, delta=evil)
        await turn.event("TOOL_CALL_RESULT", toolCallId=evil, content=evil)
        await turn.event("CUSTOM", name=evil, value={"text/html": evil})
        await turn.event("RUN_ERROR", message=evil, code=evil)

    screen = Screen(played_shell, monkeypatch)
    played.add_peer(evil[:20], hostile, peer_id="p1")
    played_shell.fail("%suzent trigger p1 Hi")
    for bundle in screen.bundles():
        assert set(bundle) <= {"text/plain", "text/html", "text/markdown"}
        for kind in ("text/html", "text/markdown"):
            assert "<img" not in bundle.get(kind, "") and "<svg" not in bundle.get(kind, "")
        assert "](javascript" not in bundle.get("text/markdown", "") and "![" not in bundle.get("text/markdown", "")
    assert {"text/html", "text/markdown"} <= {kind for bundle in screen.bundles() for kind in bundle}


def test_a_long_answer_is_drawn_rarely_and_always_to_its_end(
    played_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(played_shell, monkeypatch)
    answer = Answer("Lab")
    view = NotebookView(answer)
    live = "suzent_jupyter.kernel.turns.live"
    monkeypatch.setattr(f"{live}.answer_bundle", lambda answer, note: {"text/plain": answer.text})
    clock = [100.0]
    monkeypatch.setattr(f"{live}.time.monotonic", lambda: clock[0])
    piece = "word " * 20
    for _ in range(10_000):  # a megabyte in 100 s
        event = {"type": "TEXT_MESSAGE_CONTENT", "delta": piece}
        answer.take(event)
        view.changed(event)
        clock[0] += 0.01
    assert 20 < screen.draws < 300
    assert screen.bytes < 60 * answer.chars
    view.finish()
    assert screen.bundles()[-1]["text/plain"] == answer.text
    before = screen.draws
    view.finish()
    assert screen.draws == before  # nothing changed


def test_what_came_last_is_drawn_in_a_pause(
    played_shell: Shell, played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(played_shell, monkeypatch)
    drawn = asyncio.Event()

    async def pausing(turn: TurnHandler, body: Record) -> None:
        await turn.started()
        for number in range(20):
            await turn.text(f"{number} ")
        await drawn.wait()
        await turn.finished()

    played.add_peer("Lab", pausing)

    def watch() -> None:
        try:
            wait_for(lambda: any("19" in bundle["text/plain"] for bundle in screen.bundles()), 10)
            assert screen.draws <= 5
        finally:
            played.loop.call_soon_threadsafe(drawn.set)

    thread = threading.Thread(target=watch)
    thread.start()
    played_shell.run("x = %suzent trigger Lab Hi")
    thread.join()
    assert screen.bundles()[-1]["text/plain"].endswith("19 ")


def test_what_is_too_long_to_show_is_cut_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "SHOWN_CHARS", 10)
    answer = Answer("Lab")
    answer.take({"type": "TEXT_MESSAGE_CONTENT", "delta": "0123456789abc"})
    shown = answer._repr_mimebundle_()
    assert "3 more characters" in shown["text/markdown"] and "abc" not in shown["text/markdown"]
    assert answer.text.endswith("abc")


def test_many_tool_calls_are_bounded() -> None:
    answer = Answer("Lab")
    for number in range(500):
        answer.take({"type": "TOOL_CALL_START", "toolCallId": str(number), "toolCallName": f"tool{number}"})
        answer.take({"type": "TOOL_CALL_ARGS", "toolCallId": str(number), "delta": "x" * 100_000})
    html = tools_bundle(answer.tools)["text/html"]
    assert len(html) < 500_000 and "500 tool calls" in html and "tool499" in html


# -- a peer's devices -------------------------------------------------------------------------------------------


def reference(peer_id: str, **fields: Any) -> Record:
    return {
        "id": "f1", "url": f"/nodes/peers/{peer_id}/files/f1", "name": "../photo.png", "media_type": "image/png",
        "size": 70, "expires_at": "", **fields,
    }  # fmt: skip


def test_a_photo_from_a_peer(played_shell: Shell, played: PlayedGateway, tmp_path: Path) -> None:
    peer_id = played.add_peer("Lab PC")
    played.files[peer_id, "f1"] = base64.b64decode(PNG)
    played.calls[peer_id] = {"success": True, "result": {"file": reference(peer_id), "width": 1}}
    played_shell.run("photo = %suzent invoke 'Lab PC' camera.snap format=png --timeout 5")
    photo = played_shell.ip.user_ns["photo"]
    assert played.asked("/invoke") == [{"command": "camera.snap", "params": {"format": "png"}, "timeout": 5}]
    assert not [path for _, path, _, _ in played.requests if "/files/" in path]  # fetched when looked at
    shown = played_shell.formatted(photo)
    assert shown["image/png"] == PNG + "\n" or shown["image/png"].strip() == PNG
    assert isinstance(photo.data["file"], RemoteFile) and photo.data["width"] == 1
    assert photo.image.size == (1, 1)
    assert photo.save(tmp_path).name == "photo.png"
    assert len([path for _, path, _, _ in played.requests if "/files/" in path]) == 1
    played_shell.run("%suzent invoke 'Lab PC/Phone' camera.snap")
    assert played.asked("/invoke")[-1]["node"] == "Phone"


def test_what_a_peer_says_of_its_files_is_not_believed(played_gw: Gateway, played: PlayedGateway) -> None:
    peer_id = played.add_peer("Lab")
    other = played.add_peer("Other")
    played.files[peer_id, "f1"] = b"<svg onload=alert(1)>"
    played.calls[peer_id] = {"success": True, "result": {"file": reference(peer_id)}}
    shown = played_gw.invoke("Lab", "camera.snap")._repr_mimebundle_()
    assert "image/png" not in shown and "<svg" not in str(shown)
    foreign = [reference(other), reference(peer_id, url="http://evil/x"), reference(peer_id, url="/nodes/config"),
               reference(peer_id, id="f2")]  # fmt: skip
    played.calls[peer_id] = {"success": True, "result": foreign}
    assert played_gw.invoke("Lab", "list").data == foreign
    played.calls[peer_id] = {"success": True, "result": {"file": reference(peer_id, id="gone",
                             url=f"/nodes/peers/{peer_id}/files/gone")}}  # fmt: skip
    result = played_gw.invoke("Lab", "camera.snap")
    assert "no such file any more" in result._repr_mimebundle_()["text/plain"]
    with pytest.raises(KernelError):
        result.save()


def test_a_peer_is_asked_only_where_no_node_has_the_name(
    played_gw: Gateway, played: PlayedGateway, phone: Any, gw: Gateway
) -> None:
    assert gw.invoke("MyPhone", "echo", {"a": 1}).data == {"a": 1}
    peer_id = played.add_peer("Lab")
    played.calls[peer_id] = {"success": False, "error": "The lens cap is on."}
    result = asyncio.run(played_gw.ainvoke("lab", "camera.snap"))
    assert not result.success and result.error == "The lens cap is on."
    with pytest.raises(NodeNotFound, match="not found among the connected nodes, nor is there a peer"):
        played_gw.invoke("Nobody", "x")
    with pytest.raises(KernelError, match="takes no key"):
        played_gw.invoke("Lab", "x", idempotency_key="k")


def test_files_that_an_answer_names(played_gw: Gateway, played: PlayedGateway) -> None:
    async def snapping(turn: TurnHandler, body: Record) -> None:
        await turn.started()
        await turn.event("CUSTOM", name="file", value={"file": reference("lab-0123456789")})
        await turn.finished()

    peer_id = played.add_peer("Lab", snapping)
    played.files[peer_id, "f1"] = base64.b64decode(PNG)
    answer = played_gw.trigger("Lab", "Snap")
    assert [found.data for found in answer.files] == [base64.b64decode(PNG)]
    assert isinstance(answer.events, pd.DataFrame)
