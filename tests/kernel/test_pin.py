"""A notebook, a terminal and their gateway's key: pinned by hand or by link, remembered, checked before the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.running import sync
from support.tls import make_authority, make_certificate, recorder
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, NoGateway, Untrusted, connect
from suzent_jupyter.kernel.errors import Unreachable
from suzent_jupyter.kernel.wire import Invoke
from suzent_jupyter.node.vault import TokenVault


@pytest.fixture(autouse=True)
def own_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenVault:
    monkeypatch.setenv("SUZENT_KEYRING", "off")
    monkeypatch.setenv("SUZENT_DATA_DIR", str(tmp_path / "vault"))
    return TokenVault()


@pytest.fixture
def secure(make_gateway: Callable[..., ThreadedGateway], tmp_path: Path) -> Iterator[ThreadedGateway]:
    gateway = make_gateway(tls="auto", tls_port=0)
    gateway.tls_url = f"https://127.0.0.1:{gateway.service.tls_port}"  # type: ignore[attr-defined]
    yield gateway


def works(gateway: Gateway) -> bool:
    """Use both ways to the gateway, HTTP and the socket."""
    with gateway:
        assert gateway.get("/nodes")["count"] == 0
        gateway._mirror.start()
        return bool(wait_for(lambda: gateway._channel.connected))


def test_a_pin_is_checked_and_remembered(secure: Any, own_vault: TokenVault, make_phone: Callable[..., Any]) -> None:
    url, pin = secure.tls_url, secure.service.pin
    with Gateway(url, secure.token) as unknown, pytest.raises(Untrusted, match="pairing link") as refused:
        unknown.get("/nodes")
    assert not refused.value.retryable
    with Gateway(url, secure.token, pin="A" * 43) as wrong, pytest.raises(Untrusted, match="another key"):
        wrong.get("/nodes")
    assert own_vault.get(f"pin:{url}") is None
    assert works(connect(url, secure.token, pin=pin))
    assert own_vault.get(f"pin:{url}") == pin
    assert works(connect(url, secure.token))
    own_vault.set(f"pin:{url}", "A" * 43)
    with Gateway(url, secure.token) as changed, pytest.raises(Untrusted, match="new pairing link"):
        changed.get("/nodes")
    assert works(connect(f"{url}/node#join=t&pin={pin}", secure.token))
    assert own_vault.get(f"pin:{url}") == pin
    make_phone(secure).approve()
    with connect(url, secure.token) as gateway:
        assert gateway.invoke("MyPhone", "echo", {"text": "hi"}).data == {"text": "hi"}


@sync
async def test_the_token_never_reaches_another_key(tmp_path: Path) -> None:
    right, wrong = make_certificate(tmp_path, "right"), make_certificate(tmp_path, "wrong")
    async with recorder(wrong) as other:

        def ask() -> None:
            with Gateway(f"https://127.0.0.1:{other.port}", "szt_secret", pin=right.pin) as gateway:
                with pytest.raises(Untrusted, match="another key"):
                    gateway.get("/nodes")
                with pytest.raises(Untrusted, match="another key"):
                    gateway.post("/nodes/host-token")
                with pytest.raises(Untrusted, match="another key"):
                    gateway._channel.call(Invoke("n", "c", {}, 5), None)

        await asyncio.to_thread(ask)
        assert other.connections >= 1
        assert other.said == b""


def test_the_environment_and_the_magic(
    secure: Any, own_vault: TokenVault, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, pin = secure.tls_url, secure.service.pin
    error = shell.fail(f"%suzent use {url} --token {secure.token}")
    assert isinstance(error, Untrusted)
    assert error._render_traceback_() == [error.line]
    assert url in str(shell.run(f"%suzent use {url} --token {secure.token} --pin {pin}"))
    assert own_vault.get(f"pin:{url}") == pin
    monkeypatch.setenv("SUZENT_BASE_URL", url.replace("://", f"://suzent:{secure.token}@"))
    assert works(connect())
    own_vault.delete(f"pin:{url}")
    monkeypatch.setenv("SUZENT_BASE_URL", f"{url}/node#pin={pin}")
    monkeypatch.setenv("SUZENT_TOKEN", secure.token)
    assert works(connect())


def test_the_command_line(secure: Any, own_vault: TokenVault) -> None:
    from typer.testing import CliRunner

    from suzent_jupyter.cli.app import app

    def run(url: str) -> Any:
        return CliRunner().invoke(app, ["node", "list", "--url", url, "--token", secure.token])

    refused = run(secure.tls_url)
    assert refused.exit_code == 1
    assert "Use its pairing link" in refused.output
    assert refused.output.count("\n") == 1
    for address in (f"{secure.tls_url}/node#pin={secure.service.pin}", secure.tls_url):
        assert run(address).exit_code == 0, address


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"days": (-9, -2)}, "has expired"),
        ({"days": (2, 9)}, "not valid yet"),
        ({"sans": ["elsewhere.example"]}, "made out to another name"),
    ],
)
@sync
async def test_each_flaw_has_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], told: str
) -> None:
    authority = make_authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with recorder(make_certificate(tmp_path, signed_by=authority, **made)) as other:

        def ask() -> str:
            with Gateway(f"https://127.0.0.1:{other.port}", "szt_secret") as gateway, pytest.raises(Untrusted) as error:
                gateway.get("/nodes")
            return error.value.line

        assert told in await asyncio.to_thread(ask)
        assert other.said == b""


def test_an_authoritys_word_is_enough(
    make_gateway: Callable[..., ThreadedGateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = make_authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    gateway = make_gateway(tls_port=0, **make_certificate(tmp_path, signed_by=authority).files())
    assert works(connect(f"https://127.0.0.1:{gateway.service.tls_port}", gateway.token))


def test_the_wrong_scheme_is_told(secure: Any) -> None:
    plain = secure.tls_url.replace("https", "http")
    with Gateway(plain, secure.token) as gateway, pytest.raises(Unreachable, match="use wss:// or https://"):
        gateway.get("/nodes")


def test_what_is_no_pin_or_no_tls_is_an_error() -> None:
    good = "A" * 43
    for url, pin, told in (
        ("https://127.0.0.1", "x", "copy the whole"),
        ("http://127.0.0.1", good, "goes with TLS"),
        (f"http://127.0.0.1/node#pin={good}", None, "goes with TLS"),
        ("https://127.0.0.1/node#pin=abc", None, "damaged"),
        (f"https://127.0.0.1/node#pin={good}", "B" * 43, "different keys"),
    ):
        with pytest.raises(NoGateway, match=told), Gateway(url, "szt_x", pin=pin) as gateway:
            gateway.get("/nodes")
