"""Limits for an address hold for all that one sender has: for IPv6 a whole /64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.running import sync

from suzent_jupyter.gateway.households import counted_as
from suzent_jupyter.gateway.pairing import Pairing, Pending
from suzent_jupyter.gateway.sockets import Sockets
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.server.attempts import BadTokens
from suzent_jupyter.server.listener.connections import Strangers

HOME = [f"2001:db8:0:1:{number:x}::{number:x}" for number in range(1, 6)]
ELSEWHERE = "2001:db8:0:2::1"


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::5", "2001:db8::/64"),
        ("2001:DB8:0:0:ffff::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_what_an_address_counts_as(address: str, counted: str) -> None:
    assert counted_as(address) == counted


def entry(remote: str) -> Pending:
    link: Any = None
    return Pending("X", "", [], remote, True, "ada", lambda how: None, link)


@sync
async def test_waiting_devices() -> None:
    changes: Any = SimpleNamespace(publish=lambda *_: None)
    pairing = Pairing(Limits(pending_per_address=2), changes)
    for remote in HOME[:2]:
        pairing.add(entry(remote))
    with pytest.raises(SuzentError, match="2 devices of this address") as caught:
        pairing.add(entry(HOME[2]))
    assert caught.value.code == "too_many_pending"
    pairing.add(entry(ELSEWHERE))


def test_sockets() -> None:
    sockets = Sockets(Limits(sockets_per_address=2))
    links: list[Any] = [object() for _ in range(4)]

    def enter(link: Any, remote: str) -> SuzentError | None:
        transport: Any = SimpleNamespace(remote=remote, limited=True)
        return sockets.enter(link, transport)

    assert [enter(link, remote) for link, remote in zip(links, HOME[:2], strict=False)] == [None, None]
    refusal = enter(links[2], HOME[2])
    assert refusal is not None and refusal.code == "too_many_sockets"
    assert enter(links[3], ELSEWHERE) is None
    for link in links:
        sockets.leave(link)
    assert enter(links[0], HOME[3]) is None


def test_bad_tokens() -> None:
    attempts = BadTokens(Limits(bad_tokens_per_address=2))
    for address in HOME[:2]:
        attempts.count(address, False)
    with pytest.raises(SuzentError, match="Too many bad tokens"):
        attempts.count(HOME[2], False)
    attempts.count(ELSEWHERE, False)


class Context:
    """What Tornado keeps of a connection."""


@sync
async def test_connections() -> None:
    strangers = Strangers(Limits(connections_per_address=2))
    closed: list[str] = []

    def connect(address: str) -> None:
        stream: Any = SimpleNamespace(close=lambda: closed.append(address))
        strangers.add(Context(), stream, address)

    for address in (*HOME[:2], ELSEWHERE, HOME[2]):
        connect(address)
    assert closed == HOME[:1]
    strangers.stop()
