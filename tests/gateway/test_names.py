"""Names from devices: cleaned where they enter, and every node can be reached by something."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("two\nlines\r\nthree", "two lines three"),
        ("abc\u202egnp.exe\u200f", "abcgnp.exe"),
        ("n" * 500, "n" * 64),
        ("👩\u200d🔬 lab", "👩\u200d🔬 lab"),
        ("a/b", "a/b"),
        ("../../etc/passwd", "../../etc/passwd"),
        (".hidden", ".hidden"),
        ("50% off?#x", "50% off?#x"),
        ("pending", "pending"),
        ("devices", "devices"),
        ("config", "config"),
        ("ÄPFEL Straße", "ÄPFEL Straße"),
        ("e\u0301cole", "école"),
        ("\"quotes\" & 'more'", "\"quotes\" & 'more'"),
    ],
)
@sync
async def test_a_name_is_cleaned_and_reached(gateway: ThreadedGateway, sent: str, shown: str) -> None:
    async with BareDevice(gateway.node_url, sent) as device, gateway.http() as http:
        code = await device.code()
        [waiting] = (await http.get("/nodes/pending")).json()["pending"]
        assert waiting["display_name"] == shown
        assert (await gateway.approve(code))["message"] == f"Approved {shown}."
        await device.joined()
        device.answer(lambda command, params: "here")
        [node] = (await http.get("/nodes")).json()["nodes"]
        assert node["display_name"] == shown
        assert (await http.get("/nodes/devices")).json()["devices"][0]["display_name"] == shown
        for reference in (device.node_id, device.node_id[:6], quote(shown, safe=""), quote(shown.upper(), safe="")):
            if reference.casefold() not in (device.node_id, device.node_id[:6]) and shown == shown.upper():
                continue
            assert (await invoke(http, reference)).json()["result"] == "here", reference
        if "/" not in shown and shown not in ("pending", "devices", "config"):
            assert (await http.get(f"/nodes/{quote(shown, safe='')}")).json()["node_id"] == device.node_id
        assert (await http.get(f"/nodes/{device.node_id}")).json()["display_name"] == shown


@sync
async def test_a_node_named_as_a_fixed_segment_is_described_by_its_id(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "pending") as device, gateway.http() as http:
        await gateway.pair(device)
        assert (await http.get("/nodes/pending")).json() == {"pending": [], "count": 0}
        assert (await http.get(f"/nodes/{device.node_id}")).json()["display_name"] == "pending"


@sync
async def test_an_id_goes_before_a_name_that_imitates_it(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Victim") as victim, gateway.http() as http:
        await gateway.pair(victim)
        victim.answer(lambda command, params: "victim")
        async with BareDevice(gateway.node_url, victim.node_id) as liar:
            await gateway.pair(liar)
            liar.answer(lambda command, params: "liar")
            assert (await invoke(http, victim.node_id)).json()["result"] == "victim"
            assert (await invoke(http, liar.node_id)).json()["result"] == "liar"


@sync
async def test_a_name_that_imitates_an_id_prefix_is_ambiguous_never_a_guess(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Victim") as victim, gateway.http() as http:
        await gateway.pair(victim)
        async with BareDevice(gateway.node_url, victim.node_id[:6]) as liar:
            await gateway.pair(liar)
            liar.answer(lambda command, params: "liar")
            # Its own name: whoever types it as a prefix is asked to say more.
            answer = await invoke(http, victim.node_id[:6])
            assert error_of(answer) == (409, "node_ambiguous")
            assert answer.json()["ids"] == sorted([victim.node_id, liar.node_id])


@sync
async def test_id_prefixes(gateway: ThreadedGateway) -> None:
    async with (
        BareDevice(gateway.node_url, "One") as one,
        BareDevice(gateway.node_url, "Two") as two,
        gateway.http() as http,
    ):
        await gateway.pair(one)
        await gateway.pair(two)
        session = gateway.service.gateway.registry.by_id(two.node_id)

        def rename() -> None:
            hub = gateway.service.gateway
            hub.registry.remove(session)
            session.device.device_id = one.node_id[:8] + "ffffffff"
            hub.registry.add(session)

        gateway.call(rename)
        answer = await http.get(f"/nodes/{one.node_id[:8]}")
        assert error_of(answer) == (409, "node_ambiguous")
        assert answer.json()["ids"] == sorted([one.node_id, one.node_id[:8] + "ffffffff"])
        assert (await http.get(f"/nodes/{one.node_id[:8]}ffff")).json()["display_name"] == "Two"
        assert error_of(await http.get(f"/nodes/{one.node_id[:3]}")) == (404, "node_not_found")


@sync
async def test_decomposed_letters_name_the_same_node(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Küche") as device, gateway.http() as http:
        await gateway.pair(device)
        for reference in ("Küche", "Ku\u0308che", "KÜCHE", " küche "):
            assert (await http.get(f"/nodes/{quote(reference)}")).status_code == 200, reference


@pytest.mark.parametrize("field", ["platform", "description"])
@sync
async def test_other_texts_are_cleaned_too(gateway: ThreadedGateway, field: str) -> None:
    hello: dict[str, Any] = {"description": "d", field: "a\x1b[31m\nb\u202ec"}
    async with BareDevice(gateway.node_url, "Pi", **hello) as device, gateway.http() as http:
        await gateway.pair(device)
        assert (await http.get("/nodes/Pi")).json()[field] == "a bc"


@sync
async def test_a_refusal_repeats_no_novel(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url, "Pi") as device, gateway.http() as http:
        await gateway.pair(device)
        for answer in (
            await http.get(f"/nodes/{'x' * 5000}"),
            await invoke(http, "Pi", "c" * 5000),
            await http.post(f"/nodes/pending/{'Z' * 5000}/approve"),
            await http.post(f"/nodes/devices/{'z' * 5000}/revoke"),
        ):
            assert answer.status_code == 404
            assert len(answer.content) < 1000
