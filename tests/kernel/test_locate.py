"""Finding the gateway."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway

from suzent_jupyter.kernel import Gateway, NoGateway, connect
from suzent_jupyter.kernel.errors import Unreachable
from suzent_jupyter.kernel.locate import Locator, Secret, Target, locate, parse_url, running

TOKEN = "szt_not-to-be-seen-anywhere"


def write_runtime(pid: int | None = None, mode: int = 0o600, **facts: Any) -> Path:
    directory = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    pid = os.getpid() if pid is None else pid
    path = directory / f"suzent-{pid}.json"
    body = {"pid": pid, "url": "http://127.0.0.1:25314", "token": TOKEN, "mount_url": None, **facts}
    path.write_text(json.dumps(body))
    path.chmod(mode)
    return path


def test_an_argument_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:other@127.0.0.1:1")
    target = locate("http://suzent:szt_a%2Fb@127.0.0.1:25314/user/a@b/suzent/")
    assert target.url == "http://127.0.0.1:25314/user/a@b/suzent"
    assert target.socket_url == "ws://127.0.0.1:25314/user/a@b/suzent/ws/client"
    assert target.token == Secret("szt_a/b")
    assert parse_url("https://host/suzent", None, "").socket_url == "wss://host/suzent/ws/client"


def test_the_environment_comes_before_running_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    write_runtime()
    monkeypatch.setenv("SUZENT_BASE_URL", "http://127.0.0.1:9999")
    monkeypatch.setenv("SUZENT_TOKEN", "szt_env")
    target = locate()
    assert (target.url, target.token) == ("http://127.0.0.1:9999", Secret("szt_env"))


def test_the_only_running_server_is_taken() -> None:
    write_runtime()
    assert locate().url == "http://127.0.0.1:25314"
    assert locate().headers == {"Authorization": f"Bearer {TOKEN}"}


def test_without_a_listener_the_mount_is_taken() -> None:
    write_runtime(url=None, mount_url="http://127.0.0.1:8888/suzent")
    assert locate().url == "http://127.0.0.1:8888/suzent"


def test_the_server_that_started_the_kernel_wins_over_others(monkeypatch: pytest.MonkeyPatch) -> None:
    write_runtime()
    write_runtime(os.getppid(), url="http://127.0.0.1:2", token="szt_other")
    with pytest.raises(NoGateway) as failure:
        locate()
    assert "http://127.0.0.1:2 " in str(failure.value)
    assert "http://127.0.0.1:25314" in str(failure.value)
    assert TOKEN not in str(failure.value) + repr(failure.value) + repr(failure.value.details)
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getppid()))
    assert locate().url == "http://127.0.0.1:2"


def test_several_servers_of_one_gateway_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    write_runtime(mount_url="http://127.0.0.1:8888/suzent")
    write_runtime(os.getppid(), mount_url="http://127.0.0.1:8889/suzent")
    assert locate().url == "http://127.0.0.1:25314"
    # Without a listener each names its own mount; the kernels' token says that they are one.
    write_runtime(url="http://127.0.0.1:8888/suzent")
    write_runtime(os.getppid(), url="http://127.0.0.1:8889/suzent")
    assert locate().url in ("http://127.0.0.1:8888/suzent", "http://127.0.0.1:8889/suzent")
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getppid()))
    assert locate().url == "http://127.0.0.1:8889/suzent"


def test_stale_foreign_and_broken_files_do_not_count(tmp_path: Path) -> None:
    write_runtime(2**22 + 12345)  # above the largest process number
    write_runtime(mode=0o644)
    assert running() == []
    write_runtime(started_at="2001-01-01T00:00:00+00:00")  # this process is younger than the file
    assert running() == []
    path = write_runtime()
    real = tmp_path / "elsewhere.json"
    path.rename(real)
    path.symlink_to(real)
    assert running() == []
    path.unlink()
    path.write_text("{")
    path.chmod(0o600)
    assert running() == []


def test_the_hub_prefix_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "hub-token")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://0.0.0.0:8888/user/ada/")
    target = locate()
    assert target.url == "http://127.0.0.1:8888/user/ada/suzent"
    assert target.token == Secret("hub-token")


def test_none_is_an_error_that_says_how_to_start_one() -> None:
    with pytest.raises(NoGateway, match="jupyter suzent gateway"):
        connect()


@pytest.mark.parametrize("url", ["szt_x@host", "ftp://a:szt_x@b", "http://", "http://a:szt_x@b:99999", "nonsense"])
def test_a_malformed_url_is_refused_without_showing_the_token(url: str) -> None:
    with pytest.raises(NoGateway) as failure:
        connect(url)
    assert "szt_x" not in str(failure.value)


def test_a_known_token_goes_to_its_own_gateway_only(monkeypatch: pytest.MonkeyPatch) -> None:
    write_runtime()
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_env@127.0.0.1:7")
    assert locate("http://127.0.0.1:25314").token == Secret(TOKEN)
    assert locate("http://127.0.0.1:7/").token == Secret("szt_env")
    assert locate("http://gateway.example:25314").token is None


def test_tokens_do_not_show() -> None:
    target = Target("http://h", Secret(TOKEN), "argument")
    gateway = connect(f"http://suzent:{TOKEN}@127.0.0.1:25314")
    for text in (repr(target), str(target), repr(target.token), repr(gateway), str(gateway), f"{gateway.url}"):
        assert TOKEN not in text
    with pytest.raises(TypeError):
        pickle.dumps(target.token)


def test_looking_again_finds_a_new_token_but_no_other_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_old@127.0.0.1:25314")
    locator = Locator()
    failed = locator.target
    assert locator.again(failed) is None
    write_runtime(token="szt_new")
    moved = locator.again(failed)
    assert moved is not None
    assert moved.token == Secret("szt_new")
    assert locator.again(failed) is moved  # another thread has looked
    write_runtime(url="http://127.0.0.1:4", token="szt_new")
    assert locator.again(moved) is None
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getpid()))
    own = locator.again(moved)
    assert own is not None
    assert own.url == "http://127.0.0.1:4"


@pytest.mark.parametrize("use", [lambda gw: gw.nodes, lambda gw: gw.invoke("a", "b")])
def test_a_named_gateway_that_is_dead_is_not_replaced_by_the_servers_own(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, use: Callable[[Gateway], Any]
) -> None:
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getpid()))  # whose runtime file the gateway of this test wrote
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_other@127.0.0.1:9")
    with connect() as gw:
        with pytest.raises(Unreachable) as failure:
            use(gw)
        assert "http://127.0.0.1:9, named by SUZENT_BASE_URL, is not running" in str(failure.value)
        assert "del os.environ['SUZENT_BASE_URL']" in failure.value.hint
        assert "szt_other" not in str(failure.value)
        monkeypatch.delenv("SUZENT_BASE_URL")
        assert list(gw.nodes.index) == []
        assert gw.url == gateway.url


@pytest.mark.parametrize("apart", [False, True])
def test_a_server_that_listens_on_another_port_by_now_is_followed(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getpid()))
    monkeypatch.setenv("SUZENT_BASE_URL", f"http://{'' if apart else f'suzent:{gateway.token}@'}127.0.0.1:9")
    monkeypatch.setenv("SUZENT_TOKEN", gateway.token if apart else "szt_other")
    with connect() as gw:
        assert list(gw.nodes.index) == []
        assert gw.url == gateway.url
