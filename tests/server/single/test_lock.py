"""The lock of a data_dir: one holder, gone with its process, and heirs before newcomers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import wait_for

from suzent_jupyter.server.single.lock import GatewayLock, NoLockError

HOLD = """
import sys
from pathlib import Path
from suzent_jupyter.server.single.lock import GatewayLock
lock = GatewayLock(Path(sys.argv[1]))
print(lock.take(), flush=True)
if len(sys.argv) > 2:
    import os
    if os.fork():
        sys.stdin.read()
    else:
        os.close(0)
        import time
        time.sleep(60)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"


def test_one_holder_at_a_time(directory: Path) -> None:
    one, two = GatewayLock(directory), GatewayLock(directory)
    assert one.take()
    assert one.take()  # again
    assert not two.take()
    one.write_note({"pid": 1})
    assert two.read_note() == {"pid": 1}
    one.close()
    one.close()
    assert two.take()
    assert two.read_note() == {}  # what the last one said is over
    two.close()


def test_its_files_are_private(directory: Path) -> None:
    lock = GatewayLock(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    lock.close()


def test_guests_come_before_newcomers(directory: Path) -> None:
    host, guest, newcomer = GatewayLock(directory), GatewayLock(directory), GatewayLock(directory)
    assert host.take()
    guest.join()
    host.close()
    assert not newcomer.take()
    assert guest.take()
    guest.close()
    assert newcomer.take()
    newcomer.close()


def test_a_newcomer_does_not_wait_forever_for_guests_that_hang(directory: Path) -> None:
    host, guest, newcomer = GatewayLock(directory), GatewayLock(directory), GatewayLock(directory)
    assert host.take()
    guest.join()
    host.close()
    assert not newcomer.take()
    assert newcomer.take_over_from_the_dead()
    assert not guest.take()
    for lock in (guest, newcomer):
        lock.close()


@pytest.mark.parametrize("forks", [[], ["forks"]])
def test_it_dies_with_its_process_though_a_forked_child_lives_on(directory: Path, forks: list[str]) -> None:
    if forks and not hasattr(os, "fork"):
        pytest.skip("no fork here")
    command = [sys.executable, "-c", HOLD, str(directory), *forks]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == b"True"
            lock = GatewayLock(directory)
            assert not lock.take()
            holder.kill()
            wait_for(lock.take, 5)
            lock.close()
        finally:
            os.killpg(holder.pid, 9)


def test_where_nothing_can_be_made_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NoLockError):
        GatewayLock(tmp_path / "file" / "data")


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    directory.mkdir()
    (directory / "gateway.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(NoLockError):
        GatewayLock(directory)
    assert not (tmp_path / "victim").exists()
