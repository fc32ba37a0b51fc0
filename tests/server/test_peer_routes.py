"""Two gateways: control, both directions, what each shows of the other, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from typing import Any

import pytest
from support.client import BareClient
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync
from support.two import Link, Make, ask, control, get, peers, post


@pytest.fixture
def one(make_gateway: Make) -> ThreadedGateway:
    return make_gateway()


@pytest.fixture
def other(make_gateway: Make) -> ThreadedGateway:
    return make_gateway()


@sync
async def test_control_is_asked_for_approved_and_kept(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    peer = await link.peer()
    assert peer["name"] == "Lab" and peer["base_url"] == other.url and peer["mode"] == "trigger"
    assert peer["outbound_status"] == "ready" and peer["online"] is True and peer["inbound"] == "none"
    assert peer["node_identity"] == other.service.gateway.identity
    (seen,) = await peers(other)
    assert seen["inbound"] == "active" and seen["mode"] == "off" and seen["base_url"] == one.url
    assert seen["peer_id"] == link.device_id and seen["outbound_status"] == "none"


@sync
async def test_the_token_is_in_the_vault_and_nowhere_else(
    one: ThreadedGateway, other: ThreadedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    link = await control(one, other)
    await link.peer()
    peering = one.service.peering

    async def token() -> str:
        return await peering.token(await peering.driven(one.service.kernel_token._principal, link.peer_id))

    secret = one.run(token())
    assert secret.startswith("szt_")
    assert secret not in caplog.text
    assert "/grant-status/" not in "\n".join(each for each in caplog.text.splitlines() if "httpx" in each)
    directory = one.config.data_dir
    files = [path for path in directory.iterdir() if path.is_file()]
    assert files and not any(secret.encode() in path.read_bytes() for path in files)
    with sqlite3.connect(directory / "suzent.db") as connection:
        assert connection.execute("SELECT count(*) FROM peers").fetchone() == (1,)
    for route in ("/nodes/peers", "/audit"):
        assert secret not in (await ask(one, "GET", route)).text


@sync
async def test_who_waits_asks_no_second_time(one: ThreadedGateway, other: ThreadedGateway) -> None:
    bodies = [{"base_url": spelling} for spelling in (other.url, other.url.removeprefix("http://"), f"{other.url}/")]
    asked = await asyncio.gather(*(post(one, "/nodes/control", body) for body in bodies))
    assert len({each["request_id"] for each in asked}) == 1
    assert (await get(other, "/nodes/grants"))["count"] == 1
    assert [each["status"] for each in (await get(one, "/nodes/peers"))["requests"]] == ["pending"]


@sync
async def test_a_request_that_was_forgotten_there_is_made_anew(make_gateway: Make) -> None:
    one, other = make_gateway(), make_gateway()
    port = other.service.port
    asked = await post(one, "/nodes/control", {"base_url": other.url})
    await asyncio.to_thread(other.stop)
    away = await ask(one, "POST", "/nodes/control", json={"base_url": other.url})
    assert (away.status_code, away.json()["code"]) == (502, "peer_unreachable")
    again = await asyncio.to_thread(make_gateway, other.config.data_dir, listener_port=port)
    anew = await post(one, "/nodes/control", {"base_url": other.url})
    assert anew["status"] == "pending" and anew["request_id"] != asked["request_id"]
    (waiting,) = (await get(again, "/nodes/grants"))["grants"]
    assert waiting["code"] == anew["code"]


@sync
async def test_a_peer_that_was_removed_does_not_come_back(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    asked = await post(one, "/nodes/control", {"base_url": "Lab"})
    await post(one, f"/nodes/peers/{link.peer_id}/remove")
    assert (await get(one, "/nodes/peers"))["requests"] == []
    await post(other, f"/nodes/grants/{asked['request_id']}/approve")
    status = await get(one, f"/nodes/control-status?request_id={asked['request_id']}")
    assert status["status"] == "expired" and await peers(one) == []


@sync
async def test_it_is_stored_without_anybody_asking(one: ThreadedGateway, other: ThreadedGateway) -> None:
    asked = await post(one, "/nodes/control", {"base_url": other.url})
    await post(other, f"/nodes/grants/{asked['request_id']}/approve")
    async with asyncio.timeout(10):
        while not await peers(one, refresh=False):
            await asyncio.sleep(0.05)
    status = await get(one, f"/nodes/control-status?request_id={asked['request_id']}&base_url={other.url}")
    assert status["status"] == "approved" and status["peer_id"]


@sync
async def test_a_denied_request_and_an_unknown_one(one: ThreadedGateway, other: ThreadedGateway) -> None:
    asked = await post(one, "/nodes/control", {"base_url": other.url})
    await post(other, f"/nodes/grants/{asked['request_id']}/deny")
    query = f"/nodes/control-status?request_id={asked['request_id']}&base_url={other.url}&name=Lab"
    assert (await get(one, query))["status"] == "denied"
    assert (await get(one, "/nodes/control-status?request_id=gone&base_url=x:1"))["status"] == "expired"
    assert await peers(one) == []


@sync
async def test_a_gateway_does_not_control_itself(one: ThreadedGateway) -> None:
    answer = await ask(one, "POST", "/nodes/control", json={"base_url": one.url})
    assert (answer.status_code, answer.json()["code"]) == (409, "own_gateway")


@pytest.mark.parametrize("address", ["", "ftp://x", "http://", "http://h:0", "http://127.0.0.1:1?x=1"])
@sync
async def test_what_is_no_address_is_refused(one: ThreadedGateway, address: str) -> None:
    answer = await ask(one, "POST", "/nodes/control", json={"base_url": address})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text


@sync
async def test_a_command_of_a_peers_device(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)

    def snap(params: dict[str, Any]) -> Any:
        return {"file": {"id": "abc", "url": "/nodes/peer-files/abc", "name": "x.png"}, "echo": params}

    async with BareDevice(other.node_url, name="Cam", capabilities=[{"name": "camera.snap"}]) as device:
        await other.pair(device)
        device.answer(lambda command, params: snap(params))
        capabilities = await get(one, f"/nodes/peers/{link.peer_id}/capabilities")
        assert [(each["name"], each["node"]) for each in capabilities["capabilities"]] == [("camera.snap", "Cam")]
        answer = await post(one, "/nodes/peers/Lab/invoke", {"command": "camera.snap", "params": {"n": 1}})
        assert answer["success"] is True and answer["result"]["echo"] == {"n": 1}
        file = answer["result"]["file"]
        assert file["url"] == f"/nodes/peers/{link.peer_id}/files/abc" and file["peer_id"] == link.peer_id
        await post(one, f"/nodes/peers/{link.peer_id}/mode", {"mode": "off"})
        refused = await ask(one, "POST", "/nodes/peers/Lab/invoke", json={"command": "camera.snap"})
        assert (refused.status_code, refused.json()["code"]) == (409, "peer_off")
        assert "`%suzent mode Lab trigger`" in refused.json()["hint"]


@sync
async def test_a_command_nobody_there_has(one: ThreadedGateway, other: ThreadedGateway) -> None:
    await control(one, other)
    answer = await ask(one, "POST", "/nodes/peers/Lab/invoke", json={"command": "stage.move"})
    assert answer.status_code >= 400 and "not found" not in answer.json()["error"]
    assert answer.json()["error"].startswith("Lab says:") and "peer capabilities" in answer.json()["hint"]


@sync
async def test_a_revoke_is_told_and_the_peer_can_be_asked_again(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await link.becomes(outbound_status="ready")
    await post(other, f"/nodes/devices/{link.device_id}/revoke")
    await link.becomes(outbound_status="revoked")
    answer = await ask(one, "POST", "/nodes/peers/Lab/invoke", json={"command": "x"})
    assert (answer.status_code, answer.json()["code"]) == (502, "peer_revoked")
    asked = await post(one, "/nodes/control", {"base_url": "lab"})
    await post(other, f"/nodes/grants/{asked['request_id']}/approve")
    again = await get(one, f"/nodes/control-status?request_id={asked['request_id']}")
    assert again["peer_id"] == link.peer_id
    assert (await link.peer())["outbound_status"] == "ready"


@sync
async def test_a_pause_is_not_told(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await link.becomes(outbound_status="ready")
    await post(other, f"/nodes/devices/{link.device_id}/status", {"status": "paused"})
    heard = one.service.peering._moves._hints
    assert heard._again is False and heard._working is False
    assert (await link.peer())["outbound_status"] == "revoked"
    assert (await peers(other))[0]["inbound"] == "paused"
    await post(other, f"/nodes/devices/{link.device_id}/status", {"status": "active"})
    assert (await link.peer())["outbound_status"] == "ready"


@sync
async def test_each_may_drive_the_other(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    assert (await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": True}))["enabled"] is True
    mine = await link.peer()
    assert mine["reverse_enabled"] is True and mine["inbound"] == "active"
    (theirs,) = await peers(other)
    assert theirs["outbound_status"] == "ready" and theirs["inbound"] == "active" and theirs["base_url"] == one.url
    assert theirs["node_identity"] == one.service.gateway.identity
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": False})
    assert (await link.peer())["inbound"] == "none"
    (theirs,) = await peers(other)
    assert theirs["outbound_status"] == "revoked" and theirs["inbound"] == "active"


@sync
async def test_an_offer_that_fails_grants_nothing(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await post(other, f"/nodes/devices/{link.device_id}/status", {"status": "paused"})
    answer = await ask(one, "POST", f"/nodes/peers/{link.peer_id}/reverse", json={"enabled": True})
    assert (answer.status_code, answer.json()["code"]) == (502, "peer_revoked")
    assert (await get(one, "/nodes/devices"))["devices"] == []


@sync
async def test_an_offer_to_one_that_holds_a_grant_leaves_that(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link, back = await control(one, other), await control(other, one)
    await post(other, f"/nodes/devices/{link.device_id}/status", {"status": "paused"})
    answer = await ask(one, "POST", f"/nodes/peers/{link.peer_id}/reverse", json={"enabled": True})
    assert answer.status_code == 502
    assert [each["device_id"] for each in (await get(one, "/nodes/devices"))["devices"]] == [back.device_id]
    assert (await back.peer())["outbound_status"] == "ready"
    await post(other, f"/nodes/devices/{link.device_id}/status", {"status": "active"})
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": True})
    (held,) = (await get(one, "/nodes/devices"))["devices"]
    assert held["device_id"] == back.device_id
    assert (await back.peer())["outbound_status"] == "ready"
    assert (await link.peer())["reverse_enabled"] is True
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": False})
    assert (await get(one, "/nodes/devices"))["devices"] == []
    assert (await back.peer())["outbound_status"] == "revoked"


@sync
async def test_an_offer_to_one_that_lost_its_grant_replaces_it(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link, back = await control(one, other), await control(other, one)
    await post(one, f"/nodes/devices/{back.device_id}/status", {"status": "paused"})
    assert (await back.peer())["outbound_status"] == "revoked"
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": True})
    (held,) = (await get(one, "/nodes/devices"))["devices"]
    assert held["device_id"] != back.device_id
    assert (await back.peer())["outbound_status"] == "ready"


async def offered(link: Link, base_url: str, token: str = "szt_x") -> Any:
    """Offer control with the controller's own token."""
    peering = link.controller.service.peering
    principal = link.controller.service.kernel_token._principal

    async def own() -> str:
        return await peering.token(await peering.driven(principal, link.peer_id))

    headers = {"Authorization": f"Bearer {link.controller.run(own())}"}
    async with link.target.http(headers=headers) as http:
        return await http.post("/nodes/peer-offer", json={"name": "Evil", "base_url": base_url, "token": token})


@pytest.mark.parametrize(
    "base_url",
    ["http://10.1.2.3:25314", "http://169.254.169.254/", "http://127.0.0.1@10.0.0.1:80", "file:///etc/passwd"],
)
@sync
async def test_an_offer_may_not_lead_elsewhere(one: ThreadedGateway, other: ThreadedGateway, base_url: str) -> None:
    answer = await offered(await control(one, other), base_url)
    assert (answer.status_code, answer.json()["code"]) == (400, "address_refused")
    assert [each["base_url"] for each in await peers(other)] == [one.url]


@sync
async def test_removing_severs_both_directions(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": True})
    await post(one, "/nodes/peers/Lab/remove")
    assert await peers(one) == [] and (await get(one, "/nodes/devices"))["devices"] == []
    (theirs,) = await peers(other)
    assert theirs["outbound_status"] == "revoked"
    await post(other, f"/nodes/peers/{theirs['peer_id']}/remove")
    assert await peers(other) == [] and (await get(other, "/nodes/devices"))["devices"] == []


@sync
async def test_removing_one_that_only_drives_us(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await link.becomes(outbound_status="ready")
    await post(other, f"/nodes/peers/{link.device_id}/remove")
    assert await peers(other) == []
    await link.becomes(outbound_status="revoked")


@sync
async def test_removing_works_while_the_peer_is_away(one: ThreadedGateway, make_gateway: Make) -> None:
    gone = make_gateway()
    link = await control(one, gone)
    await post(one, f"/nodes/peers/{link.peer_id}/reverse", {"enabled": True})
    await asyncio.to_thread(gone.stop)
    assert (await link.peer())["outbound_status"] == "offline"
    await post(one, f"/nodes/peers/{link.peer_id}/remove")
    assert await peers(one) == [] and (await get(one, "/nodes/devices"))["devices"] == []


@sync
async def test_a_peer_on_another_port_is_found_again_by_itself(one: ThreadedGateway, make_gateway: Make) -> None:
    first = make_gateway()
    link = await control(one, first)
    await link.becomes(outbound_status="ready")
    await asyncio.to_thread(first.stop)
    assert (await link.peer())["outbound_status"] == "offline"
    moved = await asyncio.to_thread(make_gateway, first.config.data_dir)
    assert moved.url != first.url
    peer = await link.becomes(base_url=moved.url, outbound_status="ready")
    assert peer["name"] == "Lab" and len(await peers(one)) == 1


@sync
async def test_a_peer_on_another_port_is_found_again_by_control(one: ThreadedGateway, make_gateway: Make) -> None:
    first = make_gateway()
    link = await control(one, first)
    await asyncio.to_thread(first.stop)
    one.service.peering._moves._hints.heard = lambda *_: None  # type: ignore[method-assign]
    moved = await asyncio.to_thread(make_gateway, first.config.data_dir)
    again = await control(one, moved, name="Other name")
    assert again.peer_id == link.peer_id
    peer = await again.peer()
    assert peer["name"] == "Lab" and peer["base_url"] == moved.url and len(await peers(one)) == 1


@sync
async def test_a_stranger_cannot_move_a_peer(one: ThreadedGateway, make_gateway: Make) -> None:
    first, stranger = make_gateway(), make_gateway()
    link = await control(one, first)
    await link.becomes(outbound_status="ready")
    await asyncio.to_thread(first.stop)
    await link.peer()
    async with one.http(headers={}) as http:
        for address in (stranger.url, "http://10.0.0.1:80", "nonsense"):
            answer = await http.post("/channels/suzent/grant-changed", json={"base_url": address})
            assert answer.json() == {"ok": True, "removed": 0}
    hints = one.service.peering._moves._hints
    async with asyncio.timeout(10):
        while hints._working:
            await asyncio.sleep(0.02)
    assert (await link.peer())["base_url"] == first.url


@sync
async def test_hints_by_the_hundred_cost_a_look_a_second(one: ThreadedGateway, other: ThreadedGateway) -> None:
    link = await control(one, other)
    await link.becomes(outbound_status="ready")
    asked: list[float] = []
    statuses = one.service.peering._book.statuses
    probe = statuses._probe

    async def counted(peer: Any) -> Any:
        asked.append(asyncio.get_running_loop().time())
        return await probe(peer)

    statuses._probe = counted
    async with one.http(headers={}) as http:
        begun = asyncio.get_running_loop().time()
        for _ in range(10):
            await asyncio.gather(*(http.post("/channels/suzent/grant-changed") for _ in range(20)))
        took = asyncio.get_running_loop().time() - begun
    assert 1 <= len(asked) <= took + 2
    assert all(later - earlier >= 0.9 for earlier, later in itertools.pairwise(asked))


@sync
async def test_a_claimed_identity_takes_no_ready_peers_place(one: ThreadedGateway, make_gateway: Make) -> None:
    honest, liar = make_gateway(), make_gateway()
    link = await control(one, honest)
    liar.service.gateway.identity = honest.service.gateway.identity
    other = await control(one, liar, name="Liar")
    assert other.peer_id != link.peer_id
    assert (await link.peer())["base_url"] == honest.url


@sync
async def test_peers_survive_a_restart_and_requests_do_not(make_gateway: Make, other: ThreadedGateway) -> None:
    first = make_gateway()
    link = await control(first, other)
    await asyncio.to_thread(first.stop)
    again = await asyncio.to_thread(make_gateway, first.config.data_dir)
    (peer,) = await peers(again)
    assert peer["peer_id"] == link.peer_id and peer["outbound_status"] == "ready"


@sync
async def test_with_a_store_that_cannot_be_read(make_gateway: Make, other: ThreadedGateway, tmp_path: Any) -> None:
    directory = tmp_path / "broken"
    directory.mkdir()
    (directory / "suzent.db").write_bytes(b"nonsense" * 1000)
    broken = make_gateway(directory)
    assert await peers(broken) == []
    answer = await ask(broken, "POST", "/nodes/control", json={"base_url": other.url})
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unreadable")
    assert (await get(other, "/nodes/grants"))["count"] == 0


@sync
async def test_another_account_sees_no_peer(one: ThreadedGateway, other: ThreadedGateway) -> None:
    from dataclasses import replace

    link = await control(one, other)
    stranger = replace(one.service.kernel_token._principal, account="eve")
    assert one.call(one.service.peering.listing, stranger) == []
    with pytest.raises(Exception, match="There is no peer"):
        one.run(one.service.peering.driven(stranger, link.peer_id))


@sync
async def test_subscribers_hear_of_peers(one: ThreadedGateway, other: ThreadedGateway) -> None:
    async with BareClient(one) as client, BareClient(other) as theirs:
        await client.send(type="subscribe", topics=["peers"])
        assert (await client.change("peers"))["kind"] == "snapshot"
        link = await control(one, other)
        added = await client.change("peers", "added")
        assert added["item"]["peer_id"] == link.peer_id and added["item"]["name"] == "Lab"
        while (await client.change("peers", "changed"))["item"]["outbound_status"] != "ready":
            pass
        await theirs.send(type="subscribe", topics=["peers"])
        snapshot = await theirs.change("peers", "snapshot")
        assert [each["peer_id"] for each in snapshot["item"]] == [link.device_id]
        await post(other, f"/nodes/devices/{link.device_id}/revoke")
        assert (await theirs.change("peers", "removed"))["item"]["peer_id"] == link.device_id
        while (await client.change("peers", "changed"))["item"]["outbound_status"] != "revoked":
            pass
        await post(one, "/nodes/peers/Lab/remove")
        assert (await client.change("peers", "removed"))["item"]["peer_id"] == link.peer_id
