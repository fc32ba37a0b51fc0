"""Gateways that claim to be another, or use what they may do to get at a link that is not theirs."""

from __future__ import annotations

import secrets
import socket
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.running import sync
from support.two import Link, Make, ask, control, get, peers, post

from suzent_jupyter.gateway.granting.requests import GrantEntry
from suzent_jupyter.peers.callback import leads_inside
from suzent_jupyter.peers.remote import Decision
from suzent_jupyter.protocol.peers import grant_proof


def by_name(url: str) -> str:
    """Return the same gateway's address under another host."""
    return url.replace("127.0.0.1", "localhost")


async def token_of(link: Link) -> str:
    peering, principal = link.controller.service.peering, link.controller.service.kernel_token._principal

    async def own() -> str:
        return await peering.token(await peering.driven(principal, link.peer_id))

    return link.controller.run(own())


async def offer(link: Link, **body: Any) -> Any:
    """Offer control with the controller's own token."""
    async with link.target.http(headers={"Authorization": f"Bearer {await token_of(link)}"}) as http:
        return await http.post("/nodes/peer-offer", json={"name": "Evil", "token": "szt_evil", **body})


@sync
async def test_a_claimed_identity_takes_no_absent_peers_place(make_gateway: Make) -> None:
    one, honest, liar = make_gateway(), make_gateway(), make_gateway()
    link = await control(one, honest)
    await link.becomes(outbound_status="ready")
    honest.stop()
    assert (await link.peer())["outbound_status"] == "offline"
    liar.service.gateway.identity = link.target.service.gateway.identity
    other = await control(one, liar, address=by_name(liar.url), name="Liar")
    assert other.peer_id != link.peer_id
    assert {(peer["name"], peer["base_url"]) for peer in await peers(one)} == {
        ("Lab", honest.url),
        ("Liar", by_name(liar.url)),
    }


@sync
async def test_who_proves_to_be_a_peer_takes_its_place(make_gateway: Make) -> None:
    one, first = make_gateway(), make_gateway()
    link = await control(one, first)
    await link.becomes(outbound_status="ready")
    first.stop()
    one.service.peering._moves._hints.heard = lambda *_: None  # type: ignore[method-assign]
    moved = make_gateway(first.config.data_dir)
    again = await control(one, moved, address=by_name(moved.url), name="Other name")
    assert again.peer_id == link.peer_id and len(await peers(one)) == 1
    rows = (await get(one, "/audit?limit=500"))["entries"]
    [row] = [row for row in rows if row["action"] == "peer.add" and "was_at" in row["detail"]]
    assert row["detail"]["was_at"] == first.url


@sync
async def test_an_offer_touches_no_link_that_works(make_gateway: Make) -> None:
    one, victim, driver = make_gateway(), make_gateway(), make_gateway()
    link = await control(one, victim)
    await link.becomes(outbound_status="ready")
    secret = await token_of(link)
    evil = await control(driver, one)
    kept = await offer(evil, base_url=victim.url)
    assert kept.status_code == 200
    victim.stop()
    refused = await offer(evil, base_url=victim.url)
    assert (refused.status_code, refused.json()["code"]) == (400, "address_refused"), refused.text
    assert await token_of(link) == secret
    assert (await link.peer())["name"] == "Lab"


@sync
async def test_control_in_return_ends_no_grant_of_whose_identity_is_claimed(make_gateway: Make) -> None:
    one, liar, holder = make_gateway(), make_gateway(), make_gateway()
    link = await control(holder, one)
    liar.service.gateway.identity = holder.service.gateway.identity
    evil = await control(one, liar, address=by_name(liar.url), name="Liar")
    await post(one, f"/nodes/peers/{evil.peer_id}/reverse", {"enabled": True})
    assert (await link.peer())["outbound_status"] == "ready"
    assert one.service.gateway.devices.by_id(link.device_id) is not None


@sync
async def test_an_offer_takes_no_name(make_gateway: Make) -> None:
    one, victim, driver = make_gateway(), make_gateway(), make_gateway()
    link = await control(one, victim)
    evil = await control(driver, one)
    for name in ("lab", link.peer_id, "192.168.1.10:25314", "lab.example"):
        answer = await offer(evil, base_url=f"{driver.url}/{secrets.token_hex(4)}", name=name)
        assert answer.status_code == 200, answer.text
    assert (await link.peer())["base_url"] == victim.url
    assert sum(peer["name"].casefold() == "lab" for peer in await peers(one)) == 1
    assert not [peer for peer in await peers(one) if peer["name"] in ("192.168.1.10:25314", "lab.example")]


@sync
async def test_offers_fill_the_list_so_far_and_no_further(make_gateway: Make) -> None:
    one, driver = make_gateway(limits={"offered_peers": 3}), make_gateway()
    evil = await control(driver, one)
    device = one.service.gateway.devices.by_id(evil.device_id)
    assert device is not None
    device.node_identity = ""
    answers = [await offer(evil, base_url=f"{driver.url}/{number}") for number in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    other = make_gateway()
    assert (await control(one, other)).peer_id  # the operator's own


@sync
async def test_a_name_that_reads_like_an_address_leads_nowhere(make_gateway: Make) -> None:
    one, driver = make_gateway(), make_gateway()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        wanted = f"127.0.0.1:{closed.getsockname()[1]}"
        driver.service.gateway.settings.display_name = wanted
        await control(driver, one)
        answer = await ask(one, "POST", "/nodes/control", json={"base_url": wanted})
        assert (answer.status_code, answer.json()["code"]) == (502, "peer_unreachable"), answer.text
    assert (await get(driver, "/nodes/grants"))["count"] == 0


@sync
async def test_loopback_is_proved_to_this_machine_alone(make_gateway: Make) -> None:
    one, other = make_gateway(), make_gateway()
    link = await control(one, other)
    device = other.service.gateway.devices.by_id(link.device_id)
    assert device is not None
    nonce = secrets.token_urlsafe(24)
    body = {"device_id": link.device_id, "nonce": nonce, "base_url": other.url}
    right = grant_proof(device.digest, nonce, other.url)
    async with other.http(headers={}) as http:
        assert (await http.post("/channels/suzent/prove", json=body)).json()["proof"] == right
        relayed = {"X-Forwarded-For": "10.0.0.9"}
        assert (await http.post("/channels/suzent/prove", json=body, headers=relayed)).json()["proof"] != right


@pytest.mark.parametrize("path", ["grant-changed", "prove"])
@sync
async def test_web_pages_hint_at_nothing(gateway: ThreadedGateway, path: str) -> None:
    body = {"device_id": "x", "nonce": "n" * 16, "base_url": "http://127.0.0.1:1/admin"}
    async with gateway.http(headers={}) as http:
        for header in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = await http.post(f"/channels/suzent/{path}", json=body, headers=header)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@sync
async def test_a_peer_that_changes_its_mind_fills_no_trail(make_gateway: Make) -> None:
    one, other = make_gateway(), make_gateway()
    link = await control(one, other)
    await link.becomes(outbound_status="ready")
    book = one.service.peering._book
    peer = book.all[link.peer_id]

    def flip() -> None:
        for number in range(100):
            book.statuses.note(peer, "revoked" if number % 2 else "ready")

    one.call(flip)
    rows = (await get(one, "/audit?limit=500"))["entries"]
    assert sum(row["action"] in ("peer.revoked", "peer.accepted") for row in rows) <= 8
    device = other.service.gateway.devices.by_id(link.device_id)
    assert device is not None
    for lie in ("a", "b", "c"):
        one.run(book._probe(book.all[link.peer_id]))
        device.device_id = lie
    device.device_id = link.device_id
    assert book.all[link.peer_id].own_device_id == link.device_id


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://127.0.0.1:9000", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://2130706433", True),
        ("http://169.254.169.254/latest", True),
        ("http://localhost", True),
        ("http://x.localhost", True),
        ("http://[fe80::1]", True),
        ("http://[fe80::2]", False),
        ("http://10.0.0.7", False),
        ("http://lab.example", False),
        ("", True),
    ],
)
def test_addresses_that_lead_inside(url: str, inside: bool) -> None:
    assert leads_inside(url, "fe80::2") is inside


def test_secrets_are_in_no_repr() -> None:
    entry = GrantEntry("n", "h", limited=True, account="", request_id="r-secret", token="t-secret")
    assert "secret" not in repr(entry) + repr(Decision("approved", "t-secret"))
