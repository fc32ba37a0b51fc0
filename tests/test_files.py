"""Files for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from suzent_jupyter._file_locks import try_lock, unlock
from suzent_jupyter._files import create_file, read_private, replace_file

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes as in POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one: others use ``tmp_path`` too."""
    made = tmp_path / "files"
    made.mkdir()
    return made


def test_what_is_replaced_is_whole_and_leaves_no_draft(folder: Path) -> None:
    path = folder / "facts.json"
    for data, durable in ((b"one", True), (b"two", False)):
        replace_file(path, data, durable=durable)
        assert path.read_bytes() == data
    assert os.name != "posix" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(folder.iterdir()) == [path]


def test_what_can_not_be_replaced_stays_and_leaves_no_draft(folder: Path) -> None:
    (folder / "taken" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        replace_file(folder / "taken", b"x")
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_what_is_there_is_not_created_again(folder: Path) -> None:
    path = folder / "key"
    create_file(path, b"first")
    create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(folder.iterdir()) == [path]


def test_a_private_file_is_read_up_to_a_size(folder: Path) -> None:
    path = folder / "facts.json"
    replace_file(path, b"abcdef")
    assert (read_private(path), read_private(path, 3)) == (b"abcdef", b"abc")


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_others_may_touch_is_not_trusted(folder: Path, mode: int) -> None:
    path = folder / "facts.json"
    replace_file(path, b"x")
    path.chmod(mode)
    with pytest.raises(PermissionError):
        read_private(path)


@posix
def test_a_link_is_not_followed(folder: Path) -> None:
    replace_file(folder / "real", b"x")
    (folder / "link").symlink_to(folder / "real")
    with pytest.raises(OSError):
        read_private(folder / "link")


def test_a_lock_is_one_holders_until_let_go(folder: Path) -> None:
    first, second = (os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600) for _ in range(2))
    try:
        assert try_lock(first)
        assert not try_lock(second)
        unlock(first)
        assert try_lock(second)
    finally:
        os.close(first)
        os.close(second)
