"""``trust_loopback="auto"``: each guard on its own is enough to refuse."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable

import httpx
import pytest
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.server.listener.loopback import same_user

MakeGateway = Callable[..., ThreadedGateway]


async def ask(gateway: ThreadedGateway, **headers: str) -> int:
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{gateway.url}/nodes", headers={k.replace("_", "-"): v for k, v in headers.items()})
        if answer.status_code != 200:
            error_of(answer)
        return answer.status_code


@sync
async def test_a_local_program_needs_no_token(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(trust_loopback="auto")
    port = gateway.service.port
    assert await ask(gateway) == 200
    for host in ("127.0.0.1", f"localhost:{port}", "LOCALHOST", "[::1]", f"[::1]:{port}", "127.0.0.2:80"):
        assert await ask(gateway, Host=host) == 200, host


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "evil.example"),
        ("Host", "evil.example:25314"),
        ("Host", "127.0.0.1.evil.example"),
        ("Host", "localhost.evil.example"),
        ("Host", "192.0.2.1"),
        ("Host", "0.0.0.0"),
        ("Host", "[::]"),
        ("Host", "127.1"),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1"),
        ("Cookie", "a=b"),
        ("Forwarded", "for=127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Forwarded-Anything", "x"),
        ("X-Real-IP", "127.0.0.1"),
        ("Sec-Fetch-Site", "none"),
        ("Sec-Fetch-Mode", "cors"),
        ("Sec-Fetch-Dest", "empty"),
    ],
)
@sync
async def test_each_guard_refuses(make_gateway: MakeGateway, name: str, value: str) -> None:
    gateway = make_gateway(trust_loopback="auto")
    async with httpx.AsyncClient() as http:
        assert error_of(await http.get(f"{gateway.url}/nodes", headers={name: value})) == (401, "unauthorized")
        # The same connection without it is trusted: nothing sticks.
        assert (await http.get(f"{gateway.url}/nodes")).status_code == 200
        assert (await http.get(f"{gateway.url}/nodes", headers={name: value})).status_code == 401


@sync
async def test_a_bad_token_is_not_made_good_by_trust(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(trust_loopback="auto")
    assert await ask(gateway, Authorization="Bearer szt_forged") == 401


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be somebody else")
@sync
async def test_another_user_of_this_machine_is_not_trusted(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(trust_loopback="auto")
    script = (
        f"exec 3<>/dev/tcp/127.0.0.1/{gateway.service.port};"
        r"printf 'GET /nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3; head -1 <&3"
    )

    def run(user: int | None) -> str:
        done = subprocess.run(["bash", "-c", script], user=user, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()

    assert await asyncio.to_thread(run, None) == "HTTP/1.1 200 OK"
    assert await asyncio.to_thread(run, 65534) == "HTTP/1.1 401 Unauthorized"


@pytest.mark.parametrize("variable", ["JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"])
@sync
async def test_under_a_hub_nobody_is_trusted(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "/user/ada/")
    assert await ask(make_gateway(trust_loopback="auto")) == 401


@sync
async def test_nobody_is_trusted_unless_asked_for(gateway: ThreadedGateway) -> None:
    assert await ask(gateway) == 401


def test_a_socket_nobody_has_belongs_to_nobody() -> None:
    own = ("127.0.0.1", 80)
    assert same_user(("127.0.0.1", 1), own) is False
    assert same_user(("not an address", 80), own) is False
    assert same_user(("127.0.0.1",), own) is False


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ends_of_a_connection_count(host: str) -> None:
    """A port of somebody else's may be the same as one of ours that is connected elsewhere."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such loopback")
    with listening, socket.create_connection(listening.getsockname()[:2]) as client:
        peer, own = client.getsockname(), listening.getsockname()
        assert same_user(peer, own) is True
        assert same_user(peer, (host, own[1] ^ 1)) is False
        assert same_user(("::ffff:127.0.0.1", peer[1]), ("::ffff:127.0.0.1", own[1])) is (host == "127.0.0.1")
