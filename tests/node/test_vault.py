from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from suzent_jupyter.node import TokenVault, VaultError
from suzent_jupyter.node import vault as vault_module


@pytest.fixture
def vault(tmp_path: Path) -> TokenVault:
    return TokenVault(tmp_path / "data", keyring=False)


def again(vault: TokenVault) -> TokenVault:
    return TokenVault(vault.directory, keyring=False)


def test_kept_changed_and_forgotten(vault: TokenVault) -> None:
    assert vault.get("a") is None
    vault.set("a", "szt_1")
    vault.set("b", "ü😀")
    vault.set("a", "szt_2")
    assert again(vault).get("a") == "szt_2" and again(vault).get("b") == "ü😀"
    vault.delete("a")
    vault.delete("never")
    assert again(vault).get("a") is None and again(vault).get("b") == "ü😀"


def test_setdefault_makes_once(vault: TokenVault) -> None:
    assert vault.setdefault("id", lambda: "one") == "one"
    assert again(vault).setdefault("id", lambda: "two") == "one"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_nobody_else_can_read_it_and_it_is_not_in_clear(vault: TokenVault) -> None:
    vault.set("key", "szt_secret")
    assert stat.S_IMODE(vault.directory.stat().st_mode) == 0o700
    for path in vault.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert b"szt_secret" not in path.read_bytes()
    assert sorted(path.name for path in vault.directory.iterdir()) == ["vault.bin", "vault.key", "vault.lock"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
@pytest.mark.parametrize("name", ["vault.bin", "vault.key"])
def test_a_file_others_could_read_is_closed(vault: TokenVault, name: str, caplog: pytest.LogCaptureFixture) -> None:
    vault.set("key", "szt_secret")
    path = vault.directory / name
    path.chmod(0o644)
    assert again(vault).get("key") == "szt_secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert again(vault).get("key") == "szt_secret"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} could be read by other users; it can't be any more."
    ]


@pytest.mark.parametrize("damage", ["cut", "other key", "no key", "garbage"])
def test_what_can_not_be_read_is_never_overwritten(
    vault: TokenVault, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    vault.set("a", "szt_1")
    file, key = vault.directory / "vault.bin", vault.directory / "vault.key"
    match damage:
        case "cut":
            file.write_bytes(file.read_bytes()[:40])
        case "garbage":
            file.write_bytes(b"\x00" * 100)
        case "other key":
            key.write_bytes(
                vault_module.TokenVault(vault.directory.parent / "x", keyring=False).directory.name.encode()
            )
        case "no key":
            key.unlink()
    before = file.read_bytes()
    with pytest.raises(VaultError, match="can't be read"):
        again(vault).get("a")
    with pytest.raises(VaultError, match="can't be read"):
        again(vault).delete("a")
    assert file.read_bytes() == before
    with caplog.at_level(logging.WARNING):
        again(vault).set("b", "szt_2")
    assert again(vault).get("b") == "szt_2"
    [aside] = vault.directory.glob("vault.bin.unreadable-*")
    assert aside.read_bytes() == before and "could not be read" in caplog.text


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_we_may_not_read_stays(vault: TokenVault) -> None:
    vault.set("a", "1")
    (vault.directory / "vault.bin").chmod(0)
    with pytest.raises(VaultError, match="can't be read"):
        again(vault).set("b", "2")
    (vault.directory / "vault.bin").chmod(0o600)
    assert again(vault).get("a") == "1"


def test_a_disk_that_fails_while_reading_is_no_reason_to_start_anew(
    vault: TokenVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.set("a", "1")

    def fail(self: Path) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        with pytest.raises(VaultError, match="Input/output error"):
            vault.set("b", "2")
    assert vault.get("a") == "1" and vault.get("b") is None


def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VaultError, match="can't be used"):
        TokenVault(tmp_path / "file" / "data", keyring=False).get("a")


def _write(directory: str, prefix: str, count: int) -> None:
    for number in range(count):
        TokenVault(directory, keyring=False).set(f"{prefix}-{number}", str(number))


def test_processes_that_write_at_once_lose_nothing(vault: TokenVault) -> None:
    context = multiprocessing.get_context("fork" if os.name != "nt" else "spawn")
    writers = [context.Process(target=_write, args=(str(vault.directory), prefix, 12)) for prefix in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert all(vault.get(f"{prefix}-{number}") == str(number) for prefix in "ab" for number in range(12))


def test_threads_that_write_at_once_lose_nothing(vault: TokenVault) -> None:
    threads = [threading.Thread(target=_write, args=(str(vault.directory), prefix, 8)) for prefix in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(vault.get(f"{prefix}-{number}") == str(number) for prefix in "abc" for number in range(8))


class Keyring:
    """A keyring in memory that can break."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def _check(self) -> None:
        if self.broken:
            raise RuntimeError("locked")

    def get_password(self, service: str, name: str) -> str | None:
        self._check()
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self._check()
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        self._check()
        del self.kept[service, name]


def test_a_keyring_is_used_where_there_is_one(tmp_path: Path) -> None:
    keyring = Keyring()
    vault = TokenVault(tmp_path, keyring=keyring)
    vault.set("a", "1")
    assert vault.get("a") == "1" and list(keyring.kept.values()) == ["1"]
    assert not (tmp_path / "vault.bin").exists()
    vault.delete("a")
    assert vault.get("a") is None and not keyring.kept


def test_a_keyring_that_fails_falls_back_to_the_file_and_the_newest_counts(tmp_path: Path) -> None:
    keyring = Keyring()
    vault = TokenVault(tmp_path, keyring=keyring)
    vault.set("a", "old")
    keyring.broken = True
    vault.set("a", "new")
    keyring.broken = False
    assert vault.get("a") == "new"
    vault.set("a", "newest")
    assert vault.get("a") == "newest" and list(keyring.kept.values()) == ["newest"]
    assert TokenVault(tmp_path, keyring=False).get("a") is None


def test_a_keyring_that_waits_for_a_person_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "_KEYRING_PATIENCE", 0.05)
    asked = threading.Event()

    class Waiting(Keyring):
        def get_password(self, service: str, name: str) -> str | None:
            asked.wait(10)
            return None

    vault = TokenVault(tmp_path, keyring=Waiting())
    assert vault.get("a") is None
    vault.set("a", "1")
    asked.set()
    assert TokenVault(tmp_path, keyring=False).get("a") == "1"


def test_the_environment_names_the_place_and_can_switch_the_keyring_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUZENT_DATA_DIR", str(tmp_path / "here"))

    def unwanted() -> Any:
        raise AssertionError("the keyring was asked")

    monkeypatch.setattr(vault_module, "_system_keyring", unwanted)
    vault = TokenVault()
    vault.set("a", "1")
    assert vault.directory == tmp_path / "here" and vault.get("a") == "1"
    monkeypatch.delenv("SUZENT_DATA_DIR")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    assert TokenVault().directory == tmp_path / "jupyter" / "suzent"
