"""JSON in strictly, out in ASCII; results pass through unread."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.wire import (
    ResultFrame,
    ascii_json,
    decode,
    decode_call,
    decode_frame,
    encode,
    encode_ascii,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', "{} {}", '"\\ud800"', "{'a': 1}", "[1,]"]
    + ["[" * 100_000, "[" * 100_000 + "]" * 100_000],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(SuzentError) as refused:
        decode(text)
    assert (refused.value.code, refused.value.status) == ("bad_json", 400)
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("data", [b"\xff\xfe", b'"\xc3"', b'{"a": "\xed\xa0\x80"}'])
def test_bytes_that_are_no_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(SuzentError) as refused:
        decode(data)
    assert refused.value.code == "bad_json"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 5000])
def test_a_number_out_of_range_is_sound_json_with_a_value_that_can_not_be_used(number: str) -> None:
    with pytest.raises(SuzentError) as refused:
        decode(f'{{"timeout": {number}}}')
    assert (refused.value.code, refused.value.status) == ("invalid_request", 422)


def test_large_whole_numbers_survive() -> None:
    assert encode(decode('{"n":123456789012345678901234567890}')) == b'{"n":123456789012345678901234567890}'


@given(values)
def test_round_trip(value: Any) -> None:
    assert decode(encode(value)) == value
    text = encode_ascii(value)
    assert text.isascii()
    assert json.loads(text) == value


@given(st.text())
def test_ascii_json_means_the_same(text: str) -> None:
    data = json.dumps({"t": text}, ensure_ascii=False)
    try:
        raw = data.encode()
    except UnicodeEncodeError:
        return
    assert ascii_json(raw).isascii()
    assert json.loads(ascii_json(raw)) == {"t": text}


def test_line_separators_are_escaped() -> None:
    assert encode_ascii("a\u2028b\u0085c😀") == b'"a\\u2028b\\u0085c\\ud83d\\ude00"'


def test_a_sound_result_keeps_its_payload_raw() -> None:
    frame = decode_frame('{"type":"result","request_id":"1","success":true,"result":{"a":[1, 2]}}')
    assert isinstance(frame, ResultFrame)
    assert (frame.request_id, frame.success, bytes(frame.result), frame.error) == ("1", True, b'{"a":[1, 2]}', None)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"result","request_id":"1","success":"yes"}',
        '{"type":"result","request_id":"1","success":true,"result":NaN}',
        '{"type":"result","request_id":"1","success":true,"result":"\\ud800"}',
        '{"type":"result","request_id":"1","success":true,"result":{},"error":Infinity}',
    ],
)
def test_a_result_that_can_not_be_used_still_names_its_call(text: str) -> None:
    frame = decode_frame(text)
    assert not isinstance(frame, ResultFrame)
    assert (frame["type"], frame["request_id"]) == ("result", "1")


@pytest.mark.parametrize("text", ['{"type":"event","event":"e","data":"\\ud800"}', '{"type":"event","data":NaN}', "x"])
def test_other_frames_that_are_not_json_are_no_frames(text: str) -> None:
    assert decode_frame(text) is None


def test_a_frame_whose_fields_have_odd_types_is_plain_json() -> None:
    assert decode_frame('{"type":"pong","request_id":5,"success":"x"}') == {
        "type": "pong",
        "request_id": 5,
        "success": "x",
    }
    assert decode_frame("[1]") == [1]
    assert decode_frame('{"type":5}') == {"type": 5}


@given(st.one_of(st.text(), values.map(lambda value: json.dumps(value))))
def test_no_frame_raises(text: str) -> None:
    frame = decode_frame(text)
    if not isinstance(frame, ResultFrame):
        encode(frame)  # whatever is passed on can be written again


def test_a_call_keeps_its_parameters_raw() -> None:
    call = decode_call(b'{"command":"c","params":{"a": [1,  2]},"timeout":5,"more":1}')
    assert (call.command, bytes(call.params), call.timeout, call.idempotency_key) == ("c", b'{"a": [1,  2]}', 5, None)


@pytest.mark.parametrize(
    "data", [b'{"params":{"a":"\xff"}}', b'{"params":{"a":"\xed\xa0\x80"}}', b'{"params":{"a":NaN}}', b"", b"{"]
)
def test_nothing_that_is_no_json_hides_in_raw_parameters(data: bytes) -> None:
    with pytest.raises(SuzentError) as refused:
        decode_call(data)
    assert refused.value.code == "bad_json"


@pytest.mark.parametrize("data", [b"[]", b"5", b'"x"', b"null", b'{"timeout":1e999}'])
def test_a_call_is_an_object_of_usable_values(data: bytes) -> None:
    with pytest.raises(SuzentError) as refused:
        decode_call(data)
    assert refused.value.code == "invalid_request"
