"""A file of an older version is upgraded when it is opened, with everything that stands in it."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.schema import SCHEMA_VERSION, metadata, tables_of

MakeGateway = Callable[..., ThreadedGateway]

# What version 1 wrote.
VERSION_1 = """
CREATE TABLE audit (id INTEGER NOT NULL, at VARCHAR NOT NULL, account VARCHAR NOT NULL, actor VARCHAR NOT NULL,
  action VARCHAR NOT NULL, node_id VARCHAR NOT NULL, node VARCHAR NOT NULL, command VARCHAR NOT NULL,
  outcome VARCHAR NOT NULL, duration_ms FLOAT, origin JSON NOT NULL, detail JSON NOT NULL, PRIMARY KEY (id));
CREATE TABLE devices (device_id VARCHAR NOT NULL, digest BLOB NOT NULL, display_name VARCHAR NOT NULL,
  platform VARCHAR NOT NULL, scope VARCHAR NOT NULL, status VARCHAR NOT NULL, token_hint VARCHAR NOT NULL,
  account VARCHAR NOT NULL, org VARCHAR NOT NULL, node_identity VARCHAR NOT NULL, callback_url VARCHAR NOT NULL,
  approved JSON NOT NULL, sharing VARCHAR NOT NULL, approved_at VARCHAR NOT NULL, last_seen VARCHAR NOT NULL,
  trigger_count INTEGER NOT NULL, last_triggered_at VARCHAR NOT NULL, PRIMARY KEY (device_id), UNIQUE (digest));
CREATE TABLE settings (name VARCHAR NOT NULL, value JSON, PRIMARY KEY (name));
INSERT INTO settings VALUES ('display_name', '"Old name"');
INSERT INTO audit VALUES (1, '2024-05-01T10:00:00.000+00:00', 'ada', 'user', 'device.approve', 'd1', 'Pi', '', 'ok',
  NULL, '{}', '{}');
PRAGMA user_version=1;
"""
TOKEN = "szt_" + "a" * 43


def old_file(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    path = directory / "suzent.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)
        connection.execute(
            "INSERT INTO devices VALUES ('d1', ?, 'Pi', 'linux', 'node', 'active', 'szt_…', 'ada', '', '', '', "
            "'[\"echo\"]', 'account', '', '', 0, '')",
            (hashlib.sha256(TOKEN.encode()).digest(),),
        )
        connection.commit()
    return path


def facts(path: Path) -> tuple[int, set[str]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        return connection.execute("PRAGMA user_version").fetchone()[0], tables


def test_every_table_has_its_version() -> None:
    assert tables_of(SCHEMA_VERSION) == set(metadata.tables)
    assert tables_of(1) == {"audit", "devices", "settings"}


@sync
async def test_from_version_1(make_gateway: MakeGateway, tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    gateway = await asyncio.to_thread(make_gateway, path.parent)
    async with gateway.http() as http, BareDevice(gateway.node_url, "Pi", device_token=TOKEN) as device:
        assert (await device.joined())["node_id"] == "d1"
        config = (await http.get("/nodes/config")).json()
        assert (config["store"], config["display_name"]) == ("ok", "Old name")
        assert (await http.get("/nodes/connections")).json()["connections"] == []
        audit = (await http.get("/audit")).json()["entries"]
        assert audit[-1]["action"] == "device.approve"
    await asyncio.to_thread(gateway.stop)
    assert facts(path) == (SCHEMA_VERSION, set(metadata.tables))
    # The new table is as a fresh file has it.
    fresh = await asyncio.to_thread(make_gateway, tmp_path / "fresh")
    await asyncio.to_thread(fresh.stop)
    assert columns(path) == columns(tmp_path / "fresh" / "suzent.db")


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"PRAGMA table_info({table})").fetchall() for table in sorted(metadata.tables)
        }


def test_a_file_that_lacks_its_versions_tables_is_another_programs(make_gateway: MakeGateway, tmp_path: Path) -> None:
    path = old_file(tmp_path / "odd")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=2")
        connection.commit()
    before = path.read_bytes()
    gateway = make_gateway(path.parent)
    assert "another program" in gateway.service.gateway.store.problem
    gateway.stop()
    assert path.read_bytes() == before
