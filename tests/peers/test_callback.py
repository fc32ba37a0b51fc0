"""Which addresses that others gave us are called, and where the connection then goes."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from support.hostile_peer import HostilePeer, answer
from support.running import sync

from suzent_jupyter.node import TokenVault
from suzent_jupyter.peers.callback import check_callback, normal_host, target_of
from suzent_jupyter.peers.http import PeerHttp
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits

LAN = ("192.168.1.5",)

REFUSED = [
    # loopback and the cloud's metadata service, in every spelling a resolver takes
    "http://127.0.0.1/",
    "http://127.0.0.1:25314",
    "http://localhost:25314",
    "http://LOCALHOST.:25314",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0.0.0.0:80/",
    "http://[::1]:25314/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::]/",
    "http://169.254.169.254/latest/meta-data",
    "http://2852039166/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://[fe80::1%25eth0]/",
    "http://[fd00:ec2::254]/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://ⓛocalhost/",
    # the right host somewhere in it
    "http://192.168.1.5@127.0.0.1/",
    "http://user:pw@192.168.1.5/",
    "http://127.0.0.1#@192.168.1.5/",
    "http://127.0.0.1\\@192.168.1.5/",
    "http://192.168.1.5\\.evil.example/",
    "http://192.168.1.5.evil.example/",
    "http://192.168.1.50/",
    "http://192.168.1.5 .evil/",
    "http://192.168.1.5\t/",
    "http://192.168.1.5\r\nHost: x/",
    "http://192.168.1.5/?next=http://127.0.0.1",
    "http://192.168.1.5/#x",
    "http://192.168.1.5/a/../b",
    "http://192.168.1.5:0/",
    "http://192.168.1.5:99999/",
    "http://192.168.1.5:/",
    "http://192.168.1.999/",
    "http://192.168.1.5.6/",
    # no address that is called at all
    "ftp://192.168.1.5/",
    "file:///etc/passwd",
    "gopher://192.168.1.5/",
    "//192.168.1.5/",
    "192.168.1.5:25314",
    "http://",
    "http:///x",
    "",
    "http://[192.168.1.5/",
    "http://" + "a" * 3000,
]


@pytest.mark.parametrize("url", REFUSED)
def test_refused(url: str) -> None:
    with pytest.raises(SuzentError) as caught:
        check_callback(url, LAN)
    assert caught.value.code == "address_refused" and "not found" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "allowed", "spelled"),
    [
        ("http://192.168.1.5:25314/", LAN, "http://192.168.1.5:25314"),
        ("HTTP://192.168.1.5:80/suzent/", LAN, "http://192.168.1.5/suzent"),
        ("http://3232235781:25314", LAN, "http://192.168.1.5:25314"),
        ("http://[::ffff:192.168.1.5]:1", LAN, "http://192.168.1.5:1"),
        ("http://192.168.1.5:1", ["::ffff:192.168.1.5"], "http://192.168.1.5:1"),
        ("https://Lab.Example.:25315", ["lab.example"], "https://lab.example:25315"),
        ("https://bücher.example", ["xn--bcher-kva.example"], "https://xn--bcher-kva.example"),
        ("http://[2001:DB8:0::1]:9/", ["2001:db8::1"], "http://[2001:db8::1]:9"),
        ("http://localhost:25314", ["127.0.0.1"], "http://localhost:25314"),
        ("http://[::1]:25314", ["127.0.0.1"], "http://[::1]:25314"),
        ("http://hub.example/user/ada%40x/suzent", ["hub.example"], "http://hub.example/user/ada%40x/suzent"),
    ],
)
def test_allowed(url: str, allowed: list[str], spelled: str) -> None:
    assert check_callback(url, allowed) == spelled


def test_a_host_that_is_none_allows_nothing() -> None:
    with pytest.raises(SuzentError):
        check_callback("http://x/", ["", "a b", "[", "1.2.3.4.5"])


@pytest.mark.parametrize("text", ["", "a b", "a/b", "1.2.3.4.5", "0x100.1.1.1", "256.1", "a" * 300, "a@b", "::g"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError):
        normal_host(text)


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name lead to these addresses."""

    def answers(_host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answers)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1"])
@sync
async def test_a_name_may_not_lead_where_only_we_get(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, address)
    with pytest.raises(SuzentError) as caught:
        await target_of("http://lab.example:25314", ["lab.example"])
    assert caught.value.code == "address_refused"
    if address not in ("0.0.0.0", "224.0.0.1"):
        assert (await target_of("http://lab.example:25314", ["lab.example", address])).address == address


@sync
async def test_a_name_that_leads_nowhere() -> None:
    with pytest.raises(SuzentError) as caught:
        await target_of("http://nowhere.invalid", ["nowhere.invalid"])
    assert caught.value.code == "peer_unreachable"


@sync
async def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    looked_up: list[str] = []
    real = asyncio.get_running_loop().getaddrinfo

    async def rebinding(host: Any, port: Any, **options: Any) -> Any:
        if host != "lab.example":
            return await real(host, port, **options)
        looked_up.append(host)
        good = len(looked_up) == 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if good else "127.0.0.9", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebinding)
    http = PeerHttp(Limits(), TokenVault(tmp_path, keyring=False))
    async with HostilePeer(answer(b"{}")) as peer:
        url = f"http://lab.example:{peer.port}/x?y=1"
        found = await http.request("GET", url, only_hosts=["lab.example", "127.0.0.1"])
        assert found.status == 200 and looked_up == ["lab.example"]
        assert f"Host: lab.example:{peer.port}".encode() in peer.requests[0]
        assert peer.requests[0].startswith(b"GET /x?y=1 ")
        with pytest.raises(SuzentError) as caught:
            await http.request("GET", f"{peer.url}/x", only_hosts=["10.0.0.1"])
        assert caught.value.code == "address_refused" and len(peer.requests) == 1
    await http.close()
