"""Parameters on their way to a device: converted, refused with reasons, or passed as they are."""

from __future__ import annotations

from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

SPEAK = {"name": "speak", "params_schema": {"text": "str", "level": "int", "loud": "bool", "speed": "float"}}
SNAP = {
    "name": "snap",
    "input_schema": {
        "type": "object",
        "properties": {
            "format": {"enum": ["png", "jpeg"]},
            "quality": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        "required": ["format"],
        "additionalProperties": False,
    },
}


@sync
async def test_values_as_a_command_line_types_them(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", [SPEAK, SNAP]) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        sent = {"text": 42, "level": "5", "loud": "true", "speed": "1.5", "other": None}
        answer = await invoke(http, "Pi", "speak", sent)
        assert answer.json()["result"] == {"text": "42", "level": 5, "loud": True, "speed": 1.5, "other": None}
        assert (await invoke(http, "Pi", "snap", {"format": "png", "quality": "90"})).json()["result"] == {
            "format": "png",
            "quality": 90,
        }


@pytest.mark.parametrize(
    ("command", "params", "parameter", "expected", "got"),
    [
        ("speak", {"level": "x"}, "level", "a whole number", "x"),
        ("speak", {"level": 2.5}, "level", "a whole number", "2.5"),
        ("speak", {"loud": "maybe"}, "loud", "true or false", "maybe"),
        ("speak", {"text": ["a"]}, "text", "text", "['a']"),
        ("snap", {}, "format", "a value", None),
        ("snap", {"format": "gif"}, "format", "one of 'png', 'jpeg'", "gif"),
        ("snap", {"format": "png", "quality": 0}, "quality", "a number of at least 1", "0"),
        ("snap", {"format": "png", "quality": "101"}, "quality", "a number of at most 100", "101"),
        ("snap", {"format": "png", "size": 1}, "size", "one of: format, quality", "an unknown name"),
    ],
)
@sync
async def test_a_refusal_names_parameter_expectation_and_value(
    gateway: ThreadedGateway, command: str, params: dict[str, Any], parameter: str, expected: str, got: str
) -> None:
    async with BareDevice(gateway.node_url, "Pi", [SPEAK, SNAP]) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await invoke(http, "Pi", command, params)
        assert error_of(answer) == (422, "invalid_params")
        body = answer.json()
        assert (body["parameter"], body["expected"], body["got"]) == (parameter, expected, got)
        assert parameter in body["error"]
        # The device never heard of it.
        device.answer(lambda command, params: "first")
        assert (await invoke(http, "Pi", "snap", {"format": "png"})).json()["result"] == "first"


def nested(depth: int) -> str:
    return '{"properties":{"p":' * depth + "{}" + "}}" * depth


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "http://127.0.0.1:9/evil.json"}',
        '{"properties": {"p": {"$ref": "http://127.0.0.1:9/evil.json"}}}',
        '{"properties": {"p": {"type": "string", "pattern": "^(a+)+$"}}}',
        '{"patternProperties": {"^(a+)+$": {"type": "integer"}}}',
        '{"properties": 5, "required": {"p": 1}, "type": ["nonsense"], "items": "x"}',
        '{"properties": {"p": {"type": 7, "minimum": "low", "enum": 3, "anyOf": [5, null]}}}',
        '{"anyOf": [{"anyOf": [{"anyOf": [{}]}]}]}',
        '{"properties": {"p": {"default": %s}}}' % ("[" * 400 + "]" * 400),
        '{"properties": {"p": {"enum": [%s]}}}' % ("[" * 400 + "]" * 400),
        '"a string"',
        "[1, 2]",
        nested(150),
    ],
)
@sync
async def test_a_hostile_input_schema_breaks_neither_connect_nor_call(gateway: ThreadedGateway, schema: str) -> None:
    hello = f'{{"type":"connect","display_name":"Evil","capabilities":[{{"name":"go","input_schema":{schema}}}]}}'
    async with BareDeviceOf(gateway.node_url, hello) as evil, gateway.http() as http:
        await gateway.pair(evil)
        evil.answer()
        for value in ("a" * 60 + "!", {"p": {"p": 1}}, None):
            answer = await invoke(http, "Evil", "go", {"p": value})
            assert answer.status_code in (200, 422), answer.text
        assert (await http.get("/nodes")).status_code == 200
        assert (await http.get("/nodes/Evil")).status_code == 200


class BareDeviceOf(BareDevice):
    """A device whose first frame is given as text."""

    def __init__(self, url: str, hello: str) -> None:
        super().__init__(url)
        self.hello = hello  # type: ignore[assignment]


@sync
async def test_a_first_frame_nested_10_000_deep_is_refused_and_leaves_no_trace(gateway: ThreadedGateway) -> None:
    schema = '{"items":' * 10_000 + "{}" + "}" * 10_000
    hello = f'{{"type":"connect","display_name":"Deep","capabilities":[{{"name":"go","input_schema":{schema}}}]}}'
    async with BareDeviceOf(gateway.node_url, hello) as device:
        code, reason = await device.closed()
        assert code in (1002, 1009), reason
    async with BareDevice(gateway.node_url) as good:
        await gateway.pair(good)


@pytest.mark.parametrize(("platform", "sent"), [("linux", "~/data/x.csv"), ("Windows", r"~\data\x.csv")])
@sync
async def test_a_path_arrives_as_the_device_writes_it(gateway: ThreadedGateway, platform: str, sent: str) -> None:
    capability = {"name": "open", "params_schema": {"file": "path", "pattern": "str"}}
    async with BareDevice(gateway.node_url, "Pi", [capability], platform=platform) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        for typed in ("~/data/x.csv", r"~\data\x.csv"):
            answer = await invoke(http, "Pi", "open", {"file": typed, "pattern": r"~\d/x"})
            assert answer.json()["result"] == {"file": sent, "pattern": r"~\d/x"}
