"""The same key and body within five minutes is the same call."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until


class Counting(BareDevice):
    """Answers each call with how many there were."""

    async def __aenter__(self) -> Counting:
        await super().__aenter__()
        self.count = 0
        return self

    def answer_counting(self, size: int = 0) -> None:
        def work(command: str, params: dict[str, Any]) -> Any:
            self.count += 1
            return [self.count, "x" * size]

        self.answer(work)


@sync
async def test_asked_twice_called_once(gateway: ThreadedGateway) -> None:
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer_counting()
        first = await invoke(http, "MyPhone", params={"a": 1, "b": 2}, idempotency_key="k")
        again = await invoke(http, device.node_id, params={"b": 2, "a": 1}, idempotency_key="k", timeout=5)
        assert first.json() == again.json() == {"success": True, "result": [1, ""], "error": None}
        other = await invoke(http, "MyPhone", params={"a": 1, "b": 2}, idempotency_key="k2")
        assert other.json()["result"] == [2, ""]


@pytest.mark.parametrize(
    ("command", "params", "node"), [("echo", {"a": 2}, "One"), ("other", {"a": 1}, "One"), ("echo", {"a": 1}, "Two")]
)
@sync
async def test_another_call_under_the_same_key_is_refused(
    gateway: ThreadedGateway, command: str, params: dict[str, Any], node: str
) -> None:
    both = [{"name": "echo"}, {"name": "other"}]
    async with (
        BareDevice(gateway.node_url, "One", both) as one,
        BareDevice(gateway.node_url, "Two", both) as two,
        gateway.http() as http,
    ):
        for device in (one, two):
            await gateway.pair(device)
            device.answer()
        await invoke(http, "One", "echo", {"a": 1}, idempotency_key="k")
        assert error_of(await invoke(http, node, command, params, idempotency_key="k")) == (
            409,
            "idempotency_conflict",
        )


@sync
async def test_a_call_in_flight_is_shared_and_lives_until_its_last_asker_gives_up(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, features=["cancel"]) as device, gateway.http() as http:
        await gateway.pair(device)
        askers = [asyncio.create_task(invoke(http, "MyPhone", idempotency_key="k")) for _ in range(3)]
        frame = await device.recv("invoke")
        # The device may answer before the gateway's thread comes to note the key.
        entries = gateway.service.gateway.dispatcher._idempotency._entries
        await until(lambda: ("ada", "k") in entries)
        entry = entries["ada", "k"]
        await until(lambda: entry.askers == 3)
        askers[0].cancel()
        await until(lambda: entry.askers == 2)
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": "one"})
        for asker in askers[1:]:
            assert (await asker).json()["result"] == "one"

        askers = [asyncio.create_task(invoke(http, "MyPhone", idempotency_key="k2")) for _ in range(2)]
        frame = await device.recv("invoke")
        await until(lambda: ("ada", "k2") in entries)
        entry = entries["ada", "k2"]
        await until(lambda: entry.askers == 2)
        for asker in askers:
            asker.cancel()
        assert (await device.recv("cancel"))["request_id"] == frame["request_id"]


@sync
async def test_a_refusal_is_not_kept(gateway: ThreadedGateway) -> None:
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await invoke(http, "MyPhone", idempotency_key="k", timeout=0.05)) == (504, "deadline")
        device.answer_counting()
        assert (await invoke(http, "MyPhone", idempotency_key="k")).status_code == 200
        assert error_of(await invoke(http, "MyPhone", "nope", idempotency_key="z")) == (404, "unknown_command")
        assert (await invoke(http, "MyPhone", idempotency_key="z")).status_code == 200


@sync
async def test_a_late_result_settles_its_key(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await invoke(http, "MyPhone", idempotency_key="k", timeout=0.05)) == (504, "deadline")
        frame = await device.recv("invoke")
        await device.send({"type": "result", "request_id": frame["request_id"], "success": True, "result": "printed"})
        entries = gateway.service.gateway.dispatcher._idempotency._entries
        await until(lambda: entries)
        assert (await invoke(http, "MyPhone", idempotency_key="k")).json()["result"] == "printed"
        assert error_of(await invoke(http, "MyPhone", params={"x": 1}, idempotency_key="k")) == (
            409,
            "idempotency_conflict",
        )


@sync
async def test_keys_expire(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"idempotency_ttl": 0.05})
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer_counting()
        assert (await invoke(http, "MyPhone", idempotency_key="k")).json()["result"][0] == 1
        entry = gateway.service.gateway.dispatcher._idempotency._entries["ada", "k"]
        await until(lambda: gateway.loop.time() > entry.expires)
        assert (await invoke(http, "MyPhone", params={"b": 1}, idempotency_key="k")).json()["result"][0] == 2


@sync
async def test_what_is_kept_is_bounded_by_its_size(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"idempotency_bytes": 5000})
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer_counting(1000)
        kept = gateway.service.gateway.dispatcher._idempotency
        for number in range(12):
            await invoke(http, "MyPhone", idempotency_key=f"k{number}")
            assert kept._bytes <= 5000
        assert sum(entry.size for entry in kept._entries.values()) == kept._bytes
        assert (await invoke(http, "MyPhone", idempotency_key="k11")).json()["result"][0] == 12
        assert (await invoke(http, "MyPhone", idempotency_key="k0")).json()["result"][0] == 13


@sync
async def test_a_result_larger_than_the_store_is_given_and_not_kept(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"idempotency_bytes": 5000})
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer_counting(9000)
        for number in (1, 2):
            assert (await invoke(http, "MyPhone", idempotency_key="k")).json()["result"][0] == number
        assert gateway.service.gateway.dispatcher._idempotency._bytes == 0


@pytest.mark.parametrize("key", ["", "x" * 129, 5, True, ["k"], {}])
@sync
async def test_a_key_is_short_text(gateway: ThreadedGateway, key: Any) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        assert error_of(await invoke(http, "MyPhone", idempotency_key=key)) == (422, "invalid_request")


@sync
async def test_many_askers_at_once_get_one_call(gateway: ThreadedGateway) -> None:
    async with Counting(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer_counting()
        answers = await asyncio.gather(*(invoke(http, "MyPhone", idempotency_key=f"k{n % 4}") for n in range(40)))
        assert Counter(answer.status_code for answer in answers) == {200: 40}
        assert device.count == 4


@sync
async def test_no_more_wait_for_one_call_than_for_a_node(make_gateway: Any) -> None:
    """Each of them is kept here until the device answers, and none takes a place in the device's queue."""
    gateway = make_gateway(limits={"calls_in_flight": 2, "calls_waiting": 3})
    async with BareDevice(gateway.node_url, "Phone") as device, BareClient(gateway) as client:
        await gateway.pair(device)
        call = {"type": "invoke", "node": "Phone", "command": "echo", "params": {}, "idempotency_key": "k"}
        for number in range(6):
            await client.send(**call, id=number)
        refused = await client.recv("result")
        assert (refused["id"], refused["code"]) == (5, "node_busy")
        asked = await device.recv("invoke")
        await device.send({"type": "result", "request_id": asked["request_id"], "success": True, "result": 7})
        assert sorted([(await client.recv("result"))["id"] for _ in range(5)]) == [0, 1, 2, 3, 4]
        await client.send(**call, id=6)
        assert (await client.recv("result"))["result"] == 7
