"""Pairing links: tickets mark devices as invited, once, and let them wait where strangers may not."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
import websockets
from support.calls import error_of
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

from suzent_jupyter.gateway.tickets import Tickets
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.protocol.pairing_link import PairingLink


async def invite(http: Any, name: str | None = None) -> dict[str, Any]:
    answer = await http.post("/nodes/invite", json={"name": name} if name else {})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def shown_ticket(http: Any) -> str:
    config = (await http.get("/nodes/config")).json()
    (ticket,) = {PairingLink.parse(each["pairing_link"]).ticket for each in config["addresses"]}
    return str(ticket)


async def pending(http: Any) -> list[dict[str, Any]]:
    return list((await http.get("/nodes/pending")).json()["pending"])


async def refusal(gateway: ThreadedGateway, **connect: Any) -> tuple[dict[str, Any], int]:
    """Return the error frame and close code of a device that is not let in."""
    async with BareDevice(gateway.node_url, "Stranger", **connect) as device:
        frame = await device.recv()
        return frame, (await device.closed())[0]


@sync
async def test_an_invited_device_is_marked_everywhere_and_still_needs_approval(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http, BareClient(gateway) as client:
        await client.send(type="subscribe", topics=["pending"])
        await client.change("pending", "snapshot")
        made = await invite(http, "  Bench\n3 ")
        assert made["name"] == "Bench 3"
        assert len(made["ticket"]) == 43
        async with BareDevice(gateway.node_url, "Pi", ticket=made["ticket"]) as device:
            frame = await device.recv("pending")
            assert frame["invited"] is True
            assert "warnings" not in frame
            [entry] = await pending(http)
            assert (entry["invited"], entry["invitation"]) == (True, "Bench 3")
            item = (await client.change("pending", "added"))["item"]
            assert (item["invited"], item["invitation"]) == (True, "Bench 3")
            assert (await http.get("/nodes")).json()["count"] == 0
            await gateway.approve(frame["pairing_code"])
            await device.joined()
        entries = (await http.get("/audit")).json()["entries"]
        details = {each["action"]: (each["node"], each["detail"]) for each in entries}
        assert details["device.approve"][1] == {
            "remote": "127.0.0.1",
            "commands": ["echo"],
            "invited": True,
            "invitation": "Bench 3",
        }
        assert details["device.invite"][0] == "Bench 3"


@sync
async def test_a_ticket_is_good_once_also_when_its_device_hangs_up(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        ticket = (await invite(http))["ticket"]
        async with BareDevice(gateway.node_url, "First", ticket=ticket) as first:
            await first.code()
            async with BareDevice(gateway.node_url, "Second", ticket=ticket) as second:
                frame = await second.recv("pending")
                assert frame["invited"] is False
                assert "used already" in frame["warnings"][0]
                marks = {each["display_name"]: each["invited"] for each in await pending(http)}
                assert marks == {"First": True, "Second": False}
        await until(lambda: not len(gateway.service.gateway.pairing))
        async with BareDevice(gateway.node_url, "First", ticket=ticket) as again:
            assert (await again.recv("pending"))["invited"] is False


@sync
async def test_what_is_no_ticket_blocks_nobody(gateway: ThreadedGateway, caplog: Any) -> None:
    async with gateway.http() as http:
        for ticket in ("no-such-ticket", "x" * 5000, 5, ["a"], {"a": 1}, "", None):
            caplog.clear()
            async with BareDevice(gateway.node_url, "Pi", ticket=ticket) as device:
                frame = await device.recv("pending")
                assert frame.get("invited") is (None if ticket in ("", None) else False), ticket
                assert [each["invited"] for each in await pending(http)] == [False]
                await gateway.approve(frame["pairing_code"])
                await device.joined()
            assert ("waits uninvited" in caplog.text) == (ticket not in ("", None))


@sync
async def test_a_ticket_is_never_logged(gateway: ThreadedGateway, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG):
        async with gateway.http() as http:
            used, shown = (await invite(http))["ticket"], await shown_ticket(http)
            for ticket in (used, used, shown):
                async with BareDevice(gateway.node_url, "Pi", ticket=ticket) as device:
                    await device.code()
            audit = (await http.get("/audit")).text
    # (The client library in this process logs its own frames.)
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("websockets"))
    assert "Invited device 'Pi'" in logged
    for ticket in (used, shown):
        assert ticket not in logged
        assert ticket not in audit
    assert used not in repr(vars(gateway.service.gateway.tickets))


@sync
async def test_looking_mints_one_ticket_and_inviting_a_fresh_one(gateway: ThreadedGateway) -> None:
    tickets = gateway.service.gateway.tickets
    async with gateway.http() as http:
        seen = {await shown_ticket(http) for _ in range(5)}
        assert (len(seen), len(tickets)) == (1, 1)
        fresh = {(await invite(http))["ticket"] for _ in range(3)}
        assert len(fresh | seen) == 4
        assert await shown_ticket(http) in seen
        async with BareDevice(gateway.node_url, ticket=next(iter(seen))) as device:
            assert (await device.recv("pending"))["invited"] is True
        assert await shown_ticket(http) not in seen | fresh


def test_the_ticket_on_show_changes_when_half_its_life_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("suzent_jupyter.gateway.tickets.time.monotonic", lambda: now)
    tickets = Tickets(Limits(ticket_ttl=100, tickets=3))
    first = tickets.current("ada")
    now += 49
    assert tickets.current("ada") is first
    now += 2
    second = tickets.current("ada")
    assert second is not first
    assert tickets.read(first.text)[0] is first.ticket
    now += 50
    assert tickets.read(first.text) == (None, "The pairing link has expired; ask for a new one.")
    assert tickets.read(second.text)[0] is second.ticket
    assert tickets.current("bob").ticket.account == "bob"


def test_an_account_has_so_many_tickets_and_can_not_push_out_anothers() -> None:
    tickets = Tickets(Limits(tickets=3))
    bobs = tickets.mint("bob")
    made = [tickets.mint("ada") for _ in range(50)]
    assert [tickets.read(each.text)[0] is not None for each in made] == [False] * 47 + [True] * 3
    assert tickets.read(bobs.text)[0] is bobs.ticket
    assert len(tickets) == 4
    for each in [*made, bobs]:
        tickets.use(each.ticket)
    assert len(tickets) == 0


@sync
async def test_tickets_expire(make_gateway: Any) -> None:
    gateway = make_gateway(limits={"ticket_ttl": 0.2})
    async with gateway.http() as http:
        ticket = (await invite(http))["ticket"]
        await until(lambda: gateway.call(gateway.service.gateway.tickets.read, ticket)[0] is None)
        async with BareDevice(gateway.node_url, ticket=ticket) as device:
            frame = await device.recv("pending")
            assert (frame["invited"], "expired" in frame["warnings"][0]) == (False, True)


@sync
async def test_where_a_ticket_is_required_strangers_take_no_place(make_gateway: Any) -> None:
    gateway = make_gateway(require_ticket=True, limits={"pending_total": 2})
    async with gateway.http() as http:
        assert (await http.get("/nodes/config")).json()["require_ticket"] is True
        for connect in ({}, {"ticket": "unknown"}, {"device_token": "szt_unknown"}, {"features": ["cancel"]}):
            frame, code = await refusal(gateway, **connect)
            assert (frame["type"], frame["code"], code) == ("error", "ticket_required", 1008), connect
            assert "%suzent invite" in frame["hint"]
            assert "can't open pairing links" in frame["message"]
            assert frame["retryable"] is False
        assert await pending(http) == []
        made = await invite(http)
        async with BareDevice(gateway.node_url, "Pi", ticket=made["ticket"]) as device:
            await gateway.pair(device)
        # A device that is known needs none, and a stale link does it no harm.
        async with BareDevice(gateway.node_url, "Pi", device_token=device.token, ticket=made["ticket"]) as again:
            await again.joined()
            assert again.node_id == device.node_id
        # Neither does the notebook itself, nor a program with a token of full authority.
        async with BareDevice(gateway.node_url, "Kernel", device_token=gateway.token) as kernel:
            await kernel.joined()
        full = (await http.post("/nodes/host-token", json={})).json()["token"]
        async with BareDevice(gateway.node_url, "Program", device_token=full) as program:
            assert await program.code()
        # A token that was revoked is none.
        await http.post(f"/nodes/devices/{device.node_id}/revoke")
        assert (await refusal(gateway, device_token=device.token))[0]["code"] == "ticket_required"


@sync
async def test_a_known_device_does_not_use_its_ticket_up(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url, "Pi") as device:
            await gateway.pair(device)
        ticket = (await invite(http))["ticket"]
        async with BareDevice(gateway.node_url, "Pi", device_token=device.token, ticket=ticket) as again:
            await again.joined()
        async with BareDevice(gateway.node_url, "Other", ticket=ticket) as other:
            assert (await other.recv("pending"))["invited"] is True


@sync
async def test_strangers_can_not_crowd_out_the_invited(make_gateway: Any) -> None:
    gateway = make_gateway(limits={"pending_total": 2})
    async with gateway.http() as http:
        strangers = [BareDevice(gateway.node_url, f"Stranger {number}") for number in range(2)]
        for stranger in strangers:
            await stranger.__aenter__()
            await stranger.code()
        tickets = [(await invite(http))["ticket"] for _ in range(3)]
        async with BareDevice(gateway.node_url, "Late") as late:
            assert (await late.closed())[0] == 1013
        guests = [BareDevice(gateway.node_url, f"Guest {number}", ticket=tickets[number]) for number in range(2)]
        for guest in guests:
            await guest.__aenter__()
            assert (await guest.recv("pending"))["invited"] is True
        # They have a cap of their own; who does not fit keeps the ticket for the next try.
        async with BareDevice(gateway.node_url, "Guest 3", ticket=tickets[2]) as third:
            assert (await third.closed())[0] == 1013
        await guests[0].__aexit__()
        await until(lambda: len(gateway.service.gateway.pairing) == 3)
        async with BareDevice(gateway.node_url, "Guest 3", ticket=tickets[2]) as third:
            assert (await third.recv("pending"))["invited"] is True
        for device in [*strangers, guests[1]]:
            await device.__aexit__()


@sync
async def test_silent_sockets_do_not_push_out_an_invited_device(make_gateway: Any) -> None:
    """It came when all places were taken, and waits for the operator while more strangers come."""
    gateway = make_gateway(limits={"sockets_unauthenticated": 1, "sockets_late": 1})
    async with gateway.http() as http, AsyncExitStack() as open_:
        await open_.enter_async_context(websockets.connect(gateway.node_url))
        ticket = (await invite(http))["ticket"]
        guest = await open_.enter_async_context(BareDevice(gateway.node_url, "Guest", ticket=ticket))
        code = (await guest.recv("pending"))["pairing_code"]
        for _ in range(3):
            await open_.enter_async_context(websockets.connect(gateway.node_url))
        await until(lambda: len(gateway.service.gateway.sockets) == 3)
        assert [each["pairing_code"] for each in await pending(http)] == [code]
        await gateway.approve(code)
        await guest.joined()


@sync
async def test_one_ticket_shown_by_two_devices_at_once(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http, AsyncExitStack() as open_:
        ticket = (await invite(http))["ticket"]
        sockets = [await open_.enter_async_context(websockets.connect(gateway.node_url)) for _ in range(4)]
        frames = [
            json.dumps({"type": "connect", "display_name": f"D{number}", "capabilities": [], "ticket": ticket})
            for number in range(len(sockets))
        ]
        await asyncio.gather(*(ws.send(frame) for ws, frame in zip(sockets, frames, strict=True)))
        told = [json.loads(await ws.recv()) for ws in sockets]
        assert sorted(each["invited"] for each in told) == [False, False, False, True]
        assert [each["invited"] for each in await pending(http)].count(True) == 1


@sync
async def test_with_several_accounts_an_invited_device_belongs_to_who_invited_it(gateway: ThreadedGateway) -> None:
    hub = gateway.service.gateway
    hub.waiting_account = None

    headers = {"Authorization": f"Bearer {gateway.token_of('bob')}"}
    async with gateway.http() as ada, gateway.http(headers=headers) as bob:
        assert await shown_ticket(ada) != await shown_ticket(bob)
        ticket = (await invite(bob))["ticket"]
        async with BareDevice(gateway.node_url, "Phone", ticket=ticket) as device:
            code = await device.code()
            assert [each["display_name"] for each in await pending(bob)] == ["Phone"]
            assert await pending(ada) == []
            assert error_of(await ada.post(f"/nodes/pending/{code}/approve")) == (404, "code_unknown")
            assert (await bob.post(f"/nodes/pending/{code}/approve")).status_code == 200
            await device.joined()
        assert (await ada.get("/nodes/devices")).json()["count"] == 0


@sync
async def test_the_gateways_id_stays(make_gateway: Any, tmp_path: Any) -> None:
    ids = set()
    for _ in range(2):
        gateway: ThreadedGateway = make_gateway(tmp_path / "data")
        async with gateway.http() as http:
            config = (await http.get("/nodes/config")).json()
            made = await invite(http)
        assert made["gateway_id"] == config["gateway_id"]
        assert {PairingLink.parse(each["pairing_link"]).gateway_id for each in made["links"]} == {config["gateway_id"]}
        ids.add(config["gateway_id"])
        gateway.stop()
    other: ThreadedGateway = make_gateway()
    async with other.http() as http:
        ids.add((await http.get("/nodes/config")).json()["gateway_id"])
        assert error_of(await http.post("/nodes/config", json={"gateway_id": "mine"})) == (422, "invalid_request")
    assert len(ids) == 2
    assert all(len(each) == 22 for each in ids)


@pytest.mark.parametrize("body", [{"name": 5}, {"name": ["a"]}, []])
@sync
async def test_what_is_no_invitation_is_refused(gateway: ThreadedGateway, body: Any) -> None:
    async with gateway.http() as http:
        assert error_of(await http.post("/nodes/invite", json=body)) == (422, "invalid_request")
        assert len(gateway.service.gateway.tickets) == 0


@sync
async def test_a_gateway_that_can_not_read_its_database_sends_no_known_device_away_for_good(
    make_gateway: Any, tmp_path: Any
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "suzent.db").write_bytes(b"this is no database" * 100)
    gateway = make_gateway(tmp_path / "data", require_ticket=True)
    async with BareDevice(gateway.node_url, "Old", device_token="szt_good_once") as device:
        assert (await device.closed())[0] == 1013
