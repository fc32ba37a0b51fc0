"""Kept files at a node: fetched for a call, checked, and gone with it; over both protocols, mounts and TLS."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from support.gateways import Addresses, JupyterServer, ThreadedGateway
from support.kept import digest, kept_files
from support.running import sync, until
from support.s3 import BUCKET, s3_server
from support.tls import make_certificate

from suzent_jupyter.gateway.artifacts import artifacts as artifacts_module
from suzent_jupyter.node import Backoff, NodeHost, ParameterError, TokenVault
from suzent_jupyter.node import call_files as call_files_module
from suzent_jupyter.node.fetching import Fetcher
from suzent_jupyter.node.pin import Trust

MIB = 1024 * 1024
DATA = os.urandom(300_000)
Protocol = Literal["device", "multinode"]
MakeGateway = Callable[..., ThreadedGateway]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the files of calls lie in this test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder


@pytest.fixture(params=["device", "multinode"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


def facts(path: Path) -> dict[str, Any]:
    return {"path": str(path), "size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def by_path(file: Path) -> dict[str, Any]:
    return facts(file)


def by_bytes(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": digest(data)}


def by_dict(file: dict[str, Any]) -> dict[str, Any]:
    return {"said": file, "found": facts(Path(file["path"]))}


def by_text(text: str) -> dict[str, Any]:
    return {"chars": len(text), "head": text[:30], "sha256": digest(base64.b64decode(text.partition(",")[2]))}


def nested(files: list[Path], more: Any = None) -> list[dict[str, Any]]:
    return [facts(each) for each in files] + ([facts(Path(more["deep"][0]["path"]))] if more else [])


CAPABILITIES = [by_path, by_bytes, by_dict, by_text, nested]


@asynccontextmanager
async def joined(gateway: Addresses, vault: Path, **options: Any) -> AsyncIterator[NodeHost]:
    options.setdefault("backoff", Backoff(0.05, 0.1, floor=0.02))
    options.setdefault("capabilities", CAPABILITIES)
    url = options.pop("url", gateway.url)
    host = NodeHost(url, name="Bench", vault=TokenVault(vault, keyring=False), **options)
    running = asyncio.create_task(host.run())
    try:
        await until(lambda: host.status in ("pending", "connected", "refused"), 20)
        if host.pairing_code:
            await gateway.approve(host.pairing_code)
        await until(lambda: host.status == "connected", 20, str(host.last_error))
        yield host
    finally:
        host.stop()
        await running


async def kept(gateway: Addresses, data: bytes, **query: str) -> dict[str, Any]:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 256 * 1024):
            yield data[at : at + 256 * 1024]

    async with gateway.http() as http:
        answer = await http.post("/artifacts", content=pieces(), params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["artifact"])


async def answered(gateway: Addresses, host: NodeHost, command: str, **params: Any) -> dict[str, Any]:
    async with gateway.http() as http:
        answer = await http.post(f"/nodes/{host.node_id}/invoke", json={"command": command, "params": params})
        return dict(answer.json())


async def called(gateway: Addresses, host: NodeHost, command: str, **params: Any) -> Any:
    answer = await answered(gateway, host, command, **params)
    assert answer.get("success"), answer
    return answer["result"]


@sync
async def test_30_mb_as_path_bytes_and_reference(
    gateway: ThreadedGateway, tmp_path: Path, own_temporary_folder: Path, protocol: Protocol
) -> None:
    data = os.urandom(30_000_000)
    want = {"size": len(data), "sha256": digest(data)}
    async with joined(gateway, tmp_path / "vault", protocol=protocol) as host:
        reference = await kept(gateway, data, name="../scan one.TIF")
        found = await called(gateway, host, "by_path", file=reference)
        path = Path(found.pop("path"))
        assert found == want and path.suffix == ".TIF" and own_temporary_folder in path.parents
        assert "scan" not in path.name  # nothing of a name of theirs but what says its kind
        assert await called(gateway, host, "by_bytes", data=reference) == want
        both = await called(gateway, host, "by_dict", file={**reference, "note": "mine"})
        assert both["said"]["note"] == "mine" and both["said"]["name"] == "scan one.TIF"
        assert {key: both["found"][key] for key in want} == want
        await until(lambda: not list(own_temporary_folder.iterdir()))


@sync
async def test_what_came_inside_is_a_path_too_where_one_is_wanted(
    gateway: ThreadedGateway, tmp_path: Path, own_temporary_folder: Path, protocol: Protocol
) -> None:
    part = {"media_type": "text/csv", "base64": base64.b64encode(b"a,b").decode(), "name": "small.csv"}
    url = "data:text/plain;base64," + base64.b64encode(b"a url").decode()
    large = {**part, "base64": base64.b64encode(DATA).decode()}
    large_url = "data:image/png;base64," + large["base64"]
    here = tmp_path / "here.txt"
    here.write_text("here")
    async with joined(gateway, tmp_path / "vault", protocol=protocol) as host:
        for value, size in ((part, 3), (url, 5), (large, len(DATA)), (large_url, len(DATA)), (str(here), 4)):
            found = await called(gateway, host, "by_path", file=value)
            assert found["size"] == size
        files = await called(gateway, host, "nested", files=[part, large, large, str(here)], more={"deep": [large]})
        assert [each["size"] for each in files] == [3, len(DATA), len(DATA), 4, len(DATA)]
        assert files[1]["path"] == files[2]["path"] == files[4]["path"]  # fetched once
        # A data: URL is text again where text is wanted.
        text = await called(gateway, host, "by_text", text=large_url)
        assert text == {"chars": len(large_url), "head": large_url[:30], "sha256": digest(DATA)}
        assert (await called(gateway, host, "by_bytes", data=large_url))["sha256"] == digest(DATA)
        broken = await answered(gateway, host, "by_path", file={**part, "base64": "!!"})
        assert broken["success"] is False and "'small.csv' in parameter 'file' can't be used" in broken["error"]
        await until(lambda: not list(own_temporary_folder.iterdir()))


@sync
async def test_other_bytes_than_were_kept(gateway: ThreadedGateway, tmp_path: Path, protocol: Protocol) -> None:
    ran: list[Path] = []

    def look(file: Path) -> None:
        ran.append(file)

    async with joined(gateway, tmp_path / "vault", protocol=protocol, capabilities=[look]) as host:
        reference = await kept(gateway, DATA)
        [place] = kept_files(gateway)
        place.write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
        answer = await answered(gateway, host, "look", file=reference)
        assert answer["success"] is False and "SHA-256 differ" in answer["error"]
        assert "\n" not in answer["error"] and not ran


@sync
async def test_a_file_too_large_for_memory_must_be_a_path(
    gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("suzent_jupyter.node.local_file.MEMORY_BYTES", 100_000)
    async with joined(gateway, tmp_path / "vault") as host:
        reference = await kept(gateway, DATA)
        answer = await answered(gateway, host, "by_bytes", data=reference)
        assert answer["success"] is False and "declared as Path" in answer["error"]
        assert (await called(gateway, host, "by_path", file=reference))["size"] == len(DATA)


@sync
async def test_an_address_whose_time_is_over(make_gateway: MakeGateway, tmp_path: Path, protocol: Protocol) -> None:
    gateway = make_gateway(limits={"artifact_ttl": 0.5})
    async with joined(gateway, tmp_path / "vault", protocol=protocol) as host, gateway.http(headers={}) as http:
        reference = await kept(gateway, DATA)
        fetcher = host.fetcher
        address = fetcher.address(reference["url"])
        async with asyncio.timeout(20):
            while (await http.get(address)).status_code != 404:
                await asyncio.sleep(0.02)
        with pytest.raises(ParameterError, match="not good any more") as caught:
            await fetch(fetcher, tmp_path / "file", url=reference["url"])
        assert caught.value.code == "artifact_unknown" and not (tmp_path / "file").exists()
        assert (await answered(gateway, host, "by_path", file=reference))["code"] == "artifact_unknown"


class Held:
    """Sends the first piece of a kept file, and the rest when it is let go."""

    def __init__(self, gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = False
        self._let = gateway.call(asyncio.Event)
        self._gateway = gateway
        original = artifacts_module.Reading.__anext__
        held = self

        async def piece(reading: Any) -> bytes:
            if held.begun:
                await held._let.wait()
            held.begun = True
            return await original(reading)

        monkeypatch.setattr(artifacts_module.Reading, "__anext__", piece)

    def let_go(self) -> None:
        self._gateway.call(self._let.set)


@sync
async def test_a_device_that_goes_during_the_fetch(
    gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_temporary_folder: Path,
    protocol: Protocol,
) -> None:  # fmt: skip
    held = Held(gateway, monkeypatch)
    async with joined(gateway, tmp_path / "vault", protocol=protocol) as host:
        reference = await kept(gateway, os.urandom(3 * MIB))
        call = asyncio.create_task(answered(gateway, host, "by_path", file=reference))
        await until(lambda: held.begun and list(own_temporary_folder.glob("*/*")))
        host.stop()
        assert (await call)["code"] == "node_disconnected"
        await until(lambda: not list(own_temporary_folder.iterdir()))
        held.let_go()


@sync
async def test_a_call_whose_time_is_over_during_the_fetch(
    gateway: ThreadedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_temporary_folder: Path,
    protocol: Protocol,
) -> None:  # fmt: skip
    held = Held(gateway, monkeypatch)
    async with joined(gateway, tmp_path / "vault", protocol=protocol) as host, gateway.http() as http:
        reference = await kept(gateway, os.urandom(3 * MIB))
        body = {"command": "by_path", "params": {"file": reference}, "timeout": 1}
        assert (await http.post(f"/nodes/{host.node_id}/invoke", json=body)).json()["code"] == "deadline"
        await until(lambda: not list(own_temporary_folder.iterdir()))
        held.let_go()
        assert (await called(gateway, host, "by_path", file=reference))["size"] == 3 * MIB  # and it works on


@sync
async def test_progress_is_told(gateway: ThreadedGateway, tmp_path: Path) -> None:
    from suzent_jupyter.kernel import Gateway

    reports: list[Any] = []
    async with joined(gateway, tmp_path / "vault") as host:
        reference = await kept(gateway, os.urandom(20 * MIB), name="film.mp4")
        with Gateway(gateway.url, gateway.token) as gw:
            await gw.ainvoke(str(host.node_id), "by_path", {"file": reference}, on_progress=reports.append)
        assert reports and reports[0].message == "Fetching 'film.mp4'" and reports[-1].fraction == 1.0


@sync
async def test_through_jupyters_base_url(
    start_jupyter: Callable[..., JupyterServer], tmp_path: Path, protocol: Protocol
) -> None:
    server = await asyncio.to_thread(start_jupyter, base_url="/user/ada/")
    async with joined(server, tmp_path / "vault", protocol=protocol, url=server.mount) as host:
        assert "/user/ada/suzent/ws/" in host.url
        reference = await kept(server, DATA)
        assert (await called(server, host, "by_path", file=reference))["sha256"] == digest(DATA)


@sync
async def test_through_tls_with_a_pin(make_gateway: MakeGateway, tmp_path: Path, protocol: Protocol) -> None:
    gateway = make_gateway(tls="auto", tls_port=0)
    url = f"https://127.0.0.1:{gateway.service.tls_port}"
    async with joined(gateway, tmp_path / "vault", protocol=protocol, url=url, pin=gateway.service.pin) as host:
        assert host.url.startswith("wss:")
        reference = await kept(gateway, DATA)
        assert (await called(gateway, host, "by_path", file=reference))["sha256"] == digest(DATA)


@sync
async def test_the_command_lines_device(gateway: ThreadedGateway, tmp_path: Path) -> None:
    module = tmp_path / "lab.py"
    module.write_text(
        "import hashlib\nfrom pathlib import Path\nfrom suzent_jupyter import capability\n"
        "@capability\ndef sum_of(file: Path) -> list:\n"
        "    return [hashlib.sha256(file.read_bytes()).hexdigest(), str(file)]\n"
    )
    command = [sys.executable, "-m", "suzent_jupyter.cli", "node", "host", "--module", str(module), "--no-builtin"]
    command += ["--json", "--name", "Far"]
    env = {**os.environ, "SUZENT_DATA_DIR": str(tmp_path / "vault"), "TMPDIR": str(tmp_path / "temporary")}
    process = await asyncio.create_subprocess_exec(
        *command, "--url", gateway.url, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while True:
                line = json.loads(await process.stdout.readline())
                if line["status"] == "pending":
                    await gateway.approve(line["pairing_code"])
                if line["status"] == "connected":
                    break
        reference = await kept(gateway, DATA, name="x.bin")
        async with gateway.http() as http:
            body = {"command": "sum_of", "params": {"file": reference}}
            sha256, path = (await http.post("/nodes/Far/invoke", json=body)).json()["result"]
        assert sha256 == digest(DATA)
        await until(lambda: not Path(path).parent.exists())
    finally:
        process.terminate()
        await process.wait()


# -- servers that are none of ours


class Server:
    """Answers every request with the same words, and remembers what was asked."""

    def __init__(self, *answer: bytes, hold: bool = False) -> None:
        self.asked: list[bytes] = []
        self.port = 0
        self._answer = answer
        self._hold = hold

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            for piece in self._answer:
                writer.write(piece)
                await writer.drain()
            if self._hold:
                await reader.read()
        writer.close()


@asynccontextmanager
async def served(*answer: bytes, hold: bool = False, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(*answer, hold=hold)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def ok(data: bytes, *more: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", *(more or (f"Content-Length: {len(data)}",)), "", ""]
    return "\r\n".join(lines).encode() + data


def fetcher_of(port: int, path: str = "", scheme: str = "ws", **options: Any) -> Fetcher:
    url = f"{scheme}://127.0.0.1:{port}{path}/ws/node?x=1"
    return Fetcher(url, Trust(url, **options))


URL = "/artifacts/af_1?expires=9&signature=ab"


async def fetch(fetcher: Fetcher, path: Path, data: bytes = DATA, url: str = URL, **vouched: Any) -> list[int]:
    told: list[int] = []
    await fetcher.fetch(fetcher.address(url, **vouched), path, len(data), digest(data), told.append)
    return told


CORRUPT = "artifact_corrupt"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ok(DATA[::-1]), CORRUPT),
        (ok(DATA + b"!"), CORRUPT),
        (ok(DATA[:-1]), CORRUPT),
        (ok(DATA + b"!", "Connection: close"), CORRUPT),
        (ok(DATA[:-1], "Connection: close"), CORRUPT),
        (ok(DATA[:1000], f"Content-Length: {len(DATA)}"), "artifact_store_failed"),  # it hung up
        (ok(b"", f"Content-Length: {2**40}"), CORRUPT),
        (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", "artifact_store_failed"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "artifact_unknown"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "artifact_unknown"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "artifact_store_failed"),
        (b"SSH-2.0-x\r\n", "artifact_store_failed"),
        (b"", "artifact_store_failed"),
    ],
)
@sync
async def test_a_server_that_says_something_else(tmp_path: Path, answer: bytes, code: str) -> None:
    async with served(answer) as server:
        with pytest.raises(ParameterError) as caught:
            await fetch(fetcher_of(server.port), tmp_path / "file")
        assert caught.value.code == code
        assert len(server.asked) == 1  # no redirect was followed


@sync
async def test_what_is_sent_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    caplog.set_level(0)
    async with served(ok(DATA)) as server:
        told = await fetch(fetcher_of(server.port, "/user/ada/suzent"), tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == DATA and told[-1] == len(DATA)
        [asked] = server.asked
        assert asked.startswith(f"GET /user/ada/suzent{URL} HTTP/1.1\r\n".encode())
        names = {line.partition(b":")[0].lower() for line in asked.splitlines()[1:] if line}
        assert names == {b"host", b"accept", b"accept-encoding", b"user-agent", b"connection"}
        assert "signature=ab" not in caplog.text


@sync
async def test_chunks_without_a_length(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(head, b"%x\r\n" % len(DATA), DATA, b"\r\n0\r\n\r\n") as server:
        await fetch(fetcher_of(server.port), tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == DATA


@sync
async def test_a_key_that_is_not_the_pinned_one(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key_file)
    async with served(ok(DATA), context=context) as server:
        vault = TokenVault(tmp_path / "vault", keyring=False)
        with pytest.raises(ParameterError, match="another key"):
            await fetch(fetcher_of(server.port, scheme="wss", pin="A" * 43, vault=vault), tmp_path / "a")
        with pytest.raises(ParameterError, match="no authority"):
            await fetch(fetcher_of(server.port, scheme="wss", vault=vault), tmp_path / "b")
        assert not server.asked
        await fetch(fetcher_of(server.port, scheme="wss", pin=made.pin, vault=vault), tmp_path / "c")
        # The gateway's pin says nothing of a store elsewhere.
        elsewhere = f"https://127.0.0.1:{server.port}/bucket/x"
        with pytest.raises(ParameterError, match="no authority"):
            await fetch(
                fetcher_of(9, scheme="wss", pin=made.pin, vault=vault),
                tmp_path / "d",
                url=elsewhere,
                vouched=[elsewhere],
            )


@pytest.mark.parametrize(
    "url",
    [
        "/nodes", "/artifacts/", "/artifacts/../nodes", "/artifacts/a/../../nodes", "/artifacts/a%2fb", "",
        "//evil/artifacts/a", "/artifacts/a?x=1#y", "/artifacts/a?x=/../..", "/artifacts/a b", "/artifacts/a@evil",
        "/artifacts/a\r\nX: y", "artifacts/a", "\\\\evil\\artifacts\\a", "file:///etc/passwd", "https://evil/x",
        "http://127.0.0.1:1/artifacts/a", "data:text/plain;base64,aGk=", "/artifacts/" + "a" * 65,
    ],
)  # fmt: skip
def test_addresses_that_are_not_the_gateways(url: str) -> None:
    assert fetcher_of(1).address(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h/x",
        "http://user:pw@h/x",
        "http://h:0/x",
        "http:///x",
        "http://h/a b\n",
        "http://[",
        "x",
    ],
)
def test_addresses_that_nobody_can_vouch_for(url: str) -> None:
    assert fetcher_of(1).address(url, [url]) == ""
    assert fetcher_of(1).address("https://h/x?y", ["https://h/x?y"]) == "https://h/x?y"
    assert fetcher_of(1).address("https://h/x?z", ["https://h/x?y"]) == ""


@sync
async def test_only_the_gateway_can_send_a_device_elsewhere(
    make_gateway: MakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Protocol
) -> None:
    with s3_server(tmp_path / "s3.log") as store:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        gateway = make_gateway(artifact_url=f"s3://{BUCKET}/below")
        async with joined(gateway, tmp_path / "vault", protocol=protocol) as host, served(ok(DATA)) as other:
            reference = await kept(gateway, DATA)
            assert reference["url"].startswith(store.url)
            assert (await called(gateway, host, "by_path", file=reference))["sha256"] == digest(DATA)
            part = {"media_type": "image/png", "base64": base64.b64encode(DATA[::-1]).decode()}
            assert (await called(gateway, host, "by_bytes", data=part))["sha256"] == digest(DATA[::-1])
            # A caller's own address is data, however it is written; nothing of it is fetched.
            url = f"http://127.0.0.1:{other.port}/x"
            foreign = {**reference, "url": url, "sha256": digest(DATA[1:]), "size": len(DATA) - 1}
            raw = json.dumps({"command": "by_bytes", "params": {"data": foreign}, "artifacts": [url]})
            for body in (
                raw,
                raw.replace("sha256", "sha25\\u0036"),
                raw.replace('"data": {', f'"artifacts": ["{url}"], "data": {{'),
            ):
                async with gateway.http() as http:
                    answer = (await http.post(f"/nodes/{host.node_id}/invoke", content=body)).json()
                assert answer.get("success") is not True
            assert not other.asked


@sync
async def test_what_a_killed_device_left_is_swept(
    gateway: ThreadedGateway, tmp_path: Path, own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = next(number for number in range(4_000_000, 5_000_000) if not psutil.pid_exists(number))
    machine = call_files_module._this_machine()
    left, ours, foreign = (
        own_temporary_folder / f"suzent-call-{where}-{number}-x"
        for where, number in ((machine, dead), (machine, os.getpid()), ("0" * 8, dead))
    )
    for folder in (left, ours, foreign):
        folder.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    link = own_temporary_folder / f"suzent-call-{machine}-{dead}-link"
    link.symlink_to(target)
    monkeypatch.setattr(call_files_module, "_swept", [])
    async with joined(gateway, tmp_path / "vault") as host:
        await called(gateway, host, "by_path", file=await kept(gateway, DATA))
    assert not left.exists()
    assert ours.exists() and foreign.exists() and link.is_symlink() and target.exists()


def test_nothing_listens_there(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        fetcher = fetcher_of(probe.getsockname()[1])
        with pytest.raises(ParameterError, match="does not send it") as caught:
            asyncio.run(fetch(fetcher, tmp_path / "file"))
    assert caught.value.code == "artifact_store_failed"
