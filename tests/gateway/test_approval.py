"""Approving and denying: one exact code, answered once, and every other answer says what became of it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any

import httpx
import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

ALPHABET = set("23456789ABCDEFGHJKMNPQRSTVWXYZ")


async def answer_of(http: httpx.AsyncClient, code: str, verb: str = "approve") -> tuple[int, str]:
    return error_of(await http.post(f"/nodes/pending/{code}/{verb}"))


def block_store(gateway: ThreadedGateway) -> threading.Event:
    """Hold the writer thread until the returned event is set."""
    go = threading.Event()
    gateway.call(lambda: gateway.service.gateway.store.run(lambda connection: go.wait(20)))
    return go


async def half_approved(
    gateway: ThreadedGateway, http: httpx.AsyncClient, code: str
) -> tuple[threading.Event, asyncio.Task[httpx.Response]]:
    """Approve a code up to where it is to be written; return what lets it go on, and the approval."""
    go = block_store(gateway)
    approval = asyncio.create_task(http.post(f"/nodes/pending/{code}/approve"))
    entry = gateway.service.gateway.pairing._waiting[code]
    await until(lambda: entry.deciding)
    return go, approval


def stored(gateway: ThreadedGateway) -> list[str]:
    with sqlite3.connect(gateway.config.data_dir / "suzent.db") as connection:
        return [row[0] for row in connection.execute("SELECT display_name FROM devices")]


@sync
async def test_what_waits_is_listed_until_it_is_answered(gateway: ThreadedGateway) -> None:
    hello = {"description": "Ada's phone", "tags": ["mobile"], "node_identity": "phone-1"}
    async with BareDevice(gateway.node_url, "MyPhone", **hello) as device, gateway.http() as http:
        code = await device.code()
        assert len(code) == 6
        assert set(code) <= ALPHABET
        [entry] = (await http.get("/nodes/pending")).json()["pending"]
        assert (entry["pairing_code"], entry["display_name"], entry["platform"]) == (code, "MyPhone", "test")
        assert (entry["kind"], entry["remote"], entry["replaces"]) == ("device", "127.0.0.1", None)
        assert (entry["description"], entry["tags"]) == ("Ada's phone", ["mobile"])
        assert entry["requested_at"] < entry["expires_at"]
        assert [capability["name"] for capability in entry["capabilities"]] == ["echo"]
        answer = (await http.post(f"/nodes/pending/{code}/approve")).json()
        joined = await device.joined()
        assert answer == {"success": True, "message": "Approved MyPhone.", "device_id": joined["node_id"]}
        assert (joined["approved"], joined["pending_approval"]) == (["echo"], [])
        assert (await http.get("/nodes/pending")).json() == {"pending": [], "count": 0}


@sync
async def test_an_unapproved_device_can_not_be_invoked(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "MyPhone") as device, gateway.http() as http:
        code = await device.code()
        for reference in ("MyPhone", code):
            assert error_of(await invoke(http, reference)) == (404, "node_not_found")
        assert (await http.get("/nodes")).json() == {"nodes": [], "count": 0}
        # Nor does it become invocable by saying so.
        await device.send({"type": "connected"})
        await device.send({"type": "connect", "display_name": "Other"})
        assert error_of(await invoke(http, "MyPhone")) == (404, "node_not_found")
        assert (await http.get("/nodes/pending")).json()["count"] == 1


@sync
async def test_four_different_answers_and_a_fifth(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 2.0})
    url = gateway.node_url
    async with gateway.http() as http:
        async with BareDevice(url, "A") as used, BareDevice(url, "B") as denied, BareDevice(url, "C") as expired:
            codes = {"used": await used.code(), "denied": await denied.code(), "expired": await expired.code()}
            async with BareDevice(url, "D") as gone:
                codes["gone"] = await gone.code()
            await gateway.approve(codes["used"])
            assert (await http.post(f"/nodes/pending/{codes['denied']}/deny")).json()["message"] == "Denied B."
            assert (await denied.recv("error"))["code"] == "pairing_denied"
            assert (await denied.closed())[0] == 1008
            await expired.closed()
            await until(lambda: len(gateway.service.gateway.pairing) == 0)
            for verb in ("approve", "deny"):
                assert await answer_of(http, codes["used"], verb) == (409, "code_used")
                assert await answer_of(http, codes["denied"], verb) == (409, "code_denied")
                assert await answer_of(http, codes["expired"], verb) == (410, "code_expired")
                assert await answer_of(http, codes["gone"], verb) == (410, "code_gone")
                assert await answer_of(http, "ZZZZZZ", verb) == (404, "code_unknown")
            messages = set()
            for code in codes.values():
                messages.add((await http.post(f"/nodes/pending/{code}/approve")).json()["error"].replace(code, ""))
            assert len(messages) == 4
        assert stored(gateway) == ["A"]


@sync
async def test_a_code_may_be_typed_in_small_letters(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        assert (await http.post(f"/nodes/pending/{code.lower()}%20/approve")).status_code == 200
        await device.joined()


@pytest.mark.parametrize("partial", [slice(0, 5), slice(0, 1), slice(1, 6)])
@sync
async def test_only_the_exact_code_counts(gateway: ThreadedGateway, partial: slice) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        assert await answer_of(http, code[partial]) == (404, "code_unknown")
        assert (await http.get("/nodes/pending")).json()["count"] == 1


@sync
async def test_of_two_approvals_at_once_exactly_one_wins(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        go = block_store(gateway)
        answers = [asyncio.create_task(http.post(f"/nodes/pending/{code}/approve")) for _ in range(4)]
        answers.append(asyncio.create_task(http.post(f"/nodes/pending/{code}/deny")))
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 4:
            done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
        go.set()
        statuses = sorted([(await answer).status_code for answer in answers])
        assert statuses == [200, 409, 409, 409, 409]
        await device.joined()
        assert (await http.get("/nodes/devices")).json()["count"] == 1
    assert stored(gateway) == ["MyPhone"]


@sync
async def test_a_device_that_hangs_up_while_it_is_approved_leaves_no_ghost(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url) as device:
            go, approval = await half_approved(gateway, http, await device.code())
        await until(lambda: len(gateway.service.gateway.pairing) == 0)
        go.set()
        assert error_of(await approval) == (410, "code_gone")
        assert (await http.get("/nodes/devices")).json()["count"] == 0
    assert stored(gateway) == []


@sync
async def test_a_known_device_that_hangs_up_while_it_pairs_again_keeps_its_place(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url, node_identity="phone-1") as device:
            await gateway.pair(device)
        async with BareDevice(gateway.node_url, node_identity="phone-1") as again:
            go, approval = await half_approved(gateway, http, await again.code())
        await until(lambda: len(gateway.service.gateway.pairing) == 0)
        go.set()
        assert error_of(await approval) == (410, "code_gone")
        async with BareDevice(gateway.node_url, device_token=device.token) as old:
            assert (await old.joined())["node_id"] == device.node_id
    assert stored(gateway) == ["MyPhone"]


@sync
async def test_a_code_is_not_expired_while_it_is_answered(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 0.3})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        go = block_store(gateway)
        approval = asyncio.create_task(http.post(f"/nodes/pending/{code}/approve"))
        entry = gateway.service.gateway.pairing._waiting[code]
        await until(lambda: entry.timer.when() < gateway.loop.time())
        go.set()
        assert (await approval).status_code == 200
        await device.joined()


@sync
async def test_an_approval_that_fails_on_disk_lets_the_device_wait_on_and_its_code_still_expires(
    make_gateway: Any,
) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 0.3})

    def fail(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("disk full")

    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        entry = gateway.service.gateway.pairing._waiting[code]
        gateway.service.gateway.audit.insert = fail  # type: ignore[method-assign]
        go = block_store(gateway)
        approval = asyncio.create_task(http.post(f"/nodes/pending/{code}/approve"))
        await until(lambda: entry.timer.when() < gateway.loop.time())
        go.set()
        assert error_of(await approval) == (503, "store_failed")
        assert (await http.get("/nodes/devices")).json()["count"] == 0
        assert (await device.closed())[0] == 1013
        assert await answer_of(http, code) == (410, "code_expired")


@pytest.mark.parametrize("token", ["szt_unknown", "", "x" * 1000, "\ud800", None, 5, ["a"]])
@sync
async def test_an_unknown_token_waits_like_any_stranger(gateway: ThreadedGateway, token: Any) -> None:
    async with BareDevice(gateway.node_url, device_token=token) as device:
        try:
            assert len(await device.code()) == 6
        except Exception:
            # Half a surrogate pair is no JSON at all.
            assert token == "\ud800"
            assert (await device.closed())[0] == 1002


@sync
async def test_a_host_token_opens_no_device_socket(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        token = (await http.post("/nodes/host-token", json={})).json()["token"]
    async with BareDevice(gateway.node_url, device_token=token) as device:
        assert len(await device.code()) == 6


@sync
async def test_the_kernels_own_token_counts_as_approval(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Notebook", device_token=gateway.token) as device, gateway.http() as http:
        joined = await device.joined()
        assert joined["device_token"].startswith("szt_")
        assert joined["device_token"] != gateway.token
        device.answer()
        assert (await invoke(http, "Notebook", params={"a": 1})).json()["result"] == {"a": 1}


@sync
async def test_waiting_places_are_few_and_come_free(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pending_total": 2})
    url = gateway.node_url
    async with BareDevice(url, "A") as a, gateway.http() as http:
        await a.code()
        async with BareDevice(url, "B") as b:
            await b.code()
            async with BareDevice(url, "C", features=[]) as c:
                assert (await c.recv("error"))["code"] == "too_many_pending"
                assert (await c.closed())[0] == 1013
        await until(lambda: len(gateway.service.gateway.pairing) == 1)
        async with BareDevice(url, "D") as d:
            await d.code()
            await gateway.approve(await_code(await http.get("/nodes/pending"), "A"))
            await a.joined()
            async with BareDevice(url, "E") as e:
                await e.code()


def await_code(answer: httpx.Response, name: str) -> str:
    return next(str(each["pairing_code"]) for each in answer.json()["pending"] if each["display_name"] == name)


@sync
async def test_devices_that_hang_up_leave_nothing_behind(gateway: ThreadedGateway) -> None:
    async def knock(number: int) -> None:
        async with BareDevice(gateway.node_url, f"Ghost {number}") as device:
            await device.code()

    for start in range(0, 120, 40):
        await asyncio.gather(*(knock(number) for number in range(start, start + 40)))
    hub = gateway.service.gateway
    await until(lambda: len(hub.pairing) == 0 and len(hub.sockets) == 0)
    assert (len(hub.registry), len(list(hub.devices)), len(hub.sessions)) == (0, 0, 0)
