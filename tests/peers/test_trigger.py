"""A prompt for a peer whose answer may be anything: what is sound comes through at once, the rest is one error."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.raw_server import CHUNKED_HEAD, STREAM_HEAD, RawServer, chunk, whole
from support.running import sync

from suzent_jupyter.node import TokenVault
from suzent_jupyter.peers.http import PeerHttp
from suzent_jupyter.peers.trigger import stop_turn, trigger_events
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.protocol.sse import Event

LIMITS = Limits(peer_timeout=0.5, heartbeat=0.1, run_ttl=2.0, peer_line_bytes=64 * 1024, run_bytes=256 * 1024)
STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
Play = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def text(delta: str) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta}


def line(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def saying(*parts: bytes) -> Play:
    """Play a server that says all of it and closes."""

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return play


@contextlib.asynccontextmanager
async def client(path: Path) -> AsyncIterator[PeerHttp]:
    http = PeerHttp(LIMITS, TokenVault(path))
    try:
        yield http
    finally:
        await http.close()


async def asked(
    path: Path, play: Play, limits: Limits = LIMITS, **options: Any
) -> tuple[list[Event], SuzentError | None, RawServer]:
    """Return the events of a turn, the error that ended it, and the server that was asked."""
    events: list[Event] = []
    async with client(path) as http, RawServer(play) as server, asyncio.timeout(20):
        stream = trigger_events(http, server.url, "szt_ours", {"content": "hi"}, limits, name="Lab", **options)
        try:
            async for event in stream:
                events.append(event)
        except SuzentError as error:
            return events, error, server
    return events, None, server


@sync
async def test_the_prompt_is_sent_as_suzent_expects_it(tmp_path: Path) -> None:
    whole = saying(STREAM_HEAD, line(STARTED), b"id: r:2\n" + line(text("a\u2028b")), line(FINISHED), line(text("no")))
    events, error, server = await asked(tmp_path, whole, last_event_id="r:1")
    assert error is None
    assert events == [Event("", STARTED), Event("r:2", text("a\u2028b")), Event("r:2", FINISHED)]
    head, body = server.requests[0]
    assert head.startswith(b"POST /channels/suzent/inbound HTTP/1.1\r\n")
    assert b"\r\nauthorization: bearer szt_ours\r\n" in head.lower()
    assert b"\r\nlast-event-id: r:1\r\n" in head.lower()
    assert json.loads(body) == {"content": "hi"}


@sync
async def test_an_id_that_is_none_is_not_sent(tmp_path: Path) -> None:
    play = saying(STREAM_HEAD, b"id: caf\xc3\xa9\n" + line(FINISHED))
    events, _, server = await asked(tmp_path, play, last_event_id="a\r\nX-Evil: 1")
    assert b"last-event-id" not in server.requests[0][0].lower()
    assert [event.id for event in events] == [""]


@sync
async def test_each_event_comes_through_before_the_next_is_sent(tmp_path: Path) -> None:
    ticks: asyncio.Queue[None] = asyncio.Queue()

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        for event in (STARTED, text("a"), text("b"), FINISHED):
            writer.write(line(event)[:-1])  # not even the blank line
            await ticks.get()

    async with client(tmp_path) as http, RawServer(play) as server, asyncio.timeout(10):
        seen = []
        async for event in trigger_events(http, server.url, "t", {"content": "x"}, LIMITS, name="Lab"):
            seen.append(event.data)
            ticks.put_nowait(None)
    assert seen == [STARTED, text("a"), text("b"), FINISHED]


SOUND = {
    "without blank lines": [STREAM_HEAD, *(line(each)[:-1] for each in (STARTED, text("é"), FINISHED))],
    "with CRLF": [STREAM_HEAD, *(line(each).replace(b"\n", b"\r\n") for each in (STARTED, text("é"), FINISHED))],
    "byte by byte": [
        bytes([byte]) for byte in STREAM_HEAD + b"".join(map(line, (STARTED, text("é"), FINISHED)))
    ],
    "in chunks, and hangs up after its end": [CHUNKED_HEAD, *(chunk(line(e)) for e in (STARTED, text("é"), FINISHED))],
    "with a word that it is done": [STREAM_HEAD, line(STARTED), line(text("é")), b"data: [DONE]\n\n"],
    "with an end of the answer alone": [CHUNKED_HEAD, chunk(line(STARTED)), chunk(line(text("é"))), b"0\r\n\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("parts", SOUND.values(), ids=SOUND)
def test_every_framing_ends_in_run_finished(tmp_path: Path, parts: list[bytes]) -> None:
    events, error, _ = asyncio.run(asked(tmp_path, saying(*parts)))
    assert error is None
    assert [event.data for event in events] == [STARTED, text("é"), FINISHED]


PACKED = gzip.compress(line(STARTED) + line(FINISHED))
HTML = b"<html>not found</html>"
BAD: dict[str, tuple[list[bytes], str, str]] = {
    "revoked": ([whole("401 Unauthorized", b'{"error":"no"}')], "peer_revoked", "token"),
    "forbidden": ([whole("403 Forbidden", b'{"error":"no \\u001b[31mway\\n, Node not  found"}')], "peer_refused",
                  "no way , Node unknown"),
    "is busy": ([whole("409 Conflict", b'{"error":"wait","code":"conversation_busy"}')], "conversation_busy", "wait"),
    "fails": ([whole("500 Oops", HTML, "text/html")], "bad_peer_answer", "500"),
    "fails at length": ([whole("500 Oops", b'{"error":"' + b"x" * 900_000 + b'"}')], "bad_peer_answer", "500"),
    "refuses in Suzent's words": ([whole("400 Bad", b'{"error":"content is required"}')], "peer_refused", "content"),
    "answers with no channel": ([whole("404 No", HTML, "text/html")], "bad_peer_answer", "404"),
    "answers with a page": ([whole("200 OK", HTML, "text/html")], "bad_peer_answer", "text/html"),
    "answers without a kind": ([b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n"], "bad_peer_answer", "something instead"),
    "answers with the wrong kind": ([whole("200 OK", line(FINISHED), "text/plain")], "bad_peer_answer", "text/plain"),
    "redirects to localhost": (
        [whole("307 Go", b"", more="Location: http://localhost:1/channels/suzent/inbound\r\n")],
        "bad_peer_answer", "not followed"),
    "packs its answer": (
        [whole("200 OK", PACKED, "text/event-stream", "Content-Encoding: gzip\r\n")], "bad_peer_answer", "packs"),
    "speaks another protocol": ([b"220 smtp.example.com ESMTP\r\n\r\n"], "bad_peer_answer", "HTTP"),
    "hangs up": ([], "peer_unreachable", "hung up"),
    "says nothing in its stream": ([STREAM_HEAD], "bad_peer_answer", "without any event"),
    "streams garbage": ([STREAM_HEAD, b"data: <html>\n\n" * 9 + b"\xff\xfe\x00" * 99], "bad_peer_answer", "any event"),
    "closes before its text is over": ([STREAM_HEAD, line(STARTED), line(text("a"))], "peer_unreachable", "may go on"),
    "closes within a chunk": (
        [CHUNKED_HEAD, chunk(line(STARTED)), chunk(line(text("a")))], "peer_unreachable", "may go on"),
    "closes within an event": ([STREAM_HEAD, line(STARTED), b'data: {"type":"RUN_FIN'], "peer_unreachable", "may go"),
    "sends more than a turn may have": ([STREAM_HEAD, line(STARTED), *[b": comment\n" * 4096] * 8], "bad_peer_answer",
                                        "more than"),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "code", "words"), BAD.values(), ids=BAD)
def test_what_a_peer_does_wrong_is_one_error(tmp_path: Path, parts: list[bytes], code: str, words: str) -> None:
    _, error, _ = asyncio.run(asked(tmp_path, saying(*parts)))
    assert error is not None
    assert (error.code, words in error.message) == (code, True), error.message
    assert "not found" not in error.message
    assert "\x1b" not in error.message
    assert len(error.message) < 700


@sync
async def test_a_peer_that_is_not_there(tmp_path: Path) -> None:
    async with RawServer(saying()) as server:
        url = server.url
    async with client(tmp_path) as http:
        with pytest.raises(SuzentError) as refused:
            await anext(trigger_events(http, url, "t", {"content": "x"}, LIMITS, name="Lab"))
    assert refused.value.code == "peer_unreachable"


@pytest.mark.parametrize("parts", [[], [b"HTTP/1.1 200 OK\r\n"], [STREAM_HEAD, line(STARTED)]])
def test_a_peer_that_hangs_is_unreachable(tmp_path: Path, parts: list[bytes]) -> None:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        await saying(*parts)(head, writer)
        await asyncio.sleep(60)

    patient = replace(LIMITS, peer_timeout=2.0)  # a busy machine takes its time to read what did come
    events, error, _ = asyncio.run(asked(tmp_path, play, patient))
    assert error is not None
    assert error.code == "peer_unreachable"
    assert len(events) == (len(parts) == 2)


@sync
async def test_a_peer_without_heartbeats_may_be_silent_for_as_long_as_a_turn_takes(tmp_path: Path) -> None:
    """Suzent's servers send none: a tool of theirs that takes minutes is minutes of silence."""

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + line(STARTED))
        await writer.drain()
        await asyncio.sleep(LIMITS.heartbeat * 6)
        writer.write(line(text("late")) + line(FINISHED))

    events, error, _ = await asked(tmp_path, play)
    assert (error, len(events)) == (None, 3)


@pytest.mark.parametrize("begun", [b"id: r:0\n" + line(STARTED), b": still here\n\n" + line(STARTED)])
def test_a_peer_with_heartbeats_that_falls_silent_is_given_up_early(tmp_path: Path, begun: bytes) -> None:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        await saying(STREAM_HEAD, begun)(head, writer)
        await asyncio.sleep(60)

    began = time.monotonic()
    _, error, _ = asyncio.run(asked(tmp_path, play, Limits(peer_timeout=5, heartbeat=0.1, run_ttl=30)))
    assert error is not None
    assert error.code == "peer_unreachable"
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("end", [FINISHED, {"type": "RUN_ERROR", "message": "no"}])
def test_what_follows_the_end_is_heard_out(tmp_path: Path, end: dict[str, Any]) -> None:
    """A Suzent server keeps the prompt only if its caller is still there when it has done with the turn."""

    async def work() -> bool:
        over, kept = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(CHUNKED_HEAD + chunk(line(STARTED) + line(end)))
            await over.wait()
            gone = asyncio.ensure_future(reader.read())
            await asyncio.wait([gone], timeout=0.3)
            kept.set_result(not reader.at_eof())
            gone.cancel()
            writer.write(chunk(line({"type": "CUSTOM", "name": "title", "value": {}})) + chunk(b""))
            writer.close()

        server = await asyncio.start_server(visit, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with client(tmp_path) as http, asyncio.timeout(20):
            prompt = {"content": "hi"}
            events = [each async for each in trigger_events(http, url, "szt_ours", prompt, LIMITS, name="Lab")]
            over.set()
            assert [each.data["type"] for each in events] == ["RUN_STARTED", end["type"]]
            return bool(await kept)

    assert asyncio.run(work())


@pytest.mark.parametrize("chat", ["work", "suzent:d1:work"])
def test_a_conversation_by_name_is_stopped_by_its_whole_id(tmp_path: Path, chat: str) -> None:
    async def work(reply: bytes) -> tuple[str, RawServer]:
        async with client(tmp_path) as http, RawServer(saying(reply)) as server:
            stopped = await stop_turn(http, server.url, "t", name="Lab", chat_id=chat, device_id="d1")
            return stopped, server

    stopped, server = asyncio.run(work(whole("200 OK", b'{"status":"stopping","reason":"x"}')))
    assert stopped == "suzent:d1:work"
    head, body = server.requests[0]
    assert head.startswith(b"POST /chat/stop ")
    assert json.loads(body) == {"chat_id": "suzent:d1:work"}
    with pytest.raises(SuzentError) as refused:
        asyncio.run(work(whole("404 Not Found", b'{"status":"no_active_stream"}')))
    assert refused.value.code == "nothing_running"


@sync
async def test_comments_keep_a_turn_alive(tmp_path: Path) -> None:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + line(STARTED))
        for _ in range(8):
            await asyncio.sleep(0.1)
            writer.write(b": still here\n\n")
            await writer.drain()
        writer.write(line(FINISHED))

    events, error, _ = await asked(tmp_path, play)
    assert error is None
    assert [event.data for event in events] == [STARTED, FINISHED]


@sync
async def test_a_gigabyte_without_a_line_end_is_not_read(tmp_path: Path) -> None:
    sent = 0

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM_HEAD + line(STARTED) + b"data: ")
        while sent < 1 << 30:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    events, error, _ = await asked(tmp_path, play, Limits(peer_line_bytes=1 << 20, run_bytes=1 << 40))
    assert error is None
    assert [event.data.get("code") for event in events] == [None, "bad_peer_answer"]
    assert sent < 64 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@sync
async def test_a_caller_that_is_gone_hangs_up(tmp_path: Path) -> None:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        while True:
            writer.write(line(text("a")))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with client(tmp_path) as http, RawServer(play) as server, asyncio.timeout(10):
        stream = trigger_events(http, server.url, "t", {"content": "x"}, LIMITS, name="Lab")
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await server.hung_up.wait()


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ({"message": "no agent here", "code": "no_agent"}, "no_agent", "no agent here"),
        ({"message": "a\n\u202eb\x1b[1m"}, "agent_failed", "a b"),
        ({"message": ["x"], "code": "<script>"}, "agent_failed", "It failed, and did not say why."),
        ({"message": "x" * 9999, "code": 7}, "agent_failed", "x" * 500),
    ],
)
def test_a_peers_own_error_ends_the_turn_in_clean_words(
    tmp_path: Path, event: dict[str, Any], code: str, message: str
) -> None:
    play = saying(STREAM_HEAD, line(STARTED), line({"type": "RUN_ERROR", **event}), line(text("no")))
    events, error, _ = asyncio.run(asked(tmp_path, play))
    assert error is None
    assert events[-1].data == {"type": "RUN_ERROR", "message": message, "code": code}


@sync
async def test_a_peers_hint_is_cleaned(tmp_path: Path) -> None:
    for hint, clean in (("\x1b]0;pwned\x07run\u202e \x1b[31mthis", "run this"), ({"a": 1}, "")):
        play = saying(STREAM_HEAD, line(STARTED), line({"type": "RUN_ERROR", "message": "no", "hint": hint}))
        events, _, _ = await asked(tmp_path, play)
        assert events[-1].data["hint"] == clean


STOPS = [
    (whole("200 OK", b'{"stopped":true,"agent_id":"suzent:1"}'), "suzent:1"),
    (whole("409 Conflict", b'{"error":"Peer agent is not active"}'), "nothing_running"),
    (whole("401 No", b"{}"), "peer_revoked"),
    (whole("500 No", b'{"error":"x"}'), "peer_refused"),
    (whole("404 No", HTML), "bad_peer_answer"),
    (whole("200 OK", HTML), "bad_peer_answer"),
    (whole("200 OK", b"[1]"), "bad_peer_answer"),
]


@pytest.mark.parametrize(("answer", "expected"), STOPS)
def test_stopping(tmp_path: Path, answer: bytes, expected: str) -> None:
    async def work() -> str:
        async with client(tmp_path) as http, RawServer(saying(answer)) as server:
            try:
                return await stop_turn(http, server.url, "t", name="Lab")
            except SuzentError as error:
                return error.code

    assert asyncio.run(work()) == expected
