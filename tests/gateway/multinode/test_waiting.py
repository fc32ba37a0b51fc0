"""Keys that nobody knows wait as devices do: with codes, tickets, limits, and an end."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.keyed import Key, KeyedNode, admit, multinode_url
from support.running import sync, until


def traces(gateway: ThreadedGateway) -> tuple[int, ...]:
    hub = gateway.service.gateway
    return (len(hub.sockets), len(hub.pairing), len(hub.registry), len(hub.sessions), len(hub._clients))


@sync
async def test_denied_expired_and_gone(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pairing_ttl": 1.0})
    url = multinode_url(gateway)
    async with KeyedNode(url) as denied, KeyedNode(url) as expires, gateway.http() as http:
        assert (await http.post(f"/nodes/pending/{await denied.code()}/deny")).status_code == 200
        assert await denied.refusal() == ("pairing_denied", 1008)
        await expires.code()
        assert await expires.refusal() == ("pairing_expired", 1013)
        gone = await KeyedNode(url).__aenter__()
        code = await gone.code()
        gone.ws.transport.abort()
        await until(lambda: len(gateway.service.gateway.pairing) == 0)
        assert (await http.post(f"/nodes/pending/{code}/approve")).json()["code"] == "code_gone"
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@sync
async def test_places_are_limited_but_a_known_key_gets_in(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"pending_total": 1, "sockets_unauthenticated": 2})
    url, key = multinode_url(gateway), Key()
    async with KeyedNode(url, "Known", key) as node:
        await admit(gateway, node)
    async with KeyedNode(url, "Waits") as waits:
        await waits.code()
        async with KeyedNode(url, "Too many") as refused:
            assert await refused.refusal() == ("too_many_pending", 1013)
        silent = await KeyedNode(url).open()
        await until(lambda: len(gateway.service.gateway.sockets) == 2)
        async with KeyedNode(url, "Late") as late:
            assert await late.refusal() == ("too_many_sockets", 1013)
        async with KeyedNode(url, "Known", key) as known:
            await known.joined()
        await silent.ws.close()


@sync
async def test_where_tickets_are_required_a_link_lets_a_key_wait(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(require_ticket=True)
    url = multinode_url(gateway)
    async with KeyedNode(url) as uninvited:
        assert await uninvited.refusal() == ("ticket_required", 1008)
    principal = gateway.service.kernel_token.principal(gateway.token)
    invitation = gateway.call(gateway.service.gateway.approvals.invite, principal, "the lab")
    node = KeyedNode(url)
    node.connect["ticket"] = invitation.text
    async with node:
        pending = await node.recv("pending")
        assert pending["invited"] is True
        await gateway.approve(pending["pairing_code"])
        await node.joined()
    again = KeyedNode(url)
    again.connect["ticket"] = invitation.text
    async with again:
        assert await again.refusal() == ("ticket_required", 1008)
    async with KeyedNode(url, key=node.key) as known:
        await known.joined()


@sync
async def test_two_sockets_of_one_key_that_both_wait_become_one_device(gateway: ThreadedGateway) -> None:
    url, key = multinode_url(gateway), Key()
    async with KeyedNode(url, key=key) as one, KeyedNode(url, key=key) as two:
        first, second = await one.code(), await two.code()
        await gateway.approve(first)
        await one.joined()
        await gateway.approve(second)
        await two.joined()
        assert one.node_id == two.node_id
        assert (await one.closed())[0] == 4001
        assert len(list(gateway.service.gateway.devices)) == 1


@sync
async def test_silence_ends(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"handshake_timeout": 0.1, "nonce_ttl": 0.1})
    says_nothing = await KeyedNode(multinode_url(gateway)).open()
    assert await says_nothing.refusal() == ("handshake_timeout", 1013)
    never_signs = await KeyedNode(multinode_url(gateway)).open()
    await never_signs.ask()
    assert await never_signs.refusal() == ("handshake_timeout", 1013)
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@sync
async def test_nodes_that_are_switched_off(gateway: ThreadedGateway) -> None:
    async with KeyedNode(multinode_url(gateway)) as node, gateway.http() as http:
        await admit(gateway, node)
        await http.post("/nodes/config", json={"nodes_enabled": False})
        assert await node.refusal() == ("nodes_disabled", 1013)
        refused = await KeyedNode(multinode_url(gateway)).open()
        await refused.send({"type": "connect.challenge"})
        assert await refused.refusal() == ("nodes_disabled", 1013)


@sync
async def test_a_store_that_can_not_be_read_knows_no_key_and_says_try_again(make_gateway: Any, tmp_path: Any) -> None:
    directory = tmp_path / "broken"
    directory.mkdir()
    (directory / "suzent.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    gateway: ThreadedGateway = make_gateway(directory)
    node = await KeyedNode(multinode_url(gateway)).open()
    await node.send({"type": "connect.challenge"})
    assert await node.refusal() == ("store_failed", 1013)


@pytest.mark.parametrize(
    ("frame", "code", "close"),
    [
        ("hello", "bad_json", 1002),
        ("[]", "bad_frame", 1002),
        (b"{}", "bad_frame", 1002),
        ("{}", "bad_handshake", 1002),
        ('{"type": "node.list"}', "bad_handshake", 1002),
        ('{"type": "connect", "role": "root"}', "bad_handshake", 1002),
        ('{"type": "connect", "role": ["app"]}', "bad_handshake", 1002),
        ('{"type": "connect"}', "jwt_required", 1008),
        ('{"type": "connect", "role": "web"}', "jwt_required", 1008),
        (json.dumps({"type": "connect", "padding": "x" * 70_000}), "too_large", 1009),
    ],
)
@sync
async def test_first_frames_that_are_none(gateway: ThreadedGateway, frame: Any, code: str, close: int) -> None:
    node = await KeyedNode(multinode_url(gateway)).open()
    await node.send(frame)
    assert await node.refusal() == (code, close)
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    "node",
    [None, 5, [], {}, {"name": ""}, {"name": 5}, {"name": "\u202e"}],
)
@sync
async def test_a_node_must_have_a_name(gateway: ThreadedGateway, node: Any) -> None:
    nameless = await KeyedNode(multinode_url(gateway)).open()
    challenge = await nameless.ask()
    await nameless.send({"type": "connect", "jwt": nameless.key.sign(challenge), "node": node})
    assert await nameless.refusal() == ("bad_handshake", 1002)


KINDS = (
    "connect connect.challenge tick node.list node.update node.invoke.request node.invoke.result node.invoke.cancel "
    "node.invoke.progress chat.send chat.event chat.abort chat.watch chat.unwatch permission.response error hello-ok"
).split()
FIELDS = "id node_id run_id seq event node nodes ok result error params command agent message jwt role ts".split()


def random_frame(chance: random.Random, depth: int = 0) -> Any:
    if depth == 0:
        whole = {name: random_frame(chance, 1) for name in chance.sample(FIELDS, chance.randrange(6))}
        return {"type": chance.choice(KINDS) if chance.random() < 0.9 else random_frame(chance, 2), **whole}
    match chance.randrange(9 if depth < 4 else 6):
        case 0:
            return None
        case 1:
            return chance.choice([True, False])
        case 2:
            return chance.choice([0, -1, 2**40, 1.5, 10**30])
        case 3 | 4:
            return chance.choice(["", "x", "run-1", "échо\u2028", "\u202e", "a" * 200, "RUN_FINISHED"])
        case 5:
            return {}
        case 6:
            return [random_frame(chance, depth + 1) for _ in range(chance.randrange(3))]
        case _:
            names = ["name", "capabilities", "tags", "description", "agent", "type", "message", "id"]
            return {name: random_frame(chance, depth + 1) for name in chance.sample(names, 3)}


@sync
async def test_random_frames_end_no_connected_node(gateway: ThreadedGateway, caplog: Any) -> None:
    chance = random.Random(7)
    async with KeyedNode(multinode_url(gateway), agent=True) as node:
        await admit(gateway, node)
        frames = [json.dumps(random_frame(chance)) for _ in range(3000)]
        frames += ["", "{", "[" * 5000, '{"type":NaN}', '"tick"', "null", b"\x00", b"{}"]
        sending = asyncio.gather(*(node.send(frame) for frame in frames))
        await sending
        await node.send({"type": "node.list", "id": "last"})
        while (await node.recv("node.list", 30)).get("id") != "last":
            pass
        assert len(gateway.service.gateway.registry) == 1
    own = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in own if "NotImplementedError" not in str(record.exc_info)] == []


@sync
async def test_random_first_frames_leave_no_trace(gateway: ThreadedGateway, caplog: Any) -> None:
    chance = random.Random(8)

    async def one() -> None:
        node = await KeyedNode(multinode_url(gateway)).open()
        await node.ask()
        frame = random_frame(chance)
        if frame["type"] in ("tick", "connect.challenge"):
            frame["type"] = "other"
        await node.send(frame)
        assert (await node.closed())[0] in (1002, 1008, 1009, 1013)

    for _ in range(15):
        await asyncio.gather(*(one() for _ in range(20)))
    await until(lambda: traces(gateway) == (0, 0, 0, 0, 0))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
