"""Files are given to whom they are for, as long as they are what they were, and no others to anybody."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.grants import granted
from support.running import sync, until

from suzent_jupyter.gateway.peer_files import FileOnDisk, PeerFile

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 100


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of temporary files, for this test."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def offered(gateway: ThreadedGateway, path: Path, **options: Any) -> tuple[PeerFile, str]:
    """Offer a file as an attachment; returns the offer and its token."""
    options = {"name": path.name, "media_type": "image/png", "account": "ada", **options}
    files = gateway.service.gateway.peer_files
    offer: tuple[PeerFile, str] = gateway.call(lambda: files.offer_transfer(FileOnDisk.look(path), **options))
    return offer


async def fetched(gateway: ThreadedGateway, file_id: str, token: str | None) -> Any:
    async with gateway.http(headers={"Authorization": f"Bearer {token}"} if token else {}) as http:
        return await http.get(f"/nodes/peer-files/{file_id}")


async def snapped(gateway: ThreadedGateway, token: str, *files: Any) -> list[dict[str, Any]]:
    """Have a device name files, and return the results that a peer gets."""
    named: list[Any] = []
    async with BareDevice(gateway.node_url, "Camera", [{"name": "camera.snap"}]) as device:
        await gateway.pair(device)
        device.answer(
            lambda command, params: {"file": named[-1]() if callable(named[-1]) else named[-1], "format": "png"}
        )
        async with gateway.http(headers={"Authorization": f"Bearer {token}"}) as peer:
            results = []
            for file in files:
                named.append(file)
                answer = await peer.post("/nodes/peer-invoke", json={"command": "camera.snap"})
                assert answer.status_code == 200, answer.text
                assert answer.json()["success"]
                results.append(answer.json()["result"])
            return results


@sync
async def test_a_photo_becomes_a_reference_for_its_grant_alone(gateway: ThreadedGateway, temp: Path) -> None:
    device_id, token = await granted(gateway)
    _, other = await granted(gateway, name="Other", addr="", identity="other")

    def take() -> str:
        (temp / "snap.png").write_bytes(PNG)
        return str(temp / "snap.png")

    [result] = await snapped(gateway, token, take)
    assert result["format"] == "png"
    reference = result["file"]
    assert reference["id"].startswith("pf_")
    assert reference["url"] == f"/nodes/peer-files/{reference['id']}"
    assert (reference["name"], reference["media_type"], reference["size"]) == ("snap.png", "image/png", len(PNG))
    assert "token" not in reference
    answer = await fetched(gateway, reference["id"], token)
    assert (answer.status_code, answer.content) == (200, PNG)
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-length"] == str(len(PNG))
    assert answer.headers["content-disposition"] == "attachment; filename=\"snap.png\"; filename*=UTF-8''snap.png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await fetched(gateway, reference["id"], gateway.token)).content == PNG
    for wrong in (other, None, "szt_no", "no"):
        refused = await fetched(gateway, reference["id"], wrong)
        assert (refused.status_code, refused.json()["code"]) == (404, "file_unknown")
    async with gateway.http() as http:
        await http.post(f"/nodes/devices/{device_id}/revoke")
    assert (await fetched(gateway, reference["id"], gateway.token)).status_code == 404


@sync
async def test_a_device_cannot_have_other_files_handed_out(
    gateway: ThreadedGateway, temp: Path, tmp_path: Path
) -> None:
    _, token = await granted(gateway)
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG)
    (temp / "link.png").symlink_to(secret)
    (temp / "text.png").write_bytes(b"BEGIN PRIVATE KEY")
    (temp / "photo.txt").write_bytes(PNG)
    (temp / "folder.png").mkdir()
    os.mkfifo(temp / "pipe.png")
    (temp / "old.png").write_bytes(PNG)
    os.utime(temp / "old.png", (1, 1))
    named: list[Any] = ["/etc/passwd", "~/.ssh/id_rsa", "snap.png", "", "\0", "/proc/self/environ", str(secret)]
    named += [str(temp / name) for name in ("link.png", "text.png", "photo.txt", "folder.png", "pipe.png", "old.png")]
    named += [f"{temp}/../secret.png", f"{temp}/none.png", "x" * 9000]
    for file, result in zip(named, await snapped(gateway, token, *named), strict=True):
        assert result == {"format": "png", "file_error": result["file_error"]}, file
        assert str(tmp_path) not in result["file_error"]
    assert len(gateway.service.gateway.peer_files) == 0


@sync
async def test_a_device_on_another_machine_names_files_of_its_own(gateway: ThreadedGateway, temp: Path) -> None:
    _, token = await granted(gateway)
    photo = temp / "snap.png"
    photo.write_bytes(PNG)
    async with BareDevice(gateway.node_url, "Camera", [{"name": "camera.snap"}]) as device:
        await gateway.pair(device)
        device.answer(lambda command, params: {"file": str(photo)})
        session = gateway.service.gateway.registry.by_id(device.node_id)
        assert session is not None
        session.transport.local = False  # as the transport finds it for any address but loopback
        async with gateway.http(headers={"Authorization": f"Bearer {token}"}) as peer:
            answer = await peer.post("/nodes/peer-invoke", json={"command": "camera.snap"})
    assert list(answer.json()["result"]) == ["file_error"]


@sync
async def test_an_attachment_is_fetched_twice_and_soon(gateway: ThreadedGateway, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"<script>1</script>")
    offer, token = offered(gateway, path, name="../\u202ea\n b\u00e9.html", media_type="text/html; charset=x")
    other, other_token = offered(gateway, path)
    assert (await fetched(gateway, offer.file_id, other_token)).status_code == 404
    assert (await fetched(gateway, other.file_id, token)).status_code == 404
    first = await fetched(gateway, offer.file_id, token)
    assert first.content == b"<script>1</script>"
    assert first.headers["content-type"] == "application/octet-stream"
    disposition = "attachment; filename=\"a b_.html\"; filename*=UTF-8''a%20b%C3%A9.html"
    assert first.headers["content-disposition"] == disposition
    assert (await fetched(gateway, offer.file_id, token)).status_code == 200
    assert (await fetched(gateway, offer.file_id, token)).status_code == 404
    assert (await fetched(gateway, other.file_id, other_token)).status_code == 200


@sync
async def test_a_download_that_breaks_off_counts(gateway: ThreadedGateway, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(30 << 20))
    offer, token = offered(gateway, path)
    url, headers = f"/nodes/peer-files/{offer.file_id}", {"Authorization": f"Bearer {token}"}
    async with gateway.http(headers=headers) as http, http.stream("GET", url) as answer:
        assert len(await anext(answer.aiter_raw())) > 0
    assert (await fetched(gateway, offer.file_id, token)).content == path.read_bytes()
    assert (await fetched(gateway, offer.file_id, token)).status_code == 404


@sync
async def test_a_long_download_is_no_strangers(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    gateway = make_gateway(limits={"request_timeout": 0.5})
    path = tmp_path / "large.bin"
    path.write_bytes(b"x" * (30 << 20))
    offer, token = offered(gateway, path)
    url, headers = f"/nodes/peer-files/{offer.file_id}", {"Authorization": f"Bearer {token}"}
    size = 0
    async with gateway.http(headers=headers) as http, http.stream("GET", url) as answer:
        async for piece in answer.aiter_raw():
            if size == 0:
                await asyncio.sleep(1.5)  # as a slow network would take
            size += len(piece)
    assert size == 30 << 20


@pytest.mark.parametrize("change", ["written", "replaced", "touched", "gone", "a link"])
def test_a_file_that_changed_is_not_served(gateway: ThreadedGateway, tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    offer, token = offered(gateway, path)
    if change == "written":
        path.write_bytes(PNG + b"x")
    elif change == "touched":
        os.utime(path, (1, 1))
    else:
        path.rename(tmp_path / "moved.png")
        if change == "replaced":
            path.write_bytes(PNG)
        elif change == "a link":
            path.symlink_to(tmp_path / "moved.png")
    answer = asyncio.run(fetched(gateway, offer.file_id, token))
    assert (answer.status_code, answer.json()["code"]) == (404, "file_unknown")
    assert len(gateway.service.gateway.peer_files) == 0


@sync
async def test_offers_end_by_themselves(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    gateway = make_gateway(limits={"transfer_ttl": 0.2})
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    offer, token = offered(gateway, path)
    files = gateway.service.gateway.peer_files
    assert len(files) == 1
    await until(lambda: len(files) == 0)
    assert (await fetched(gateway, offer.file_id, token)).status_code == 404


@sync
async def test_one_peer_cannot_push_out_the_files_of_others(gateway: ThreadedGateway, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    files, file = gateway.service.gateway.peer_files, FileOnDisk.look(path)

    def offer(device_id: str) -> PeerFile:
        options = {"account": "ada", "device_id": device_id, "name": "a.png", "media_type": "image/png"}
        made: PeerFile = gateway.call(lambda: files.offer(file, **options))
        return made

    kept = offer("one")
    for number in range(300):
        offer("many" if number < 100 else f"many-{number % 9}")
    assert len(files) <= 256
    assert (await fetched(gateway, kept.file_id, gateway.token)).status_code == 200


@sync
async def test_guessing_tokens_is_slowed_down(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> None:
    gateway = make_gateway(limits={"bad_tokens_shared": 5})
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    offer, token = offered(gateway, path)
    statuses = [(await fetched(gateway, offer.file_id, f"guess-{number}")).status_code for number in range(8)]
    assert statuses[:5] == [404] * 5
    assert statuses[-1] == 429
    assert (await fetched(gateway, offer.file_id, token)).status_code == 200
