"""A store that can't be read is never written to; the gateway works on without keeping anything, and says so."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.calls import error_of
from support.device import BareDevice
from support.gateways import ThreadedGateway

MakeGateway = Callable[..., ThreadedGateway]


def sound(path: Path, make_gateway: MakeGateway) -> None:
    """Leave a database with a device in it."""
    gateway = make_gateway(path.parent)

    async def work() -> None:
        async with BareDevice(gateway.node_url) as device:
            await gateway.pair(device)

    asyncio.run(work())
    gateway.stop()


def garbage(path: Path, _: MakeGateway) -> None:
    path.write_bytes(b"this is no database " * 500)


def truncated(path: Path, make_gateway: MakeGateway) -> None:
    sound(path, make_gateway)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zeroed(path: Path, make_gateway: MakeGateway) -> None:
    sound(path, make_gateway)
    data = bytearray(path.read_bytes())
    data[4096:12288] = bytes(8192)
    path.write_bytes(data)


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def newer(path: Path, make_gateway: MakeGateway) -> None:
    sound(path, make_gateway)
    execute(path, "PRAGMA user_version=99")


def newer_after_a_crash(path: Path, make_gateway: MakeGateway) -> None:
    """What says that it is newer stands in the write-ahead log alone."""
    sound(path, make_gateway)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=99")
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{path}{suffix}.copy")
    for suffix in ("", "-wal"):
        shutil.move(f"{path}{suffix}.copy", f"{path}{suffix}")


def directory(path: Path, _: MakeGateway) -> None:
    path.mkdir()


def others(path: Path, _: MakeGateway) -> None:
    execute(path, "CREATE TABLE bookmarks (url TEXT)")


def others_with_devices(path: Path, _: MakeGateway) -> None:
    execute(path, "CREATE TABLE devices (name TEXT)", "INSERT INTO devices VALUES ('printer')")


def others_of_our_version(path: Path, make_gateway: MakeGateway) -> None:
    others_with_devices(path, make_gateway)
    execute(path, "PRAGMA user_version=1")


CASES = [
    garbage,
    truncated,
    zeroed,
    newer,
    newer_after_a_crash,
    directory,
    others,
    others_with_devices,
    others_of_our_version,
]


def content(path: Path) -> tuple[Any, bytes]:
    """Return the database and its write-ahead log; an empty log is none."""
    wal = path.with_name(path.name + "-wal")
    return path.is_dir() or path.read_bytes(), wal.read_bytes() if wal.exists() else b""


@pytest.mark.parametrize("spoil", CASES)
def test_it_is_left_alone_and_said(
    make_gateway: MakeGateway, tmp_path: Path, spoil: Callable[[Path, MakeGateway], None]
) -> None:
    path = tmp_path / "spoilt" / "suzent.db"
    path.parent.mkdir(mode=0o700)
    spoil(path, make_gateway)
    before = content(path)
    gateway = make_gateway(path.parent)
    asyncio.run(works_without_keeping(gateway, str(path)))
    gateway.stop()
    assert content(path) == before


async def works_without_keeping(gateway: ThreadedGateway, path: str) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        code = await device.code()
        config = (await http.get("/nodes/config")).json()
        assert path in config["store"]
        assert (await http.get("/nodes")).json()["count"] == 0
        for _ in range(2):
            answer = await http.post(f"/nodes/pending/{code}/approve")
            assert error_of(answer) == (503, "store_unreadable")
            assert (await http.get("/nodes/pending")).json()["count"] == 1
        for url, body in (
            ("/nodes/host-token", {}),
            ("/nodes/config", {"display_name": "Other"}),
            ("/nodes/connect", {"gateway_url": "ws://127.0.0.1:9"}),
        ):
            assert error_of(await http.post(url, json=body)) == (503, "store_unreadable")
        assert error_of(await http.get("/audit")) == (503, "store_unreadable")
        assert (await http.get("/nodes/config")).json()["display_name"] == "Test gateway"
        # Denying keeps nothing, so it works.
        assert (await http.post(f"/nodes/pending/{code}/deny")).status_code == 200
        await device.closed()


def test_a_data_dir_that_can_not_be_made(make_gateway: MakeGateway, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    gateway = make_gateway(tmp_path / "file" / "data")
    asyncio.run(works_without_keeping(gateway, str(tmp_path / "file" / "data")))
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_can_not_be_written(make_gateway: MakeGateway, tmp_path: Path) -> None:
    path = tmp_path / "data" / "suzent.db"
    path.parent.mkdir()
    sound(path, make_gateway)
    before = content(path)
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        gateway = make_gateway(path.parent)
        asyncio.run(works_without_keeping(gateway, str(path)))
        gateway.stop()
    finally:
        path.parent.chmod(0o700)
    assert content(path) == before


def test_an_empty_file_is_a_new_store(make_gateway: MakeGateway, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "suzent.db").touch()
    gateway = make_gateway(tmp_path / "data")

    async def work() -> None:
        async with BareDevice(gateway.node_url) as device:
            await gateway.pair(device)

    asyncio.run(work())
