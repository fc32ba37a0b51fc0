"""What comes with a peer's prompt is fetched from that peer alone, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.gateways import ThreadedGateway
from support.grants import grant
from support.raw_server import CHUNKED_HEAD, RawServer, chunk, whole
from support.running import sync

from suzent_jupyter.gateway import Principal
from suzent_jupyter.gateway.answering.staging import Staging, remove_leftovers
from suzent_jupyter.protocol.chat import InboundAttachment
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.server.files.attachments import stage
from suzent_jupyter.server.request import Request

T = TypeVar("T")


@pytest.fixture
def gateway(make_gateway: Callable[..., ThreadedGateway]) -> ThreadedGateway:
    """A gateway with little patience and room."""
    limits = {"attachment_bytes": 1 << 20, "transfer_ttl": 2.0, "peer_timeout": 1.0, "attachments": 3}
    return make_gateway(limits=limits)


async def on(gateway: ThreadedGateway, work: Coroutine[Any, Any, T]) -> T:
    """Run something on the gateway's loop without blocking this one."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, gateway.loop))


def request(gateway: ThreadedGateway, remote: str = "127.0.0.1", device_id: str = "", **headers: str) -> Request:
    principal = Principal(2, "ada", "", device_id, f"token:{device_id}")  # type: ignore[arg-type]
    return Request(gateway.service, principal, remote=remote, headers=headers)


def item(server: RawServer, file_id: str = "pf_1", **options: Any) -> InboundAttachment:
    told = {"id": file_id, "url": f"{server.url}/nodes/peer-files/{file_id}", "token": "t0", "name": "a.txt"}
    return InboundAttachment.model_validate({**told, "media_type": "text/plain", **options})


@asynccontextmanager
async def peer(answer: bytes) -> AsyncIterator[RawServer]:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with RawServer(play) as server:
        yield server


def left(gateway: ThreadedGateway) -> list[Path]:
    """Return what lies in the gateway's directory of attachments."""
    return list((gateway.config.data_dir / "attachments").rglob("*"))


async def refusal(gateway: ThreadedGateway, items: list[InboundAttachment], asked: Request | None = None) -> str:
    """Stage in vain: returns why, and sees that nothing is left."""
    with pytest.raises(SuzentError) as refused:
        await on(gateway, stage(asked or request(gateway), items))
    assert (refused.value.code, refused.value.status) == ("attachment_refused", 400)
    assert left(gateway) == []
    assert "not found" not in refused.value.message
    return refused.value.message


@sync
async def test_files_lie_in_a_private_directory_until_the_turn_is_over(gateway: ThreadedGateway) -> None:
    async with peer(whole("200 OK", b"hello", "text/html")) as server:
        items = [
            item(server, size=5),
            item(server, "pf_2", name="../../etc/pass\u202ewd\0", media_type="text/html"),
            item(server, "pf_3", name="C:\\Users\\con.txt", size=5),
        ]
        staging = await on(gateway, stage(request(gateway), items))
    head = server.requests[0][0].lower()
    assert head.startswith(b"get /nodes/peer-files/pf_1 http/1.1\r\n")
    assert b"\r\nauthorization: bearer t0\r\n" in head
    told = [(each.name, each.media_type, each.size) for each in staging.attachments]
    octets = "application/octet-stream"
    assert told == [("a.txt", "text/plain", 5), ("passwd", octets, 5), ("_con.txt", "text/plain", 5)]
    for attachment in staging.attachments:
        assert attachment.path.read_bytes() == b"hello"
        assert attachment.path.parent.parent == gateway.config.data_dir / "attachments"
        assert stat.S_IMODE(attachment.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(staging.attachments[0].path.parent.stat().st_mode) == 0o700
    await on(gateway, staging.clear())
    assert left(gateway) == []


@sync
async def test_names_that_are_the_same_are_kept_apart(gateway: ThreadedGateway) -> None:
    async with peer(whole("200 OK", b"x")) as server:
        staging = await on(gateway, stage(request(gateway), [item(server), item(server, "pf_2")]))
    assert len({attachment.path for attachment in staging.attachments}) == 2


HERE = "http://127.0.0.1:{port}"
ELSEWHERE = [
    HERE + "/nodes/peer-files/pf_1",  # not where it called from
    "http://localhost:{port}/nodes/peer-files/pf_1",
    "http://[::1]:{port}/nodes/peer-files/pf_1",
    "http://[::ffff:127.0.0.1]:{port}/nodes/peer-files/pf_1",
    "http://2130706433:{port}/nodes/peer-files/pf_1",
    "http://0x7f.1:{port}/nodes/peer-files/pf_1",
    "http://0:{port}/nodes/peer-files/pf_1",
    "http://192.0.2.7@127.0.0.1:{port}/nodes/peer-files/pf_1",
    "http://127.0.0.1:{port}#@192.0.2.7/nodes/peer-files/pf_1",
    "http://127.0.0.1:{port}\\@192.0.2.7/nodes/peer-files/pf_1",
    "http://169.254.169.254/nodes/peer-files/pf_1",
]


@pytest.mark.parametrize("url", ELSEWHERE)
def test_other_hosts_than_the_callers_are_not_asked(gateway: ThreadedGateway, url: str) -> None:
    async def work() -> None:
        async with peer(whole("200 OK", b"secret")) as server:
            items = [item(server, url=url.format(port=server.port))]
            await refusal(gateway, items, request(gateway, "192.0.2.7"))
            assert server.requests == []

    asyncio.run(work())


PATHS = [
    "/nodes/peer-files/pf_2",
    "/nodes/peer-files/pf_1/",
    "/nodes/peer-files/../devices",
    "/nodes/peer-files/%2e%2e/pf_1",
    "/nodes/peer-files/pf_1?x=1",
    "/nodes/peer-files/pf_1#x",
    "/suzent/nodes/peer-files/pf_1",
    "//nodes/peer-files/pf_1",
    "/",
    "",
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_but_its_file_is_asked_for(gateway: ThreadedGateway, path: str) -> None:
    async def work() -> None:
        async with peer(whole("200 OK", b"secret")) as server:
            await refusal(gateway, [item(server, url=server.url + path)])
            assert server.requests == []

    asyncio.run(work())


@pytest.mark.parametrize(
    "told",
    [
        {"id": "../x", "url": HERE + "/nodes/peer-files/../x"},
        {"id": "", "url": HERE + "/nodes/peer-files/"},
        {"token": ""},
        {"token": "a\r\nX-Evil: 1"},
        {"size": -1},
        {"size": (1 << 20) + 1},
        {"url": "ftp://127.0.0.1:{port}/nodes/peer-files/pf_1"},
        {"url": "file:///nodes/peer-files/pf_1"},
        {"url": "http://u:p@127.0.0.1:{port}/nodes/peer-files/pf_1"},
        {"url": "http://[/nodes/peer-files/pf_1"},
    ],
)
def test_what_is_said_of_a_file_must_be_sound(gateway: ThreadedGateway, told: dict[str, Any]) -> None:
    async def work() -> None:
        async with peer(whole("200 OK", b"secret")) as server:
            if "url" in told:
                told["url"] = told["url"].replace("{port}", str(server.port))
            await refusal(gateway, [item(server, **told)])
            assert server.requests == []

    asyncio.run(work())


BAD: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "not there": (whole("404 Not Found", b"{}"), {}, "404"),
    "a redirect": (whole("302 Found", b"", more="Location: http://127.0.0.1:1/\r\n"), {}, "not followed"),
    "smaller than said": (whole("200 OK", b"abc"), {"size": 4}, "4 that were announced"),
    "larger than said": (whole("200 OK", b"abcde"), {"size": 4}, "4 that were announced"),
    "larger than said, in chunks": (CHUNKED_HEAD + chunk(b"abcde") + b"0\r\n\r\n", {"size": 4}, "announced"),
    "smaller than said, in chunks": (CHUNKED_HEAD + chunk(b"abc") + b"0\r\n\r\n", {"size": 4}, "announced"),
    "too large": (whole("200 OK", b"x" * ((1 << 20) + 1)), {}, "larger together"),
    "too large, in chunks": (CHUNKED_HEAD + chunk(b"x" * 700_000) * 2 + b"0\r\n\r\n", {}, "larger together"),
    "cut": (whole("200 OK", b"abcde")[:-2], {"size": 5}, "can't be fetched"),
    "packed": (whole("200 OK", b"abc", more="Content-Encoding: gzip\r\n"), {}, "packs"),
    "no HTTP": (b"hello\r\n\r\n", {}, "HTTP"),
}


@pytest.mark.parametrize(("answer", "told", "words"), BAD.values(), ids=BAD)
def test_what_does_not_come_whole_is_refused(
    gateway: ThreadedGateway, answer: bytes, told: dict[str, Any], words: str
) -> None:
    async def work() -> str:
        async with peer(whole("200 OK", b"abcd")) as good, peer(answer) as bad:
            return await refusal(gateway, [item(good, size=4), item(bad, **told)])

    assert words in asyncio.run(work())


@sync
async def test_a_peer_that_trickles_is_given_up(gateway: ThreadedGateway) -> None:
    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED_HEAD)
        while True:
            writer.write(chunk(b"x"))
            await writer.drain()
            await asyncio.sleep(0.1)

    async with RawServer(play) as server, asyncio.timeout(15):
        assert "within 2 s" in await refusal(gateway, [item(server)])
        await server.hung_up.wait()


@sync
async def test_there_are_not_too_many(gateway: ThreadedGateway) -> None:
    async with peer(whole("200 OK", b"x" * 600_000)) as server:
        assert "4 files" in await refusal(gateway, [item(server, f"pf_{each}") for each in range(4)])
        assert "larger" in await refusal(gateway, [item(server, f"pf_{each}", size=600_000) for each in range(2)])
        assert server.requests == []
        assert "larger" in await refusal(gateway, [item(server, f"pf_{each}") for each in range(2)])


@sync
async def test_the_address_of_the_grant_counts_too_and_a_proxys_does_not(gateway: ThreadedGateway) -> None:
    async with peer(whole("200 OK", b"x")) as server:
        device_id, _ = await grant(gateway, addr="http://127.0.0.1:1")
        proxied = {"X-Forwarded-For": "192.0.2.7"}
        await refusal(gateway, [item(server)], request(gateway, "127.0.0.1", **proxied))
        assert server.requests == []
        gateway.service.gateway.devices.by_id(device_id).callback_url = "http://127.0.0.1:1"  # type: ignore[union-attr]
        staging = await on(gateway, stage(request(gateway, "192.0.2.7", device_id), [item(server)]))
    assert staging.attachments[0].size == 1
    await on(gateway, staging.clear())


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    live = Staging.make(tmp_path)
    folder = tmp_path / "attachments"
    machine = next(folder.iterdir()).name.split("-")[0]
    dead = folder / f"{machine}-4194304-{'0' * 16}"  # above every process number of Linux
    mine = folder / f"{machine}-{os.getpid()}-{'1' * 16}"  # of an earlier process with our number
    other = folder / f"{'f' * 8}-1-{'2' * 16}"
    old = folder / f"{'f' * 8}-1-{'3' * 16}"
    kept = folder / "mine.txt"
    for each in (dead, mine, other, old):
        each.mkdir()
        (each / "1-a.txt").write_text("x")
    os.utime(old, (1, 1))
    kept.write_text("x")
    (folder / f"{machine}-4194304-{'4' * 16}").symlink_to(tmp_path)
    remove_leftovers(tmp_path)
    assert {path.name for path in folder.iterdir() if not path.is_symlink()} == {
        *(path.name for path in (other, kept)),
        next(path.name for path in folder.iterdir() if path.name.startswith(f"{machine}-{os.getpid()}")),
    }
    live.remove()
    remove_leftovers(tmp_path / "none")
