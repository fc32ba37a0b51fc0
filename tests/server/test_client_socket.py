"""``/ws/client``: calls in, changes out, one socket for a whole notebook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

from suzent_jupyter import __version__

MakeGateway = Callable[..., ThreadedGateway]


@sync
async def test_it_says_hello(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        hello = client.hello
        assert (hello["gateway"], hello["version"], hello["account"]) == ("Test gateway", __version__, "ada")
        assert hello["limits"]["invoke_timeout"] == 30.0


@sync
async def test_calls_progress_and_results(gateway: ThreadedGateway) -> None:
    features = ["progress", "cancel"]
    async with BareDevice(gateway.node_url, "Pi", features=features) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="invoke", id="a", node="Pi", command="echo", params={"n": 1}, timeout=5)
        frame = await device.recv("invoke")
        assert (frame["params"], frame["timeout"] <= 5) == ({"n": 1}, True)
        for progress in (
            {"seq": 0, "fraction": 0.25, "message": "warming\nup\x1b[31m", "data": {"t": 20}},
            {"seq": 1, "fraction": 7},
            {"seq": 2, "fraction": -1},
            {"seq": "x", "fraction": "half", "message": 5},
            {"fraction": True},
        ):
            await device.send({"type": "progress", "request_id": frame["request_id"], **progress})
        got = [await client.recv("progress") for _ in range(5)]
        assert [(each["id"], each["fraction"]) for each in got] == [
            ("a", 0.25),
            ("a", 1.0),
            ("a", 0.0),
            ("a", None),
            ("a", None),
        ]
        assert got[0]["data"] == {"t": 20}
        assert got[0]["message"].startswith("warming up")
        assert "\x1b" not in got[0]["message"]
        assert all(type(each["seq"]) is int for each in got)
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": [1]})
        result = await client.recv("result")
        assert (result["id"], result["success"], result["result"], result["error"]) == ("a", True, [1], None)
        # Progress that comes after the result is nobody's.
        await device.send({"type": "progress", "request_id": frame["request_id"], "seq": 9})
        await client.send(type="invoke", id=2, node="Pi", command="nope")
        refused = await client.recv()
        assert (refused["type"], refused["id"], refused["code"], refused["status"]) == (
            "result",
            2,
            "unknown_command",
            404,
        )
        assert refused["commands"] == ["echo"]


@sync
async def test_a_boolean_is_no_sequence_number(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", features=["progress"]) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        frame = await device.recv("invoke")
        await device.send({"type": "progress", "request_id": frame["request_id"], "seq": True})
        assert type((await client.recv("progress"))["seq"]) is int


@sync
async def test_a_cancelled_call_ends_and_the_device_hears_of_it(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", features=["cancel"]) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        frame = await device.recv("invoke")
        await client.send(type="cancel", id=99)
        await client.send(type="cancel", id=[1])
        await client.send(type="cancel", id=1)
        assert (await device.recv("cancel"))["request_id"] == frame["request_id"]
        result = await client.recv("result")
        assert (result["id"], result["success"], result["code"], result["status"]) == (1, False, "cancelled", 499)
        # The id is free again.
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        frame = await device.recv("invoke")
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": "again"})
        assert (await client.recv("result"))["result"] == "again"


@sync
async def test_closing_cancels_its_calls(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi", features=["cancel"]) as device:
        await gateway.pair(device)
        async with BareClient(gateway) as client:
            for number in range(3):
                await client.send(type="invoke", id=number, node="Pi", command="echo")
            asked = {(await device.recv("invoke"))["request_id"] for _ in range(3)}
        assert {(await device.recv("cancel"))["request_id"] for _ in range(3)} == asked
        hub = gateway.service.gateway
        await until(lambda: not hub._clients and not hub.registry.by_id(device.node_id).calls)


@sync
async def test_an_id_is_one_call_at_a_time(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        await device.recv("invoke")
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        error = await client.recv("error")
        assert (error["code"], error["id"]) == ("bad_frame", 1)
        # 1 and "1" are two ids.
        await client.send(type="invoke", id="1", node="Pi", command="echo")
        await device.recv("invoke")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "bad_json"),
        ("[]", "bad_frame"),
        ('{"type":"invoke"}', "bad_frame"),
        ('{"type":"invoke","id":true,"node":"Pi","command":"echo"}', "bad_frame"),
        ('{"type":"invoke","id":null,"node":"Pi","command":"echo"}', "bad_frame"),
        ('{"type":"invoke","id":"%s","node":"Pi","command":"echo"}' % ("x" * 200), "bad_frame"),
        ('{"type":"subscribe","topics":["weather"]}', "bad_frame"),
        ('{"type":"subscribe","topics":"nodes"}', "bad_frame"),
        ('{"type":"subscribe"}', "bad_frame"),
        ('{"type":"subscribe","topics":[["nodes"]]}', "bad_frame"),
        ('{"type":"unsubscribe","topics":[5]}', "bad_frame"),
    ],
)
@sync
async def test_frames_that_can_not_be_used_are_answered_and_close_nothing(
    gateway: ThreadedGateway, frame: str, code: str
) -> None:
    async with BareClient(gateway) as client:
        await client.ws.send(frame)
        error = await client.recv("error")
        # JSON of the wrong kind may be called a bad request as well as a bad frame.
        assert error["code"] in (code, "invalid_request")
        await client.send(type="subscribe", topics=["nodes"])
        assert (await client.change("nodes"))["kind"] == "snapshot"


@pytest.mark.parametrize(
    "fields",
    [
        {"node": 5},
        {"node": ""},
        {"command": None},
        {"params": []},
        {"timeout": 0},
        {"timeout": "5"},
        {"idempotency_key": 5},
    ],
)
@sync
async def test_a_call_that_can_not_be_made_ends_under_its_id(gateway: ThreadedGateway, fields: dict[str, Any]) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(**{"type": "invoke", "id": 1, "node": "Pi", "command": "echo", **fields})
        result = await client.recv("result")
        assert (result["id"], result["success"], result["status"]) == (1, False, 422)


@sync
async def test_a_snapshot_then_every_change_in_order(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await client.send(type="subscribe", topics=["nodes", "pending", "devices"])
        for topic in ("nodes", "pending", "devices"):
            change = await client.change(topic)
            assert (change["kind"], change["item"], change["seq"]) == ("snapshot", [], 0)
        async with BareDevice(gateway.node_url, "Pi", features=["update"]) as device, gateway.http() as http:
            await gateway.pair(device)
            heard: dict[str, list[tuple[str, int]]] = {"nodes": [], "pending": [], "devices": []}

            async def hear(count: int) -> dict[str, Any]:
                change: dict[str, Any] = {}
                for _ in range(count):
                    change = await client.recv("change")
                    heard[change["topic"]].append((change["kind"], change["seq"]))
                return change

            await hear(5)  # pending added and removed, device added and changed, node added
            assert heard["pending"] == [("added", 1), ("removed", 2)]
            assert heard["nodes"] == [("added", 1)]
            assert heard["devices"] == [("added", 1), ("changed", 2)]
            await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "paused"})
            await hear(2)
            assert heard["nodes"][-1] == ("changed", 2)
            # A second subscriber starts from what is.
            async with BareClient(gateway) as second:
                await second.send(type="subscribe", topics=["nodes"])
                [item] = (await second.change("nodes"))["item"]
                assert (item["node_id"], item["status"]) == (device.node_id, "paused")
                assert item == (await http.get("/nodes")).json()["nodes"][0]
            await http.post(f"/nodes/devices/{device.node_id}/revoke")
            await hear(1)
        async with asyncio.timeout(10):
            while ("removed", 3) not in heard["nodes"] or heard["devices"][-1][0] != "removed":
                await hear(1)
        for changes in heard.values():
            assert [seq for _, seq in changes] == list(range(1, len(changes) + 1))
        # Subscribing again starts anew.
        await client.send(type="subscribe", topics=["nodes"])
        change = await client.change("nodes")
        assert (change["kind"], change["item"], change["seq"]) == ("snapshot", [], 0)


@sync
async def test_events_and_audit_are_told(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="subscribe", topics=["events", "audit"])
        await client.change("audit", "snapshot")
        await device.send({"type": "event", "event": "motion\x1b[31m", "data": {"zone": 2, "\u2028": "\u2028"}})
        item = (await client.change("events", "added"))["item"]
        assert (item["node_id"], item["display_name"]) == (device.node_id, "Pi")
        assert item["event"].startswith("motion")
        assert "\x1b" not in item["event"]
        assert item["data"] == {"zone": 2, "\u2028": "\u2028"}
        device.answer()
        await client.send(type="invoke", id=1, node="Pi", command="echo", origin={"cell": 7})
        async with asyncio.timeout(10):
            while (row := (await client.change("audit", "added"))["item"])["action"] != "invoke":
                pass
        assert (row["outcome"], row["origin"], row["actor"]) == ("ok", {"cell": 7}, "kernel")


@sync
async def test_unsubscribing_ends_it(gateway: ThreadedGateway) -> None:
    async with BareClient(gateway) as client:
        await client.send(type="subscribe", topics=["pending", "nodes"])
        await client.change("nodes")
        await client.send(type="unsubscribe", topics=["pending"])
        async with BareDevice(gateway.node_url, "Pi") as device:
            await gateway.pair(device)
            assert (await client.recv("change"))["topic"] == "nodes"


@sync
async def test_all_topics_of_the_design_can_be_subscribed(gateway: ThreadedGateway) -> None:
    topics = ["nodes", "pending", "devices", "grants", "peers", "permissions", "conversations", "runs", "audit"]
    async with BareClient(gateway) as client:
        await client.send(type="subscribe", topics=topics)
        seen = [(await client.recv("change"))["topic"] for _ in topics]
        assert seen == topics


@sync
async def test_a_slow_reader_is_dropped_not_waited_for(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"client_buffer_bytes": 100_000})
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as slow, BareClient(gateway) as quick:
        await gateway.pair(device)
        for client in (slow, quick):
            await client.send(type="subscribe", topics=["events"])
            await client.change("events")
        hub = gateway.service.gateway
        slow.ws.transport.pause_reading()
        sent = 0

        async def read() -> int:
            count = 0
            while len(hub._clients) == 2:
                await quick.change("events", "added")
                count += 1
            return count

        reading = asyncio.create_task(read())
        while len(hub._clients) == 2:
            await device.send({"type": "event", "event": "frame", "data": "x" * 200_000})
            sent += 1
            assert sent < 2000
            await asyncio.sleep(0)
        await reading
        slow.ws.transport.resume_reading()
        code, reason = await slow.closed()
        assert code == 4008
        assert "slow reader" in reason
        device.answer()
        await quick.send(type="invoke", id=1, node="Pi", command="echo", params={"a": 1})
        assert (await quick.recv("result"))["result"] == {"a": 1}


@sync
async def test_a_large_result_passes_whole(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        device.answer(lambda command, params: ["é\u2028" * 1000, "x" * (8 * 2**20)])
        await client.send(type="invoke", id=1, node="Pi", command="echo")
        raw = await client.ws.recv()
        assert isinstance(raw, str)
        assert raw.isascii()
        result = json.loads(raw)
        assert (result["result"][0], len(result["result"][1])) == ("é\u2028" * 1000, 8 * 2**20)


@sync
async def test_64_calls_at_once_find_their_ways(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        device.answer()
        for number in range(64):
            await client.send(type="invoke", id=number, node="Pi", command="echo", params={"n": number})
        results = [await client.recv("result") for _ in range(64)]
        assert {each["id"]: each["result"]["n"] for each in results} == {number: number for number in range(64)}


@sync
async def test_frames_nested_to_the_brink_are_answered(gateway: ThreadedGateway) -> None:
    """Some depth can just be read and not be written on; whatever it is on this machine, a call ends under its id."""
    async with BareDevice(gateway.node_url, "Pi") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        await client.send(type="subscribe", topics=["events"])
        await client.change("events")
        for depth in range(880, 1010, 5):
            deep = "[" * depth + "]" * depth
            await device.send(f'{{"type":"event","event":"e","data":{deep}}}')
            await client.ws.send(
                f'{{"type":"invoke","id":{depth},"node":"Pi","command":"nope","params":{{"p":{deep}}},'
                f'"idempotency_key":"k{depth}"}}'
            )
            answer = await next_answer(client)
            assert any(f'"{code}"' in answer for code in ("unknown_command", "bad_json", "invalid_request")), answer
        device.answer()
        await client.send(type="invoke", id="last", node="Pi", command="echo")
        assert '"success":true' in await next_answer(client)


async def next_answer(client: BareClient) -> str:
    """Return the next frame that is no change; unread, since it may nest deeper than this side can follow."""
    async with asyncio.timeout(10):
        while True:
            text = str(await client.ws.recv())
            if '"type":"change"' not in text[:40]:
                return text
