"""Kept files over HTTP: taken as they come, sent to whoever has their address, until that expires."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest
from support.gateways import JupyterServer, Process, ThreadedGateway
from support.grants import granted
from support.kept import digest, fetched, kept_files, token_of
from support.running import sync, until
from support.waiting import wait_for

MIB = 1024 * 1024
DATA = os.urandom(3 * MIB + 17)
MakeGateway = Callable[..., ThreadedGateway]


async def pieces(data: bytes = DATA, size: int = 100_000) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def post(gateway: Any, content: Any = DATA, token: str | None = None, **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token or gateway.token}", **options.pop("headers", {})}
    async with gateway.http(headers=headers) as http:
        return await http.post("/artifacts", content=content, **options)


async def posted(gateway: Any, content: Any = DATA, **options: Any) -> dict[str, Any]:
    answer = await post(gateway, content, **options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["artifact"])


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("content", [DATA, pieces, b"small", b""], ids=["whole", "chunked", "small", "empty"])
@sync
async def test_a_file_is_kept_and_sent(gateway: ThreadedGateway, content: Any) -> None:
    data = DATA if callable(content) else content
    answer = await post(
        gateway,
        content() if callable(content) else content,
        params={"name": "../photo.png"},
        headers={"Content-Type": "image/png"},
    )
    body = answer.json()
    reference = body["artifact"]
    assert (body["success"], body["created"]) == (True, True)
    assert (reference["size"], reference["sha256"]) == (len(data), digest(data))
    assert (reference["name"], reference["media_type"]) == ("photo.png", "image/png")
    got = await fetched(gateway, reference["url"])
    assert (got.status_code, got.content) == (200, data)
    assert got.headers["content-length"] == str(len(data))
    assert got.headers["etag"] == f'"{digest(data)}"'
    sha256 = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert got.headers["repr-digest"] == f"sha-256=:{sha256}:"
    # Never a page of this origin, whatever it holds.
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-disposition"] == "attachment"
    again = (await post(gateway, data)).json()
    assert (again["created"], again["artifact"]["sha256"]) == (False, digest(data))
    await until(lambda: len(kept_files(gateway)) == 1)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=5-", slice(5, None)),
        ("bytes=-7", slice(-7, None)),
        (f"bytes={len(DATA) - 1}-999999999", slice(-1, None)),
        (f"bytes={2 * MIB}-{2 * MIB + 600_000}", slice(2 * MIB, 2 * MIB + 600_001)),
        ("bytes=-999999999", slice(0, None)),
    ],
)
@sync
async def test_a_part_of_a_file(gateway: ThreadedGateway, asked: str, part: slice) -> None:
    reference = await posted(gateway)
    answer = await fetched(gateway, reference["url"], headers={"Range": asked})
    assert (answer.status_code, answer.content) == (206, DATA[part])
    first = range(len(DATA))[part][0]
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(DATA[part]) - 1}/{len(DATA)}"


@pytest.mark.parametrize(
    "asked", ["bytes=9-3", "bytes=-", "bytes=-0", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", f"bytes={len(DATA)}-"]
)
@sync
async def test_a_part_that_makes_no_sense_is_all_of_it(gateway: ThreadedGateway, asked: str) -> None:
    reference = await posted(gateway)
    answer = await fetched(gateway, reference["url"], headers={"Range": asked})
    assert (answer.status_code, answer.content) == (200, DATA)
    other = await fetched(gateway, reference["url"], headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    assert (other.status_code, len(other.content)) == (200, len(DATA))


@sync
async def test_only_a_valid_address_is_good_for_anything(make_gateway: MakeGateway) -> None:
    gateway, other = make_gateway(), make_gateway()
    reference, foreign = await posted(gateway), await posted(other)
    parts = urlsplit(reference["url"])
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    wrong = [
        parts.path,
        f"{parts.path}?signature={query['signature']}",
        f"{parts.path}?expires={query['expires']}",
        f"{parts.path}?expires={int(query['expires']) + 1}&signature={query['signature']}",
        f"{parts.path}?expires=99999999999&signature={query['signature']}",
        f"{parts.path}?expires={query['expires']}&signature={'0' * 64}",
        f"{parts.path}?expires={query['expires']}&signature={query['signature'][:-1]}",
        f"{parts.path}?expires={query['expires']}&signature={query['signature'].upper()}",
        f"{parts.path}?expires={query['expires']}&signature=%ff%fe",
        f"{parts.path}?expires=%00&signature={query['signature']}",
        f"{parts.path}x?{parts.query}",
        f"/artifacts/af_{'A' * 32}?{parts.query}",
        f"/artifacts/{kept_files(gateway)[0].name}?{parts.query}",
        f"/artifacts/..%2F..%2Fsuzent.db?{parts.query}",
        f"/artifacts/%2Fetc%2Fpasswd?{parts.query}",
        f"/artifacts/..%5Csuzent.db?{parts.query}",
        foreign["url"],
    ]
    for url in wrong:
        answer = await fetched(gateway, url)
        assert (code(answer), answer.json()["error"]) == (
            (404, "artifact_unknown"),
            "There is no such file, or not any more.",
        ), url
    for url in ("/artifacts/../suzent.db", "/artifacts/", "/artifacts/a/b"):
        assert (await fetched(gateway, url)).status_code in (404, 405)
    assert (await fetched(gateway, reference["url"])).content == DATA


@sync
async def test_a_file_is_its_accounts_own(gateway: ThreadedGateway) -> None:
    bob = await token_of(gateway, "bob")
    _, peer = await granted(gateway)
    url = urlsplit((await posted(gateway))["url"]).path
    assert (await fetched(gateway, url, headers=gateway.headers)).content == DATA
    for token in (bob, peer, "szt_no", None):
        answer = await fetched(gateway, url, headers={"Authorization": f"Bearer {token}"} if token else {})
        assert code(answer) == (404, "artifact_unknown")
    # The same content of another account is another file, and nobody learns that there was one.
    answer = await post(gateway, DATA, token=bob)
    assert answer.json()["created"] is True
    assert urlsplit(answer.json()["artifact"]["url"]).path != url
    assert len(kept_files(gateway)) == 2
    for token, status in ((peer, 403), ("szt_no", 401)):
        assert (await post(gateway, DATA, token=token)).status_code == status
    async with gateway.http(headers={}) as http:
        assert (await http.post("/artifacts", content=DATA)).status_code == 401


@sync
async def test_an_address_expires_and_the_file_goes(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_ttl": 2.0})
    reference = await posted(gateway)
    assert (await fetched(gateway, reference["url"])).status_code == 200
    await until(lambda: kept_files(gateway) == [], 20)

    async def refused() -> bool:
        return code(await fetched(gateway, reference["url"])) == (404, "artifact_unknown")

    assert await refused()
    again = await posted(gateway)
    assert (await fetched(gateway, again["url"])).content == DATA
    assert await refused()  # of the same content, and over all the same


@sync
async def test_a_file_that_is_sent_again_stays(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_ttl": 3.0})
    first = await posted(gateway)
    loop = asyncio.get_running_loop()
    end = loop.time() + 5
    while loop.time() < end:  # past the end of the first address
        last = await posted(gateway)
        await asyncio.sleep(0.2)
    assert code(await fetched(gateway, first["url"])) == (404, "artifact_unknown")
    assert (await fetched(gateway, last["url"])).content == DATA
    assert urlsplit(last["url"]).path == urlsplit(first["url"]).path
    await until(lambda: len(kept_files(gateway)) == 1)


@sync
async def test_a_file_and_all_of_them_have_their_size(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_bytes": 2 * MIB, "artifact_store_bytes": 5 * MIB})
    for content in (DATA, pieces()):
        assert code(await post(gateway, content)) == (413, "too_large")
    files = [os.urandom(2 * MIB) for _ in range(2)]
    for each in files:
        await posted(gateway, each)
    for more in (os.urandom(2 * MIB), pieces(os.urandom(2 * MIB))):
        answer = await post(gateway, more)
        assert code(answer) == (507, "artifact_store_full")
        assert answer.headers.get("retry-after") is None
    assert (await post(gateway, pieces(files[0]))).status_code in (200, 507)  # it is here, but that is known at its end
    await until(lambda: len(kept_files(gateway)) == 2)
    await posted(gateway, os.urandom(MIB))


@sync
async def test_several_at_once_do_not_take_more_room_than_there_is(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_store_bytes": 5 * MIB})
    answers = await asyncio.gather(*(post(gateway, pieces(os.urandom(MIB))) for _ in range(12)))
    kept = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} == {200, 507}
    assert len(kept) <= 5
    await until(lambda: len(kept_files(gateway)) == len(kept))


@sync
async def test_no_colleagues_files_keep_out_those_of_others(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_store_bytes": 8 * MIB})
    bob, eve = [await token_of(gateway, account) for account in ("bob", "eve")]
    await posted(gateway, os.urandom(2 * MIB), token=bob)
    for more in (os.urandom(MIB), pieces(os.urandom(MIB))):
        answer = await post(gateway, more, token=bob)
        assert code(answer) == (507, "artifact_store_full") and "of one account 2 MiB" in answer.text
    answers = await asyncio.gather(*(post(gateway, pieces(os.urandom(MIB)), token=eve) for _ in range(4)))
    assert sorted({answer.status_code for answer in answers}) == [200, 507]
    assert sum(answer.status_code == 200 for answer in answers) <= 2
    for _ in range(2):  # whose gateway it is takes what is left
        await posted(gateway, os.urandom(2 * MIB))


@sync
async def test_what_takes_too_much_room_goes_when_there_is_less(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    references = [await posted(gateway, os.urandom(MIB)) for _ in range(5)]
    gateway.stop()
    smaller = make_gateway(gateway.config.data_dir, limits={"artifact_store_bytes": 2 * MIB + 5})
    await until(lambda: len(kept_files(smaller)) == 2)
    answers = [await fetched(smaller, each["url"]) for each in references]
    assert [answer.status_code for answer in answers] == [404, 404, 404, 200, 200]


@sync
async def test_addresses_outlast_a_restart(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    reference = await posted(gateway)
    gateway.stop()
    again = make_gateway(gateway.config.data_dir)
    assert (await fetched(again, reference["url"])).content == DATA
    async with again.http() as http:
        assert "artifact_key" not in (await http.get("/nodes/config")).text


@sync
async def test_an_upload_that_breaks_off_leaves_nothing(gateway: ThreadedGateway) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield os.urandom(2 * MIB)
        await until(lambda: kept_files(gateway))
        raise OSError("the caller is gone")

    with pytest.raises(OSError, match="gone"):
        await post(gateway, half())
    await until(lambda: kept_files(gateway) == [])
    hub = gateway.service.gateway
    await until(lambda: not hub.artifacts._arriving)
    await posted(gateway)


@sync
async def test_an_upload_may_take_longer_than_other_bodies(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"body_timeout": 1.0, "request_timeout": 1.0})

    async def slow() -> AsyncIterator[bytes]:
        for at in range(12):
            yield DATA[at * 10_000 : (at + 1) * 10_000]
            await asyncio.sleep(0.25)

    assert (await posted(gateway, slow()))["sha256"] == digest(DATA[:120_000])
    with socket.create_connection(("127.0.0.1", gateway.service.port)) as silent:
        head = f"POST /artifacts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token}\r\nContent-Length: 90000"
        silent.sendall(f"{head}\r\n\r\nx".encode())
        silent.settimeout(20)
        assert await asyncio.to_thread(silent.recv, 100) == b""  # silence is no upload
    await until(lambda: len(kept_files(gateway)) == 1)


@sync
async def test_a_file_that_was_changed_where_it_lies_is_never_sent_as_whole(gateway: ThreadedGateway) -> None:
    reference = await posted(gateway)
    [path] = kept_files(gateway)
    path.write_bytes(DATA[: 2 * MIB])
    with pytest.raises(httpx.RemoteProtocolError):
        await fetched(gateway, reference["url"])
    path.unlink()
    assert code(await fetched(gateway, reference["url"])) == (404, "artifact_unknown")
    assert (await posted(gateway))["sha256"] == digest(DATA)  # the row alone is not enough
    assert (await fetched(gateway, (await posted(gateway))["url"])).content == DATA


@sync
async def test_files_are_for_their_owner_alone(gateway: ThreadedGateway) -> None:
    await posted(gateway)
    [path] = kept_files(gateway)
    assert path.parent.stat().st_mode & 0o777 == 0o700


@sync
async def test_it_is_in_the_audit_trail(gateway: ThreadedGateway) -> None:
    await posted(gateway, params={"name": "a.png"})
    async with gateway.http() as http:
        entries = (await http.get("/audit")).json()["entries"]
    [entry] = [each for each in entries if each["action"] == "artifact.keep"]
    assert entry["detail"] == {"name": "a.png", "size": len(DATA), "sha256": digest(DATA), "created": True}
    assert "signature" not in json.dumps(entries)


def test_memory_stays_flat_while_a_large_file_goes_through(start_process: Callable[..., Process]) -> None:
    gateway = start_process()
    process = psutil.Process(gateway.process.pid)
    size, most, block = 200 * MIB, 0, os.urandom(MIB)
    sha256 = hashlib.sha256()
    with httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=60) as http:
        http.post("/artifacts", content=b"x" * 100_000).raise_for_status()  # what is loaded on first use is loaded
        before = process.memory_info().rss

        def body() -> Any:
            nonlocal most
            for at in range(size // MIB):
                piece = at.to_bytes(8, "big") + block[8:]
                sha256.update(piece)
                yield piece
                most = max(most, process.memory_info().rss)

        reference = http.post("/artifacts", content=body(), headers={"Content-Length": str(size)}).json()["artifact"]
        assert (reference["size"], reference["sha256"]) == (size, sha256.hexdigest())
        got = hashlib.sha256()
        with http.stream("GET", reference["url"], headers={"Authorization": ""}) as answer:
            for piece in answer.iter_raw():
                got.update(piece)
                most = max(most, process.memory_info().rss)
    assert got.hexdigest() == sha256.hexdigest()
    assert most - before < 40 * MIB, f"{(most - before) / MIB:.0f} MiB more"


def test_a_gateway_killed_during_an_upload_leaves_nothing(start_process: Callable[..., Process]) -> None:
    gateway = start_process()
    folder = Path(gateway.runtime["data_dir"]) / "artifacts"

    def files() -> list[str]:
        return [path.name for path in folder.iterdir()] if folder.exists() else []

    with httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=60) as http:
        kept = http.post("/artifacts", content=b"kept" * 50_000).json()["artifact"]
    [name] = files()
    with socket.create_connection(("127.0.0.1", urlsplit(gateway.url).port or 0)) as half:
        head = f"POST /artifacts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token}\r\n"
        half.sendall(f"{head}Content-Length: 90000000\r\n\r\n".encode() + os.urandom(2 * MIB))
        wait_for(lambda: len(files()) == 2)
        gateway.kill()
    assert len(files()) == 2
    again = start_process()
    wait_for(lambda: files() == [name])
    with httpx.Client(base_url=again.url, timeout=60) as http:
        assert http.get(kept["url"]).content == b"kept" * 50_000


def test_both_mounts_keep_and_send(start_jupyter: Callable[..., JupyterServer]) -> None:
    server = start_jupyter(base_url="/user/ada/")
    guest = start_jupyter(
        base_url="/other/", **{name: server.env[name] for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    )
    assert guest.url == server.url
    callers = [
        (server.url, server.headers),
        (server.mount, server.jupyter_headers),
        (server.mount, server.headers),
        (guest.mount, guest.jupyter_headers),
    ]
    for url, headers in callers:
        data = os.urandom(3 * MIB)
        with httpx.Client(timeout=60) as http:
            answer = http.post(f"{url}/artifacts", content=data, headers=headers)
            assert answer.status_code == 200, answer.text
            reference = answer.json()["artifact"]
            assert reference["sha256"] == digest(data)
            for place in {each[0] for each in callers}:  # relative to wherever the gateway is reached
                got = http.get(f"{place}{reference['url']}")
                assert (got.status_code, got.content) == (200, data)
                part = http.get(f"{place}{reference['url']}", headers={"Range": "bytes=1-3"})
                assert (part.status_code, part.content) == (206, data[1:4])
            assert http.post(f"{url}/artifacts", content=data).status_code in (401, 403)
            wrong = http.get(f"{url}{reference['url']}0")
            assert (wrong.status_code, wrong.json()["code"]) == (404, "artifact_unknown")
