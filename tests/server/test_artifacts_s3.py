"""Files kept in an object store: by the S3 protocol, against a real server of it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest
from support.gateways import Process, ThreadedGateway
from support.kept import digest, knowing, part
from support.running import sync, until
from support.s3 import BUCKET, S3Server, s3_server
from support.waiting import wait_for

MIB = 1024 * 1024
MakeGateway = Callable[..., ThreadedGateway]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "s3.log") as server:
        yield server


@pytest.fixture
def s3(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with an empty bucket, as the environment of this process names it."""
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    client = running.client()
    for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    for key in running.objects():
        client.delete_object(Bucket=BUCKET, Key=key)
    return running


async def posted(gateway: Any, data: bytes) -> dict[str, Any]:
    async with gateway.http() as http:
        answer = await http.post("/artifacts", content=data)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.mark.parametrize("size", [100, 9 * MIB, 20_000_000])
@sync
async def test_a_file_goes_there_and_can_be_fetched_from_there(
    make_gateway: MakeGateway, s3: S3Server, size: int
) -> None:
    gateway = make_gateway(artifact_url=f"s3://{BUCKET}/below")
    data = os.urandom(size)
    body = await posted(gateway, data)
    reference = body["artifact"]
    assert (body["created"], reference["size"], reference["sha256"]) == (True, size, digest(data))
    url = urlsplit(reference["url"])
    assert f"http://{url.netloc}" == s3.url
    query = parse_qs(url.query)
    assert any("signature" in name.casefold() for name in query), query
    assert "secret-of-the-test" not in reference["url"]
    async with httpx.AsyncClient(timeout=60) as http:  # no token, and not by way of the gateway
        answer = await http.get(reference["url"])
    assert (answer.status_code, answer.content) == (200, data)
    [key] = s3.objects()
    assert key.startswith("below/")
    again = await posted(gateway, data)
    assert (again["created"], again["artifact"]["sha256"]) == (False, digest(data))
    await until(lambda: len(s3.objects()) == 1)
    assert s3.unfinished() == []


@sync
async def test_calls_hand_on_what_is_there(make_gateway: MakeGateway, s3: S3Server) -> None:
    gateway = make_gateway(artifact_url=f"s3://{BUCKET}")
    data = os.urandom(70_000)
    async with (
        knowing(gateway) as scope,
        knowing(gateway, "Plain", features=[]) as plain,
        gateway.http() as http,
        httpx.AsyncClient() as anyone,
    ):
        for device in (scope, plain):
            await gateway.pair(device)
            device.answer()
        body = {"command": "echo", "params": {"image": part(data, name="a.png")}}
        reference = (await http.post("/nodes/Scope/invoke", json=body)).json()["result"]["image"]
        assert (await anyone.get(reference["url"])).content == data
        body = {"command": "echo", "params": {"image": reference}}
        answer = await http.post("/nodes/Plain/invoke", json=body)
        assert answer.json()["result"] == {"image": part(data, name="a.png")}
        broken = {"media_type": "image/png", "base64": part(data)["base64"][:-2] + "!!"}
        answer = await http.post("/nodes/Scope/invoke", json={"command": "echo", "params": {"image": broken}})
        assert answer.json()["code"] == "invalid_params"
        await until(lambda: len(s3.objects()) == 1)


@sync
async def test_files_go_there_too_when_their_time_is_over(make_gateway: MakeGateway, s3: S3Server) -> None:
    others = s3.client().put_object(Bucket=BUCKET, Key="theirs/file", Body=b"not ours")
    assert others
    gateway = make_gateway(artifact_url=f"s3://{BUCKET}", limits={"artifact_ttl": 2.0})
    reference = (await posted(gateway, b"x" * 1000))["artifact"]
    assert len(s3.objects()) == 2
    expires = parse_qs(urlsplit(reference["url"]).query)
    assert {"1", "2"} & {values[0] for values in expires.values()} or any("Expires" in name for name in expires)
    await until(lambda: s3.objects() == ["theirs/file"], 20)


@sync
async def test_two_gateways_share_a_bucket(make_gateway: MakeGateway, s3: S3Server) -> None:
    one = make_gateway(artifact_url=f"s3://{BUCKET}")
    reference = (await posted(one, b"x" * 1000))["artifact"]
    two = make_gateway(artifact_url=f"s3://{BUCKET}")
    await posted(two, b"x" * 1000)
    assert len(s3.objects()) == 2
    async with httpx.AsyncClient() as http:
        assert (await http.get(reference["url"])).content == b"x" * 1000


@sync
async def test_a_store_that_is_down_or_lost_is_said_in_time(
    make_gateway: MakeGateway, s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with s3_server(tmp_path / "own.log") as own:
        for name, value in own.env.items():
            monkeypatch.setenv(name, value)
        gateway = make_gateway(artifact_url=f"s3://{BUCKET}")
        await posted(gateway, b"x" * 1000)
        missing = make_gateway(artifact_url="s3://no-such-bucket")
        async with missing.http() as http:
            answer = await http.post("/artifacts", content=b"x" * 1000)
            assert (answer.status_code, answer.json()["code"]) == (503, "artifact_store_failed")
    async with knowing(gateway) as device, gateway.http() as http:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params))
        begun = time.monotonic()
        body = {"command": "echo", "params": {"image": part(os.urandom(70_000))}, "timeout": 100}
        answer = await http.post("/nodes/Scope/invoke", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "artifact_store_failed")
        assert time.monotonic() - begun < 60
        assert got == []
        for secret in ("key-of-the-test", str(own.port)):
            assert secret not in answer.text


def test_memory_stays_flat_and_a_kill_leaves_nothing(start_process: Callable[..., Process], s3: S3Server) -> None:
    arguments = (f"--StandaloneGateway.artifact_url=s3://{BUCKET}",)
    gateway = start_process(*arguments)
    process = psutil.Process(gateway.process.pid)
    block, most = os.urandom(MIB), 0
    with httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=60) as http:
        http.post("/artifacts", content=b"x" * 100_000).raise_for_status()
        before = process.memory_info().rss

        def body() -> Any:
            nonlocal most
            for at in range(200):
                yield at.to_bytes(8, "big") + block[8:]
                most = max(most, process.memory_info().rss)

        reference = http.post("/artifacts", content=body()).json()["artifact"]
        assert reference["size"] == 200 * MIB
    assert most - before < 100 * MIB, f"{(most - before) / MIB:.0f} MiB more"
    keys = s3.objects()
    assert len(keys) == 2
    with socket.create_connection(("127.0.0.1", urlsplit(gateway.url).port or 0)) as half:
        head = f"POST /artifacts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token}\r\n"
        half.sendall(f"{head}Content-Length: 90000000\r\n\r\n".encode() + os.urandom(20 * MIB))
        wait_for(lambda: len(s3.unfinished()) == 1)
        gateway.kill()
    assert len(s3.unfinished()) == 1
    start_process(*arguments)
    wait_for(lambda: s3.unfinished() == [])
    assert s3.objects() == keys
