"""What hostile and broken servers can do to the client of peers: nothing but be named."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.hostile_peer import HostilePeer, Reply, answer, drip, endless, hang, raw
from support.running import sync

from suzent_jupyter.node import TokenVault
from suzent_jupyter.peers.answers import object_of, refusal
from suzent_jupyter.peers.http import PeerHttp
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.limits import Limits

MIB = 1024 * 1024
TOKEN = "szt_" + "s" * 43


@asynccontextmanager
async def client(tmp_path: Path, **limits: Any) -> AsyncIterator[PeerHttp]:
    http = PeerHttp(Limits(**limits), TokenVault(tmp_path, keyring=False))
    try:
        yield http
    finally:
        await http.close()


async def failing(http: PeerHttp, url: str, **options: Any) -> SuzentError:
    with pytest.raises(SuzentError) as caught:
        answered = await http.request("GET", url, token=TOKEN, **options)
        object_of(url, answered)
    error = caught.value
    assert TOKEN not in f"{error.message}{error.hint}" and "not found" not in error.message
    return error


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(b"<html><h1>It works</h1>"), "bad_peer_answer"),
        (answer(b""), "bad_peer_answer"),
        (answer(b"[1, 2]"), "bad_peer_answer"),
        (answer(b'"text"'), "bad_peer_answer"),
        (answer(b'{"a": NaN}'), "bad_peer_answer"),
        (answer(b'{"a": Infinity}'), "bad_peer_answer"),
        (answer(b'{"a": "\xff"}'), "bad_peer_answer"),
        (answer(b'{"a": "\\ud800"}'), "bad_peer_answer"),
        (answer(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), "bad_peer_answer"),
        (answer(b'{"a":' * 300 + b"1" + b"}" * 300), "bad_peer_answer"),
        (answer(b"{}", "302 Found", "Location: http://127.0.0.1:1/"), "bad_peer_answer"),
        (answer(b"{}", "307 Temporary Redirect", "Location: file:///etc/passwd"), "bad_peer_answer"),
        (answer(b"{}", "304 Not Modified"), "bad_peer_answer"),
        (answer(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip"), "bad_peer_answer"),
        (answer(b"{}", "401 Unauthorized"), "peer_revoked"),
        (answer(b'{"error": "no"}', "403 Forbidden"), "peer_refused"),
        (answer(b"<h1>Not Found</h1>", "404 Not Found"), "bad_peer_answer"),
        (answer(b'{"error": "Not found"}', "404 Not Found"), "peer_refused"),
        (answer(b"oops", "500 Internal Server Error"), "bad_peer_answer"),
        (answer(b"<h1>Bad gateway</h1>", "502 Bad Gateway"), "peer_unreachable"),
        (raw(b""), "peer_unreachable"),
        (raw(b"SSH-2.0-OpenSSH_9\r\n\r\n"), "bad_peer_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "bad_peer_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"), "bad_peer_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n{}"), "bad_peer_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"), "bad_peer_answer"),
    ],
)
@sync
async def test_what_is_no_answer(tmp_path: Path, reply: Reply, code: str) -> None:
    async with client(tmp_path) as http, HostilePeer(reply) as peer:
        error = await failing(http, f"{peer.url}/nodes?secret=1", timeout=5)
        assert error.code == code, error.message
        assert peer.url in error.message and "secret" not in error.message
        assert len(peer.requests) == 1


@pytest.mark.parametrize("reply", [hang, drip])
@sync
async def test_silence_and_slowness_end_in_time(tmp_path: Path, reply: Reply) -> None:
    async with client(tmp_path) as http, HostilePeer(reply) as peer:
        begun = asyncio.get_running_loop().time()
        error = await failing(http, peer.url, timeout=0.4)
        assert error.code == "peer_unreachable" and "0.4 s" in error.message
        assert asyncio.get_running_loop().time() - begun < 2


@sync
async def test_a_gigabyte_in_one_line_is_not_read(tmp_path: Path) -> None:
    async with client(tmp_path, peer_answer_bytes=MIB) as http, HostilePeer(endless(1024 * MIB)) as peer:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        error = await failing(http, peer.url, timeout=20)
        assert error.code == "bad_peer_answer" and "1,048,576" in error.message
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


@sync
async def test_nobody_there(tmp_path: Path) -> None:
    async with client(tmp_path) as http:
        assert (await failing(http, "http://127.0.0.1:1/x")).code == "peer_unreachable"
        assert (await failing(http, "http://nowhere.invalid/x")).code == "peer_unreachable"
        assert (await failing(http, "nonsense")).code == "peer_unreachable"


@sync
async def test_tls_asked_of_a_server_without_it(tmp_path: Path) -> None:
    async with client(tmp_path) as http, HostilePeer(raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as peer:
        error = await failing(http, peer.url.replace("http:", "https:"), timeout=5)
        assert error.code == "peer_unreachable"


@sync
async def test_proxies_of_the_environment_get_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client(tmp_path) as http, HostilePeer(answer(b"{}")) as peer, HostilePeer(answer(b"{}")) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        await http.request("GET", f"{peer.url}/x", token=TOKEN)
        assert len(peer.requests) == 1 and proxy.requests == []


@sync
async def test_cookies_are_not_kept(tmp_path: Path) -> None:
    async with client(tmp_path) as http, HostilePeer(answer(b"{}", "200 OK", "Set-Cookie: a=b")) as peer:
        await http.request("GET", peer.url)
        await http.request("GET", peer.url)
        assert b"cookie" not in peer.requests[1].lower()


@sync
async def test_urls_and_tokens_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with client(tmp_path) as http, HostilePeer(answer(b"{}")) as peer:
        await http.request("POST", f"{peer.url}/nodes/grant-status/verysecret", token=TOKEN, json={"token": TOKEN})
        assert TOKEN.encode() in peer.requests[0]
    assert TOKEN not in caplog.text and "verysecret" not in caplog.text


@sync
async def test_a_stream_is_read_as_it_comes(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\none")
        await writer.drain()
        await go_on.wait()
        writer.write(b"two")

    async with client(tmp_path) as http, HostilePeer(reply) as peer:
        pieces = []
        async with http.stream("POST", peer.url, token=TOKEN, json={}, connect_timeout=5) as response:
            assert response.status_code == 200
            async for piece in response.aiter_raw():
                pieces.append(piece)
                go_on.set()
        assert b"".join(pieces) == b"onetwo" and pieces[0] == b"one"


@sync
async def test_a_stream_that_breaks_off(tmp_path: Path) -> None:
    cut = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\nff\r\n")
    async with client(tmp_path) as http, HostilePeer(cut) as peer:
        with pytest.raises(SuzentError) as caught:
            async with http.stream("GET", peer.url, connect_timeout=5) as response:
                async for _ in response.aiter_raw():
                    pass
        assert caught.value.code == "bad_peer_answer"
    async with client(tmp_path) as http, HostilePeer(hang) as peer:
        with pytest.raises(SuzentError) as caught:
            async with http.stream("GET", peer.url, connect_timeout=0.3):
                pass
        assert caught.value.code == "peer_unreachable"


@sync
async def test_errors_of_whoever_reads_a_stream_stay_their_own(tmp_path: Path) -> None:
    async with client(tmp_path) as http, HostilePeer(answer(b"{}")) as peer:
        with pytest.raises(OSError, match="disk"):
            async with http.stream("GET", peer.url):
                raise OSError("disk full")


def test_words_of_a_peer_are_cleaned() -> None:
    error = refusal(
        "http://x:1/y", 409, b'{"error": "\\u001b[31mNode\\nnot  found \\u202eevil", "code": "node_not_found"}'
    )
    assert error.message == "http://x:1 says: Node unknown evil" and error.code == "peer_refused"
    busy = refusal("http://x:1/y", 429, b'{"error": "busy", "code": "node_busy", "retry_after": 7}', "Lab")
    assert (busy.code, busy.message, busy.retry_after) == ("node_busy", "Lab says: busy", 7)
    ours = refusal("http://x:1/y", 500, b'{"error": "x", "code": "store_unreadable"}')
    assert ours.code == "peer_refused"
    long = refusal("http://x:1/y", 400, b'{"error": "' + b"x" * 100_000 + b'"}')
    assert len(long.message) < 400
