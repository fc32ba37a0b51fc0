"""Event streams are read the same however they are cut, framed and broken."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.sse import Event, EventReader, event_bytes, run_error


def read(*chunks: bytes, line_bytes: int = 1000) -> list[Event]:
    reader = EventReader(line_bytes)
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.close()


def datas(*chunks: bytes, line_bytes: int = 1000) -> list[dict[str, Any]]:
    return [event.data for event in read(*chunks, line_bytes=line_bytes)]


A, B = {"type": "A"}, {"type": "B"}


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"type":"A"}\n\ndata: {"type":"B"}\n\n',
        b'data: {"type":"A"}\ndata: {"type":"B"}\n',  # no blank lines
        b'data: {"type":"A"}\r\n\r\ndata: {"type":"B"}\r\n\r\n',
        b'data: {"type":"A"}\r\rdata: {"type":"B"}\r\r',
        b'data:{"type":"A"}\n\ndata:  {"type":"B"}\n\n',
        b'\xef\xbb\xbfdata: {"type":"A"}\n\ndata: {"type":"B"}\n\n',
        b': hello\nevent: x\nretry: 5\nfoo\n\ndata: {"type":"A"}\nevent: y\n\n:\n\ndata: {"type":"B"}\n\n',
        b'data: {\ndata: "type":\ndata: "A"}\n\ndata: {"type":\ndata: "B"}\n\n',  # one event over several lines
        b'data: {"type":"A"}\n\ndata: {"type":"B"}',  # the last line end is missing
        b'data: {"type":"A"}\ndata: {\ndata: "type":"B"}',
        b'data: {"type":"A"}\n\ndata: {"type":"B"}\n\ndata: [DONE]\n\ndata: {"type":"C"}\n\n',
        b'data: garbage\ndata: {"type":"A"}\ndata: {"no":"type"}\ndata: 5\ndata: {"type":7}\ndata: {"type":"B"}\n',
        b'data: garbage\n\ndata: {"type":"A"}\n\ndata: [1]\n\ndata:\n\ndata: {"type":"B"}\n\ndata: {"type": "C',
        b'data: {"type":"A"}\n\ndata: {"type":"C","x":' + b"[" * 400 + b"]" * 400 + b'}\n\ndata: {"type":"B"}\n\n',
    ],
)
def test_every_framing_in_use_gives_the_same_events(stream: bytes) -> None:
    assert datas(stream) == [A, B]
    assert datas(*(stream[i : i + 1] for i in range(len(stream)))) == [A, B]


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "é", "😀"])
def test_no_other_character_ends_a_line(char: str) -> None:
    event = {"type": "TEXT_MESSAGE_CONTENT", "delta": f"one{char}two"}
    bare = f'data: {{"type":"TEXT_MESSAGE_CONTENT","delta":"one{char}two"}}\n\n'.encode()
    if ord(char) >= 0x80:  # the others must be escaped in JSON
        assert datas(bare) == [event]
        assert datas(*(bare[i : i + 1] for i in range(len(bare)))) == [event]
    written = event_bytes(event)
    assert written.isascii()
    assert written.count(b"\n") == 2
    assert datas(written) == [event]
    assert len(written.decode().splitlines()) == 2


def test_text_that_cannot_be_passed_on_is_made_harmless() -> None:
    stream = b'data: {"type":"A","x":"\\ud83d","y":NaN,"z":' + b"9" * 400 + b'}\n\ndata: {"type":"A","x":"\xff"}\n\n'
    first, second = datas(stream)
    assert (first["x"], first["y"]) == ("\ufffd", None)
    assert second["x"] == "\ufffd"
    assert datas(event_bytes(first))[0]["x"] == "\ufffd"


def test_ids_go_with_the_events_after_them() -> None:
    stream = b'data: {"type":"A"}\n\nid: r1:1\ndata: {"type":"A"}\n\ndata: {"type":"B"}\n\nid:\ndata: {"type":"B"}\n\n'
    assert [event.id for event in read(stream)] == ["", "r1:1", "r1:1", ""]
    odd = b'id: a\0b\ndata: {"type":"A"}\n\nid: ' + b"x" * 500 + b'\ndata: {"type":"A"}\n\n'
    assert [event.id for event in read(odd)] == ["", ""]
    assert event_bytes(A, "r1:1") == b'id: r1:1\ndata: {"type":"A"}\n\n'


def test_an_event_comes_out_with_its_line_end() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"type":"A"}') == []
    assert reader.feed(b"\r") == [Event("", A)]
    assert reader.feed(b"\n\r\n") == []


def test_the_older_shape_of_errors_is_understood() -> None:
    stream = b'data: {"type":"error","data":"peer returned\\n 401\\u001b[31m"}\n\ndata: {"type":"error","data":[1]}\n\n'
    assert datas(stream) == [
        run_error("peer_refused", "peer returned 401"),
        run_error("peer_refused", "It failed, and did not say why."),
    ]


@pytest.mark.parametrize("piece", [b"x" * 1001, b"data: " + b"x" * 995, b"data: 123456789\n" + b"data: x\n" * 600])
def test_what_is_too_long_ends_the_stream(piece: bytes) -> None:
    good = b'data: {"type":"A"}\n\n'
    reader = EventReader(1000)
    events = reader.feed(good + piece) + reader.feed(b"\n\n" + good) + reader.close()
    assert [event.data.get("code") for event in events] == [None, "bad_peer_answer"]
    assert reader.done


def test_a_long_line_is_not_kept() -> None:
    reader = EventReader(1000)
    for _ in range(100_000):
        reader.feed(b"x" * 100)
        assert len(reader._line) <= 1000
    assert reader.done


def test_what_was_not_understood_is_counted() -> None:
    reader = EventReader()
    reader.feed(b"data: <html>\n\ndata: {}\n\n")
    assert reader.dropped == 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
lines = st.one_of(
    texts.map(lambda text: b"data: " + json.dumps({"type": "A", "x": text}, ensure_ascii=False).encode()),
    texts.map(lambda text: json.dumps({"type": "A", "x": [text]}, indent=1).encode()).map(
        lambda text: b"\n".join(b"data: " + line for line in text.split(b"\n"))
    ),
    st.sampled_from([b"", b"", b":", b"id: 1", b"id", b"data: [DONE]", b"data: {", b"data: x", b"data", b"event: e"]),
    st.binary(max_size=12),
)
streams = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])), max_size=12).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


@given(streams, st.lists(st.integers(0, 400), max_size=12), st.sampled_from([20, 60, 1000]))
def test_any_cutting_gives_the_same_events(stream: bytes, cuts: list[int], line_bytes: int) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:end] for start, end in pairwise(places)]
    whole, cut = EventReader(line_bytes), EventReader(line_bytes)
    expected = whole.feed(stream) + whole.close()
    assert [event for chunk in chunks for event in cut.feed(chunk)] + cut.close() == expected
    assert cut.dropped == whole.dropped
