"""Chats with nodes: what is sent, what streams in, interrupts, lost sockets and restarted gateways."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from typing import Any

import pandas as pd
import pytest
from support.played_chats import ROUTING, Node, sent
from support.played_gateway import ClientSocket, PlayedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Answer, ConnectionLost, Gateway, KernelError, NodeNotFound, TurnFailed, chats
from suzent_jupyter.kernel.errors import ContentError, UsageError
from suzent_jupyter.kernel.turns import chat as turns
from suzent_jupyter.kernel.verbs.prose import read_prose
from suzent_jupyter.protocol.errors import ERRORS, SuzentError

from .conftest import Shell
from .test_trigger import Screen, in_use

Record = dict[str, Any]

# -- what is sent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "prompt", "options"),
    [
        ("how are you?", "how are you?", {}),
        ("what's up, don't  know --node Lab", "what's up, don't  know", {"--node": "Lab"}),
        ('--node "Lab PC" take a photo', "take a photo", {"--node": "Lab PC"}),
        ("photo --conversation=last --node 'Lab PC'", "photo", {"--conversation": "last", "--node": "Lab PC"}),
        ('"say --node x"', "say --node x", {}),
        ('"two words" --node x', "two words", {"--node": "x"}),
        ('"one" and "two"', '"one" and "two"', {}),
        ("explain --node to me", "explain --node to me", {}),
        ("say {x: $y} `z`", "say {x: $y} `z`", {}),
        ("--node Lab", "", {"--node": "Lab"}),
        ("--nodes are", "--nodes are", {}),
        ("", "", {}),
    ],
)
def test_the_line(line: str, prompt: str, options: dict[str, str]) -> None:
    found = read_prose(line, ("--node", "--conversation"), ("--chat",), usage="")
    assert (found.text, found.options, found.flags) == (prompt, options, set())


def test_an_option_without_its_value_is_refused() -> None:
    for line in ("hello --node", "--node", "hello --conversation="):
        with pytest.raises(UsageError, match="needs a value"):
            read_prose(line, ("--node", "--conversation"), usage="")
    assert read_prose("--chat photo", (), ("--chat",), usage="").flags == {"--chat"}


def test_prompts_reach_the_gateway_as_typed(played_shell: Shell, played: PlayedGateway) -> None:
    Node(played, "hi")
    assert played_shell.run("%suzent chat how are you?").text == "hi"
    assert played_shell.run("x = %suzent chat what's up? --node 'Lab PC'\nx.text") == "hi"
    played_shell.run("%%suzent chat --conversation last\nFirst 'line\n\n  second?")
    bodies = [
        {key: value for key, value in frame.items() if key not in ("type", "id", "origin")}
        for frame in sent(played, "chat.send")
    ]
    assert bodies == [
        {"message": "how are you?"},
        {"message": "what's up?", "target_node_id": "Lab PC"},
        {"message": "First 'line\n\n  second?", "session_id": "s-1"},
    ]
    assert len({frame["id"] for frame in sent(played, "chat.send")}) == 3


def test_without_a_prompt_nothing_is_sent(played_shell: Shell, played: PlayedGateway) -> None:
    for cell in ("%suzent chat", "%suzent chat --node Lab", "%%suzent chat\n  \n", "%%suzent chat hello\nworld"):
        assert played_shell.fail(cell).code == "usage"
    assert played.chat_frames == []


# -- what comes back --------------------------------------------------------------------------------------------


def test_an_answer(played_gw: Gateway, played: PlayedGateway) -> None:
    Node(played, "Hello ", "*world*")
    seen: list[str] = []
    answer = played_gw.chat("Hi", on_event=lambda event: seen.append(event["type"]))
    assert answer.text == "Hello *world*"
    assert (answer.peer, answer.node_id) == ("Lab PC", "n-1")
    assert (answer.conversation, answer.run_id) == ("s-1", "r-1"), "the node's own ids are not taken"
    assert seen == ["RUN_STARTED", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "RUN_FINISHED"]
    assert len(answer.events) == 4
    assert answer.route.node_id == "n-1" and answer.route.frame["score"].tolist() == [1.5]
    with pytest.raises(ContentError):
        Answer("a peer").route  # noqa: B018 - raises


def test_the_first_line_says_who_answers_and_why(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use(played_shell, monkeypatch)
    Node(played, "Hello ", "there")
    result = played_shell.run("%suzent chat Hi")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["→ Lab PC, by tier 2 (shared words): It shares 'photo'.", "Hello there"]
    assert "Hello" not in repr(result)


def test_in_a_notebook_it_grows_under_the_cell(
    played_shell: Shell, played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use(played_shell, monkeypatch)
    screen = Screen(played_shell, monkeypatch)
    Node(played, "<b>bold</b> ", "*text*")
    played_shell.run("%suzent chat Hi")
    shown = [screen.shown[key] for key in screen.order]
    assert shown[0] == {"text/plain": "→ Lab PC, by tier 2 (shared words): It shares 'photo'."}
    assert "<b>" not in shown[1]["text/markdown"] and "*text*" in shown[1]["text/markdown"]


def test_a_failed_run_is_one_line_and_keeps_what_came(played_shell: Shell, played: PlayedGateway) -> None:
    Node(played, "So far", end={"type": "RUN_ERROR", "message": "the node went away", "code": "node_disconnected"})
    error = played_shell.fail("%suzent chat Hi")
    assert isinstance(error, TurnFailed) and error.code == "node_disconnected"
    assert error.answer is not None and error.answer.text == "So far"
    assert error.line.startswith("Lab PC: the node went away") and "\n" not in error.line


@pytest.mark.parametrize("code", ["no_executor", "not_executable", "node_not_found", "conversation_busy"])
def test_a_refusal_is_one_line(played_shell: Shell, played: PlayedGateway, code: str) -> None:
    def refuse(socket: ClientSocket, frame: Record) -> None:
        body = SuzentError(code, "That is refused.").as_body()
        socket.say({"type": "error", "id": frame["id"], "message": body.pop("error"), **body})

    played.chat = refuse
    error = played_shell.fail("%suzent chat Hi --node Nobody")
    assert error.code == code and error.line.startswith("That is refused.") and ERRORS[code].hint in error.line
    assert isinstance(error, NodeNotFound) == (code == "node_not_found")


def test_a_failure_in_python_shows_the_line_that_asked_and_little_of_ours(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(socket: ClientSocket, frame: Record) -> None:
        body = SuzentError("no_executor", "Nobody can.").as_body()
        socket.say({"type": "error", "id": frame["id"], "message": body.pop("error"), **body})

    played_shell.run("import suzent_jupyter as sz\ngw = sz.connect()")
    failing: list[tuple[Any, str]] = [
        (refuse, "gw.chat('Hi')"),
        (refuse, "await gw.achat('Hi')"),
        (refuse, "gw.chat('')"),
        (refuse, "gw.chat('Hi', conversation='a b')"),
        (Node(played, "x", end={"type": "RUN_ERROR", "message": "gone", "code": "agent_failed"}).play, "gw.chat('Hi')"),
        (lambda socket, frame: socket.close(), "gw.chat('Hi')"),
    ]
    for play, source in failing:
        played.chat = play
        played_shell.fail(source)
        shown = capsys.readouterr().out
        # IPython shows the last frame of an error in any case.
        assert "Traceback" in shown and shown.replace(os.sep, "/").count("suzent_jupyter/") <= 1, shown


# -- a socket that is lost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 3])
def test_a_lost_socket_is_taken_up_again_where_it_broke_off(
    played_gw: Gateway, played: PlayedGateway, overlap: int
) -> None:
    words = [f"{number} " for number in range(200)]
    node = Node(played, *words)
    node.cut_after, node.overlap = 57, overlap
    answer = played_gw.chat("count")
    assert answer.text == "".join(words).rstrip() or answer.text == "".join(words)
    assert len(answer.events) == len(node.events)
    assert [frame["seq"] for frame in sent(played, "chat.watch")] == [57]
    assert len(sent(played, "chat.send")) == 1, "it was not asked twice"


def test_a_gap_is_asked_for(played_gw: Gateway, played: PlayedGateway) -> None:
    node = Node(played, "a", "b", "c")
    whole = node.event
    dropped = []

    def lossy(socket: ClientSocket, seq: int, event: Record) -> None:
        if seq == 2 and not dropped:
            dropped.append(seq)
            return
        whole(socket, seq, event)

    node.event = lossy  # type: ignore[method-assign]
    assert played_gw.chat("x").text == "abc"
    assert sent(played, "chat.watch")[0]["seq"] == 2


@pytest.mark.parametrize("outcome", ["interrupted", "done", ""])
def test_a_restarted_gateway_is_said_clearly(played_gw: Gateway, played: PlayedGateway, outcome: str) -> None:
    node = Node(played, "So far", "never")
    node.cut_after, node.on_watch = 2, SuzentError("run_unknown", "This run is not kept any more.")
    message = {"role": "assistant", "content": "So far", "run_id": "r-1", "outcome": outcome}
    played.answers["conversations/s-1"] = {"conversation_id": "s-1", "messages": [message]}
    with pytest.raises(ConnectionLost) as lost:
        played_gw.chat("Hi")
    said = "completed while" if outcome == "done" else "was restarted during the answer"
    assert said in lost.value.message and (outcome in lost.value.message or outcome == "done")
    assert "%suzent conversations s-1" in lost.value.hint


def test_a_gateway_that_does_not_come_back_is_not_waited_for_without_end(
    played_gw: Gateway, played: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "PATIENCE", 0.3)
    Node(played, "So far", end={})
    with pytest.raises(ConnectionLost, match=r"did not come back within 0\.3 s\. If it still runs, so does the run"):
        played_gw.chat("Hi", on_event=lambda event: event["type"] == "TEXT_MESSAGE_CONTENT" and played.stop())


def test_a_socket_lost_before_it_was_accepted(played_gw: Gateway, played: PlayedGateway) -> None:
    played.chat = lambda socket, frame: socket.close()
    with pytest.raises(ConnectionLost, match="whether the prompt arrived is unknown"):
        played_gw.chat("Hi")
    assert len(sent(played, "chat.send")) == 1, "a prompt is never sent twice"
    Node(played, "again")
    assert played_gw.chat("Hi").text == "again"


# -- interrupts -------------------------------------------------------------------------------------------------


def test_an_interrupt_aborts_the_run(
    played_shell: Shell,
    played: PlayedGateway,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Node(played, "Thinking", end={})
    accepted, show = threading.Event(), turns.show_accepted

    def shown(frame: Record) -> None:
        show(frame)
        accepted.set()

    monkeypatch.setattr(turns, "show_accepted", shown)

    def interrupt() -> None:
        assert accepted.wait(10)  # before that it does not know which node was chosen
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = played_shell.ip.run_cell("%suzent chat Hi")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    out = capsys.readouterr().out
    assert "Interrupted: the run on Lab PC is stopped." in out and "Traceback" not in out
    assert sent(played, "chat.abort")[0]["run_id"] == "r-1"


def test_an_interrupt_before_it_was_accepted_aborts_it_then(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(played, "Thinking", end={})

    def slow(socket: ClientSocket, frame: Record) -> None:
        if frame["type"] == "chat.send":
            os.kill(os.getpid(), signal.SIGINT)
            played.loop.call_later(0.5, node.play, socket, frame)
        else:
            node.play(socket, frame)

    played.chat = slow
    result = played_shell.ip.run_cell("%suzent chat Hi --conversation slow")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "the run on Lab PC is stopped" in capsys.readouterr().out
    wait_for(lambda: sent(played, "chat.abort"))
    Node(played, "hi")
    played_shell.run("%suzent chat more --conversation last")
    assert sent(played, "chat.send")[-1]["session_id"] == "slow"


def test_async_and_cancelled(played_gw: Gateway, played: PlayedGateway) -> None:
    Node(played, "hi")

    async def work() -> None:
        seen: list[str] = []
        answer = await played_gw.achat("Hi", on_event=lambda event: seen.append(event["type"]))
        assert answer.text == "hi"
        assert seen[-1] == "RUN_FINISHED"
        played.waiting = False
        Node(played, "Thinking", end={})
        task = asyncio.ensure_future(played_gw.achat("Hi"))
        while not played.waiting:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert sent(played, "chat.abort")
    assert not sent(played, "chat.unwatch"), "the end of the run was heard"


# -- routes, scopes, conversations ------------------------------------------------------------------------------


def test_a_route_is_asked_for(played_shell: Shell, played: PlayedGateway) -> None:
    played.answers["route"] = ROUTING
    assert played_shell.run("%suzent route what's a photo?").node_id == "n-1"
    played_shell.run("%suzent route --chat photo --node 'Lab PC'")
    assert played.asked("/route") == [
        {"query": "what's a photo?", "executors": False},
        {"query": "photo", "executors": True, "node": "Lab PC"},
    ]
    assert played_shell.fail("%suzent route --chat").code == "usage"


def test_a_scope_is_set(played_shell: Shell, played: PlayedGateway) -> None:
    played.answers["nodes/Lab PC/scope"] = {"success": True, "node_id": "n", "scope": "enterprise", "org": "acme"}
    assert "everybody of acme" in played_shell.run("%suzent scope 'Lab PC' enterprise")
    assert played.asked("/scope") == [{"scope": "enterprise"}]
    assert played_shell.fail("%suzent scope 'Lab PC' everyone").code == "usage"
    played.answers["nodes/Lab PC/scope"] = SuzentError("not_owner", "Lab PC is somebody else's.")
    assert played_shell.fail("%suzent scope 'Lab PC' account").code == "not_owner"


CONVERSATIONS: list[Record] = [
    {"conversation_id": "s-3", "title": "own", "target_node_id": "", "message_count": 2},
    {"conversation_id": "s-2", "title": "photo", "target_node_id": "n-1", "message_count": 2,
     "updated_at": "2026-01-02T03:04:05+00:00"},
    {"conversation_id": "p-1", "title": "peer", "folder": "Social", "device_id": "g-1", "message_count": 1},
]  # fmt: skip


def test_conversations(played_shell: Shell, played: PlayedGateway, played_gw: Gateway) -> None:
    played.answers["conversations"] = {"conversations": CONVERSATIONS}
    played.lists["nodes"] = [{"node_id": "n-1", "display_name": "Lab PC"}]
    frame = played_shell.run("%suzent conversations")
    assert frame.loc["s-2", "node"] == "Lab PC" and frame.loc["s-3", "node"] == ""
    assert frame.loc["s-2", "go_on"] == "%suzent chat --conversation s-2 PROMPT"
    assert "over there" in frame.loc["p-1", "go_on"]
    played.answers["conversations"] = {"conversations": []}
    empty = played_gw.conversations
    assert len(empty) == 0 and empty.dtypes.to_dict() == frame.dtypes.to_dict()
    assert played_shell.fail("%suzent chat Hi --conversation last").code == "usage"
    played.answers["conversations"] = {"conversations": CONVERSATIONS}
    Node(played, "hi")
    played_gw.chat("Hi", conversation="last")
    assert sent(played, "chat.send")[-1]["session_id"] == "s-2", "the newest that a node answered"


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("local", "💻"),
        ("sent-to-node", "📤"),
        ("received-from-node", "📥"),
        ("web", "🌐"),
        ("peer", "🤝"),
        ("enterprise", "🏢"),
        (None, ""),  # of a gateway that knows none
        ("<b>odd</b>", ""),
    ],
)
def test_a_conversations_sign_stands_beside_its_word(
    played_shell: Shell, played: PlayedGateway, kind: str | None, sign: str
) -> None:
    record = {**CONVERSATIONS[0], **({"icon": kind} if kind else {})}
    played.answers["conversations"] = {"conversations": [record]}
    played.answers["conversations/s-3"] = {**record, "messages": []}
    row = played_shell.run("%suzent conversations").loc["s-3"]
    assert row["icon"] == sign
    assert row["kind"] == kind if sign else pd.isna(row["kind"])
    shown = played_shell.formatted(played_shell.run("c = %suzent conversations s-3\nc"))
    head = f"{sign} {kind} · own" if sign else "own"
    assert shown["text/plain"].splitlines()[0] == head
    assert head in shown["text/markdown"].splitlines()[0] and set(shown) == {"text/plain", "text/markdown"}


def test_one_conversation_shows_messages_and_decisions_safely(played_shell: Shell, played: PlayedGateway) -> None:
    played.answers["conversations/s-2"] = {
        **CONVERSATIONS[1],
        "messages": [
            {"role": "user", "content": "<script>x</script> photo", "run_id": "r", "detail": {"routing": ROUTING}},
            {
                "role": "assistant",
                "content": "![x](http://evil/) **done**\x1b[2J",
                "run_id": "r",
                "outcome": "gone_bad",
            },
        ],
    }
    shown = played_shell.formatted(played_shell.run("c = %suzent conversations s-2\nc"))
    markdown, plain = shown["text/markdown"], shown["text/plain"]
    assert "<script" not in markdown and "![x]" not in markdown and "**done**" in markdown
    assert "\x1b" not in markdown + plain
    assert "→ Lab PC, by tier 2 (shared words): It shares 'photo'." in plain
    assert "ended by gone_bad" in plain and "%suzent chat --conversation s-2 PROMPT" in plain
    messages = played_shell.run("c.messages")
    assert messages["chosen"].tolist() == ["Lab PC", ""] and messages["tier"].tolist()[0] == "bm25"


def test_each_answer_is_its_own_nodes(played_gw: Gateway, played: PlayedGateway) -> None:
    """A conversation goes on wherever the next prompt is routed to; what one node said is not shown as another's."""
    chosen = [{"node_id": f"n-{n}", "display_name": name, "tier": "bm25"} for n, name in enumerate(("Garden", "Desk"))]
    messages: list[Record] = []
    for number, choice in enumerate(chosen):
        run_id = f"r-{number}"
        messages.append({"role": "user", "content": "?", "run_id": run_id, "detail": {"routing": {"choice": choice}}})
        messages.append({"role": "assistant", "content": "!", "run_id": run_id, "outcome": "interrupted"})
    messages.append({"role": "user", "content": "?", "run_id": "r-2"})
    messages.append({"role": "assistant", "content": "!", "run_id": "r-2", "detail": {"agent": "the gateway's own"}})
    messages.append({"role": "assistant", "content": "!", "run_id": "r-3"})
    played.answers["conversations/s-2"] = {**CONVERSATIONS[1], "messages": messages}
    played.lists["nodes"] = [{"node_id": "n-1", "display_name": "Desk"}]
    lines = repr(played_gw.conversation("s-2")).splitlines()
    assert [line.partition(" (")[0] for line, text in itertools.pairwise(lines) if text == "!"] == [
        "Garden", "Desk", "the gateway's own", "Desk",
    ]  # fmt: skip


def test_last_is_the_conversation_that_was_begun_last_however_it_ended(
    played_shell: Shell, played: PlayedGateway, played_gw: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    Node(played, "hi")
    played_shell.run("%suzent chat Hi --conversation first")
    Node(played, "Thinking", end={})

    def interrupted(frame: Record) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(turns, "show_accepted", interrupted)
        result = played_shell.ip.run_cell("%suzent chat Hi --conversation interrupted")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    Node(played, "So far", end={"type": "RUN_ERROR", "message": "gone", "code": "node_disconnected"})
    assert played_shell.fail("%suzent chat more --conversation last").code == "node_disconnected"
    assert sent(played, "chat.send")[-1]["session_id"] == "interrupted"
    assert played_shell.fail("%suzent chat Hi --conversation failed").code == "node_disconnected"
    Node(played, "hi")
    played_shell.run("%suzent chat more --conversation last")
    assert sent(played, "chat.send")[-1]["session_id"] == "failed"
    # The magics have a connection of their own; the notebook is one.
    played_gw.chat("Hi", conversation="by-Python")
    played_shell.run("%suzent chat more --conversation last")
    assert sent(played, "chat.send")[-1]["session_id"] == "by-Python"
    with Gateway(played.url, "szt_" + "o" * 43) as other:
        played.answers["conversations"] = {"conversations": []}
        with pytest.raises(KernelError):
            other.chat("more", conversation="last")


def test_what_is_no_id_of_a_conversation_is_said_here(played_shell: Shell, played: PlayedGateway) -> None:
    error = played_shell.fail("%suzent chat Hi --conversation 'a b'")
    assert (
        error.code == "usage"
        and "'a b' is no id of a conversation" in error.line
        and "%suzent conversations" in error.line
    )
    assert played.chat_frames == []
    played.answers["conversations/s-9"] = SuzentError("conversation_unknown", "There is none.")
    assert played_shell.fail("%suzent conversations s-9").line == "There is none. `%suzent conversations` lists them."


# -- completion -------------------------------------------------------------------------------------------------


def test_completion(played_shell: Shell, played: PlayedGateway) -> None:
    played.lists["nodes"] = [{"node_id": "n-1", "display_name": "Lab PC"}]
    played.lists["conversations"] = [{"conversation_id": "s-2"}]

    def words(text: str) -> list[str]:
        return [word for _, word in played_shell.complete(text)]

    assert words("%suzent chat --node L") == ['"Lab PC"']
    assert words("%suzent chat hello --conversation ") == ["last", "s-2"]
    assert words("%suzent chat --n") == ["--node"]
    assert words("%suzent route x --node L") == ['"Lab PC"']
    assert words("%suzent scope 'Lab PC' e") == ["enterprise"]
    assert words("%suzent scope L") == ['"Lab PC"']
    assert words("%suzent conversations s") == ["s-2"]
    assert "conversations" in words("%suzent conv")


def test_a_closed_gateway_says_so(played: PlayedGateway) -> None:
    gateway = Gateway(played.url, played.token)
    Node(played, "hi")
    assert gateway.chat("Hi").text == "hi"
    gateway.close()
    with pytest.raises(KernelError, match="was closed"):
        gateway.chat("Hi")
