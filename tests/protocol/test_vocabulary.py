"""Names other programs rely on: message models, fields of Suzent's frames, error codes, limits."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from suzent_jupyter import protocol
from suzent_jupyter.protocol.errors import ERRORS, SuzentError
from suzent_jupyter.protocol.limits import Limits, describe_limits

SUZENT_NAMES = (
    "ConnectMessage PendingResponse ConnectedResponse InvokeMessage ResultMessage PingMessage PongMessage EventMessage "
    "ErrorResponse NodeInfo NodeListResponse InvokeRequest InvokeResponse CapabilitySchema"
).split()


@pytest.mark.parametrize("name", SUZENT_NAMES)
def test_the_models_have_the_names_suzent_documents(name: str) -> None:
    assert name in protocol.__all__
    assert hasattr(protocol, name)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (protocol.ConnectMessage, {"type", "display_name", "platform", "capabilities", "device_token"}),
        (protocol.PendingResponse, {"type", "pairing_code", "message"}),
        (protocol.ConnectedResponse, {"type", "node_id", "device_token"}),
        (protocol.ErrorResponse, {"type", "message"}),
        (protocol.InvokeMessage, {"type", "request_id", "command", "params"}),
        (protocol.ResultMessage, {"type", "request_id", "success", "result", "error"}),
        (protocol.EventMessage, {"type", "event", "data"}),
    ],
)
def test_the_frames_keep_suzents_fields(model: Any, fields: set[str]) -> None:
    assert fields <= set(model.model_fields)


def test_frames_leave_out_what_is_not_said() -> None:
    frame = json.loads(protocol.ConnectedResponse(node_id="n").encode())
    assert frame["device_token"] == ""
    assert frame["type"] == "connected"
    assert json.loads(protocol.InvokeMessage(request_id="1", command="c").encode()) == {
        "type": "invoke",
        "request_id": "1",
        "command": "c",
        "params": {},
    }


def test_only_an_unknown_nodes_error_may_say_not_found() -> None:
    assert [code for code, spec in ERRORS.items() if "not found" in spec.hint.lower()] == []


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_every_code_has_a_status_and_a_hint(code: str) -> None:
    error = SuzentError(code, "It failed.")
    assert 400 <= error.status < 600
    body = error.as_body()
    assert body.pop("retry_after", None) == error.retry_after
    assert (error.retry_after is not None) == (ERRORS[code].retryable and error.status in (429, 503))
    assert body == {
        "error": "It failed.",
        "code": code,
        "hint": ERRORS[code].hint,
        "retryable": ERRORS[code].retryable,
    }
    assert ERRORS[code].hint.endswith(".") or "`" in ERRORS[code].hint


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "5", None, 1e15])
def test_a_limit_must_be_a_number_above_zero(value: Any) -> None:
    with pytest.raises(ValueError, match="ping_timeout must be a number greater than 0"):
        Limits(ping_timeout=value)


def test_the_numbers_of_the_protocol() -> None:
    numbers = {name: default for name, (default, _, _) in describe_limits().items()}
    assert numbers == {**numbers, **EXPECTED}
    assert all(unit in ("s", "bytes", "count", "chars", "share") and why for _, unit, why in describe_limits().values())


EXPECTED = {
    "invoke_timeout": 30.0,
    "invoke_timeout_max": 600.0,
    "calls_in_flight": 64,
    "calls_waiting": 256,
    "idempotency_ttl": 300.0,
    "idempotency_bytes": 64 * 2**20,
    "frame_bytes": 25 * 2**20,
    "socket_bytes": 32 * 2**20,
    "first_frame_bytes": 64 * 2**10,
    "plain_params_bytes": 2**20,
    "handshake_timeout": 15.0,
    "pairing_ttl": 600.0,
    "pairing_code_length": 6,
    "pending_total": 50,
    "pending_per_address": 5,
    "sockets_per_address": 32,
    "ping_interval": 25.0,
    "ping_timeout": 25.0,
    "capabilities": 256,
    "name_chars": 64,
    "capability_name_chars": 128,
    "description_chars": 2000,
    "replacements_per_minute": 3,
}


@pytest.mark.parametrize(
    ("message", "sentences"),
    [
        ("It failed.", "It failed. Look."),
        ("its program raised ValueError: unplugged", "its program raised ValueError: unplugged. Look."),
        ("Which one?", "Which one? Look."),
        ("", "Look."),
    ],
)
def test_what_is_said_is_in_sentences(message: str, sentences: str) -> None:
    assert SuzentError("internal", message, hint="Look.").sentences == sentences
    assert SuzentError("internal", message, hint="").sentences == message
